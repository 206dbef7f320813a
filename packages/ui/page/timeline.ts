/**
 * The picture of a run: when each version was committed. A line for each attempt rises with its
 * commits. A rollback begins a line of another colour further down, and the line that it left
 * behind is dashed.
 */

import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { AttemptSpan, EventRow, Point } from '../src/api.ts';
import { frameOf, TimeAxis, ValueAxis, VersionAxis } from './axes.ts';
import { useWidth } from './live.ts';
import { badgeText, versionLink } from './parts.ts';
import { nearest, type Scale, scaleOf, stepsOf } from './scale.ts';
import { bytes, count, plural, time } from './words.ts';

const HEIGHT = 300;
/** Colours repeat after so many lineages. */
const COLORS = 6;

interface TimelineProps {
  readonly uri: string;
  readonly points: readonly Point[];
  readonly attempts: readonly AttemptSpan[];
  readonly events: readonly EventRow[];
}

export function Timeline({ uri, points, attempts, events }: TimelineProps) {
  const [element, width] = useWidth();
  const [at, setAt] = useState(-1);
  const [isStepped, setStepped] = useState(false);
  const frame = frameOf(width, HEIGHT);
  const marks = events.filter(({ kind }) => Object.hasOwn(MARKS, kind));
  const times = [...points.map(({ atMs }) => atMs), ...marksInside(marks, points).map(({ atMs }) => atMs)];
  const room = [frame.left + 8, width - frame.right - 8] as const;
  const x = isStepped
    ? stepsOf(
        points.map(({ atMs }) => atMs),
        room,
      )
    : scaleOf(times, room);
  const y = scaleOf(
    points.map(({ version }) => Number(version)),
    [HEIGHT - frame.bottom - 34, frame.top + 8],
  );
  const chosen = points[at];
  const move = (step: number) =>
    setAt(Math.min(points.length - 1, Math.max(0, (at < 0 ? points.length : at) + step)));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowLeft') move(-1);
    else if (event.key === 'ArrowRight') move(1);
    else if (event.key === 'Home') setAt(0);
    else if (event.key === 'End') setAt(points.length - 1);
    else if (event.key === 'Enter' && chosen) location.hash = versionLink(uri, chosen);
    else return;
    event.preventDefault();
  };
  const onPointerMove = (event: PointerEvent & { currentTarget: Element }) => {
    const left = event.clientX - event.currentTarget.getBoundingClientRect().left;
    setAt(
      nearest(
        points.map(({ atMs }) => x.at(atMs)),
        left,
      ),
    );
  };
  const label = `Commits over time: ${plural(points.length, 'point')} of ${plural(attempts.length, 'attempt')}. Arrow keys move, Enter opens a version.`;
  return h(
    'div',
    { class: 'picture', ref: element },
    width === 0
      ? null
      : h(
          'svg',
          {
            width,
            height: HEIGHT,
            role: 'application',
            'aria-label': label,
            tabindex: 0,
            onKeyDown,
            onPointerMove,
            onClick: () => {
              if (chosen) location.hash = versionLink(uri, chosen);
            },
          },
          isStepped ? h(VersionAxis, { x, frame, points }) : h(TimeAxis, { x, frame }),
          h(ValueAxis, { y, frame, text: count }),
          h(AttemptBands, { attempts, x, top: HEIGHT - frame.bottom - 22 }),
          attempts.map((attempt) => h(AttemptLine, { key: keyOf(attempt), attempt, points, x, y })),
          h(Turns, { uri, attempts, points, events, x, y }),
          marksInside(marks, points).map((event) => h(EventMark, { key: event.seq, event, x })),
          points.map((each) => h(Dot, { key: `${keyOf(each)}.${each.version}`, point: each, x, y })),
          chosen
            ? h('circle', { class: 'chosen', cx: x.at(chosen.atMs), cy: y.at(Number(chosen.version)), r: 9 })
            : null,
        ),
    h('p', { class: 'readout', 'aria-live': 'polite' }, chosen ? readout(chosen) : legend(attempts)),
    h(MarkLegend, { marks }),
    h(StepChoice, { isStepped, onChange: setStepped }),
  );
}

function keyOf({ lineage, epoch }: Pick<Point, 'lineage' | 'epoch'>): string {
  return `${lineage}.${epoch}`;
}

function readout(point: Point): string {
  const parts = [
    `Version ${point.version}, lineage ${point.lineage}, epoch ${point.epoch}`,
    time(point.atMs),
    `${bytes(point.sizeBytes)}, ${bytes(point.storedBytes)} of it stored`,
    ...badgeText(point),
  ];
  return parts.join(' · ');
}

function legend(attempts: readonly AttemptSpan[]): string {
  const lineages = new Set(attempts.map(({ lineage }) => lineage)).size;
  return `${plural(attempts.length, 'attempt')} in ${plural(lineages, 'lineage')}. Point at the picture, or focus it and use the arrow keys.`;
}

function StepChoice({ isStepped, onChange }: { isStepped: boolean; onChange: (is: boolean) => void }) {
  return h(
    'label',
    { class: 'check' },
    h('input', { type: 'checkbox', checked: isStepped, onChange: () => onChange(!isStepped) }),
    ' Same distance between commits, whatever their time',
  );
}

/** Decisions before the first commit would press the picture together. */
function marksInside(marks: readonly EventRow[], points: readonly Point[]): readonly EventRow[] {
  const firstMs = points[0]?.atMs ?? Number.NEGATIVE_INFINITY;
  return marks.filter(({ atMs }) => atMs >= firstMs);
}

interface InPicture {
  readonly x: Scale;
  readonly y: Scale;
}

function AttemptLine({
  attempt,
  points,
  x,
  y,
}: InPicture & { attempt: AttemptSpan; points: readonly Point[] }) {
  const own = points.filter((point) => keyOf(point) === keyOf(attempt));
  const isLeft = own.some(({ isLeftBehind }) => isLeftBehind);
  const first = own.find(({ isLeftBehind }) => isLeftBehind);
  const path = (part: readonly Point[]) =>
    part
      .map(
        ({ atMs, version }, index) =>
          `${index === 0 ? 'M' : 'L'}${x.at(atMs).toFixed(1)} ${y.at(Number(version)).toFixed(1)}`,
      )
      .join('');
  const cut = first === undefined ? own.length : own.indexOf(first);
  const color = `line c${attempt.lineage % COLORS}`;
  return h(
    'g',
    null,
    h('path', { class: color, d: path(own.slice(0, Math.max(1, cut))) }),
    isLeft ? h('path', { class: `${color} left`, d: path(own.slice(Math.max(0, cut - 1))) }) : null,
  );
}

/**
 * How each attempt follows the former one. It resumes: straight from the last commit, so that the
 * length shows the time without commits. A rollback falls to the version that it went back to.
 */
function Turns({ attempts, points, events, x, y }: InPicture & TimelineProps) {
  const turns = attempts.slice(1).flatMap((attempt, index) => {
    const before = points.findLast((point) => keyOf(point) === keyOf(attempts[index] as AttemptSpan));
    const after = points.find((point) => keyOf(point) === keyOf(attempt));
    if (before === undefined || after === undefined) return [];
    const start = events.find(
      ({ kind, lineage, epoch }) =>
        (kind === 'takeover' || kind === 'rollback') &&
        lineage === attempt.lineage &&
        epoch === attempt.epoch,
    );
    const atMs = start && start.atMs > before.atMs ? Math.min(start.atMs, after.atMs) : after.atMs;
    const isRollback = attempt.lineage !== before.lineage;
    const base = isRollback ? baseOf(points, after) : before;
    return [{ before, after, atMs, isRollback, base: base ?? after }];
  });
  return h(
    'g',
    null,
    turns.map(({ before, after, atMs, isRollback, base }) => {
      const [left, turn] = [x.at(before.atMs), x.at(atMs)];
      const [from, to] = [y.at(Number(before.version)), y.at(Number(base.version))];
      const rise = `M${turn} ${to}L${x.at(after.atMs)} ${y.at(Number(after.version))}`;
      return h(
        'g',
        { key: keyOf(after) },
        h('path', {
          class: isRollback ? 'turn rollback' : 'turn',
          d: `M${left} ${from}L${turn} ${from}L${turn} ${to}`,
        }),
        h('path', { class: `line thin c${after.lineage % COLORS}`, d: rise }),
      );
    }),
  );
}

/** The checkpoint that a rollback went back to: the highest below it that was not left behind. */
function baseOf(points: readonly Point[], after: Point): Point | undefined {
  return points
    .filter((point) => point.lineage < after.lineage && !point.isLeftBehind && point.atMs < after.atMs)
    .filter(({ version }) => BigInt(version) < BigInt(after.version))
    .at(-1);
}

function AttemptBands({ attempts, x, top }: { attempts: readonly AttemptSpan[]; x: Scale; top: number }) {
  return h(
    'g',
    { 'aria-hidden': 'true' },
    attempts.map((attempt, index) => {
      const left = x.at(attempt.firstCommitMs);
      const width = Math.max(3, x.at(attempt.lastCommitMs) - left);
      const text = `${attempt.lineage}.${attempt.epoch}`;
      return h(
        'g',
        { key: keyOf(attempt) },
        h('rect', {
          class: `band c${attempt.lineage % COLORS} ${index % 2 ? 'odd' : ''}`,
          x: left,
          y: top,
          width,
          height: 14,
          rx: 3,
        }),
        width > 8 * text.length
          ? h('text', { class: 'band-text', x: left + width / 2, y: top + 11, 'text-anchor': 'middle' }, text)
          : null,
      );
    }),
  );
}

/** Decisions that the picture marks, and the sign of each. */
const MARKS: Readonly<Record<string, string>> = {
  takeover: 'M0 -5L5 4L-5 4Z',
  rollback: 'M0 5L5 -4L-5 -4Z',
  quarantine: 'M-4 -4L4 4M4 -4L-4 4',
  abandon: 'M-4 0L4 0',
};

const MARK_NAMES: Readonly<Record<string, string>> = {
  takeover: 'a new attempt takes over and fences the former',
  rollback: 'rollback',
  quarantine: 'quarantine',
  abandon: 'a save is abandoned',
};

function MarkLegend({ marks }: { marks: readonly EventRow[] }) {
  const kinds = Object.keys(MARKS).filter((kind) => marks.some((mark) => mark.kind === kind));
  return h(
    'ul',
    { class: 'legend' },
    kinds.map((kind) =>
      h(
        'li',
        { key: kind },
        h(
          'svg',
          { width: 14, height: 14, viewBox: '-7 -7 14 14', 'aria-hidden': 'true', class: `mark ${kind}` },
          h('path', { d: MARKS[kind] }),
        ),
        MARK_NAMES[kind],
      ),
    ),
  );
}

function EventMark({ event, x }: { event: EventRow; x: Scale }) {
  return h(
    'g',
    { class: `mark ${event.kind}`, transform: `translate(${x.at(event.atMs)} ${HEIGHT - 24 - 30})` },
    h('title', null, `${event.kind} ${event.attempt} ${event.reason}`),
    h('path', { d: MARKS[event.kind] }),
  );
}

function Dot({ point, x, y }: InPicture & { point: Point }) {
  const [cx, cy] = [x.at(point.atMs), y.at(Number(point.version))];
  const kind = [
    'dot',
    `c${point.lineage % COLORS}`,
    point.isLeftBehind || point.state === 'retiring' ? 'hollow' : '',
    point.state === 'quarantined' ? 'bad' : '',
  ].join(' ');
  return h(
    'g',
    null,
    h('circle', { class: kind, cx, cy, r: point.isLatest ? 5.5 : 3 }),
    point.isPinned ? h('circle', { class: 'pin-ring', cx, cy, r: 7 }) : null,
  );
}
