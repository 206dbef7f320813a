/** What the timeline marks besides commits: decisions, and where copied versions come from. */

import { h } from 'preact';
import type { CopyOrigin, EventRow, Point } from '../src/api.ts';
import { linkTo, Text } from './parts.ts';
import type { Scale } from './scale.ts';

/** Height of the timeline, in pixels. */
export const HEIGHT = 300;

export interface InPicture {
  readonly x: Scale;
  readonly y: Scale;
}

export function attemptKey({ lineage, epoch }: Pick<Point, 'lineage' | 'epoch'>): string {
  return `${lineage}.${epoch}`;
}

/** Decisions that the picture marks, and the sign of each. */
const MARKS: Readonly<Record<string, string>> = {
  takeover: 'M0 -5L5 4L-5 4Z',
  rollback: 'M0 5L5 -4L-5 -4Z',
  quarantine: 'M-4 -4L4 4M4 -4L-4 4',
  abandon: 'M-4 0L4 0',
};

export function isMarked({ kind }: EventRow): boolean {
  return Object.hasOwn(MARKS, kind);
}

/** Decisions before the first commit would press the picture together. */
export function marksInside(marks: readonly EventRow[], points: readonly Point[]): readonly EventRow[] {
  const firstMs = points[0]?.atMs ?? Number.NEGATIVE_INFINITY;
  return marks.filter(({ atMs }) => atMs >= firstMs);
}

const MARK_NAMES: Readonly<Record<string, string>> = {
  takeover: 'a new attempt takes over and fences the former',
  rollback: 'rollback',
  quarantine: 'quarantine',
  abandon: 'a save is abandoned',
};

export function MarkLegend({ marks, origin }: { marks: readonly EventRow[]; origin: CopyOrigin | null }) {
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
    origin
      ? h('li', { key: 'origin', class: 'origin' }, h(OriginSign, null), h(OriginText, { origin }))
      : null,
  );
}

const ORIGIN_SIGN = 'M0 -9L9 0L0 9L-9 0Z';

function OriginSign() {
  return h(
    'svg',
    { width: 14, height: 14, viewBox: '-11 -11 22 22', 'aria-hidden': 'true', class: 'mark origin' },
    h('path', { d: ORIGIN_SIGN }),
  );
}

function OriginText({ origin: { runId, reason, uri } }: { origin: CopyOrigin }) {
  const name = reason === '' ? `copy of run ${runId}` : reason;
  return h(
    'span',
    null,
    uri === null ? null : [h('a', { href: linkTo('run', { uri }) }, 'copied'), ': '],
    h(Text, { text: name, max: 600 }),
  );
}

/** The first version that was copied from another run. */
export function OriginMark({
  origin,
  points,
  x,
  y,
}: InPicture & { origin: CopyOrigin; points: readonly Point[] }) {
  const first = points.find((point) => attemptKey(point) === attemptKey(origin));
  if (first === undefined) return null;
  const place = `translate(${x.at(first.atMs)} ${y.at(Number(first.version))})`;
  return h('g', { class: 'mark origin', transform: place }, h('path', { d: ORIGIN_SIGN }));
}

export function EventMark({ event, x }: { event: EventRow; x: Scale }) {
  return h(
    'g',
    { class: `mark ${event.kind}`, transform: `translate(${x.at(event.atMs)} ${HEIGHT - 24 - 30})` },
    h('title', null, `${event.kind} ${event.attempt} ${event.reason}`),
    h('path', { d: MARKS[event.kind] }),
  );
}
