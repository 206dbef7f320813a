/**
 * The picture of a run: when each version was committed. A line for each attempt rises with its
 * commits. A rollback begins a line of another colour further down, and the line that it left
 * behind is dashed.
 */

import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { AttemptSpan, CopyOrigin, EventRow, Point } from '../src/api.ts';
import { frameOf, TimeAxis, ValueAxis, VersionAxis } from './axes.ts';
import { useChosenPoint } from './chosen-point.ts';
import { useWidth } from './live.ts';
import { badgeText, versionLink } from './parts.ts';
import { type Scale, scaleOf, stepsOf } from './scale.ts';
import {
  attemptKey,
  EventMark,
  HEIGHT,
  type InPicture,
  isMarked,
  MarkLegend,
  marksInside,
  OriginMark,
} from './timeline-marks.ts';
import { bytes, count, plural, time } from './words.ts';

/** Colours repeat after so many lineages. */
const COLORS = 6;

interface TimelineProps {
  readonly uri: string;
  readonly points: readonly Point[];
  readonly attempts: readonly AttemptSpan[];
  readonly events: readonly EventRow[];
  readonly origin: CopyOrigin | null;
}

export function Timeline({ uri, points, attempts, events, origin }: TimelineProps) {
  const [element, width] = useWidth();
  const [isStepped, setStepped] = useState(false);
  const frame = frameOf(width, HEIGHT);
  const marks = events.filter(isMarked);
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
  const { at, handlers } = useChosenPoint(points.map(({ atMs }) => x.at(atMs)));
  const chosen = points[at];
  const open = () => {
    if (chosen) location.hash = versionLink(uri, chosen);
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
            onPointerMove: handlers.onPointerMove,
            onKeyDown: (event: KeyboardEvent) => {
              if (event.key === 'Enter') open();
              else handlers.onKeyDown(event);
            },
            onClick: open,
          },
          isStepped ? h(VersionAxis, { x, frame, points }) : h(TimeAxis, { x, frame }),
          h(ValueAxis, { y, frame, text: count }),
          h(AttemptBands, { attempts, x, top: HEIGHT - frame.bottom - 22 }),
          attempts.map((attempt) => h(AttemptLine, { key: attemptKey(attempt), attempt, points, x, y })),
          h(Turns, { attempts, points, events, x, y }),
          marksInside(marks, points).map((event) => h(EventMark, { key: event.seq, event, x })),
          origin ? h(OriginMark, { origin, points, x, y }) : null,
          points.map((each) => h(Dot, { key: `${attemptKey(each)}.${each.version}`, point: each, x, y })),
          chosen
            ? h('circle', { class: 'chosen', cx: x.at(chosen.atMs), cy: y.at(Number(chosen.version)), r: 9 })
            : null,
        ),
    h('p', { class: 'readout', 'aria-live': 'polite' }, chosen ? readout(chosen) : legend(attempts)),
    h(MarkLegend, { marks, origin }),
    h(StepChoice, { isStepped, onChange: setStepped }),
  );
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

function AttemptLine({
  attempt,
  points,
  x,
  y,
}: InPicture & { attempt: AttemptSpan; points: readonly Point[] }) {
  const own = points.filter((point) => attemptKey(point) === attemptKey(attempt));
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
function Turns({
  attempts,
  points,
  events,
  x,
  y,
}: InPicture & Pick<TimelineProps, 'attempts' | 'points' | 'events'>) {
  const turns = attempts.slice(1).flatMap((attempt, index) => {
    const before = points.findLast(
      (point) => attemptKey(point) === attemptKey(attempts[index] as AttemptSpan),
    );
    const after = points.find((point) => attemptKey(point) === attemptKey(attempt));
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
        { key: attemptKey(after) },
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
        { key: attemptKey(attempt) },
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
