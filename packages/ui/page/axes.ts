/** Axes and labels of the pictures. */

import { h } from 'preact';
import type { Point } from '../src/api.ts';
import { type Scale, ticksOf, timeTicksOf } from './scale.ts';

export interface Frame {
  readonly width: number;
  readonly height: number;
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
}

export function frameOf(width: number, height: number): Frame {
  return { width, height, left: width < 500 ? 56 : 64, right: 14, top: 14, bottom: 24 };
}

export function TimeAxis({ x, frame }: { x: Scale; frame: Frame }) {
  const ticks = timeTicksOf(x, Math.max(2, Math.floor(frame.width / 110)));
  const y = frame.height - frame.bottom;
  return h(
    'g',
    { class: 'axis', 'aria-hidden': 'true' },
    ticks.map(({ atMs, label }) =>
      h(
        'g',
        { key: atMs },
        h('line', { x1: x.at(atMs), x2: x.at(atMs), y1: frame.top, y2: y, class: 'grid' }),
        h('text', { x: x.at(atMs), y: y + 16, 'text-anchor': 'middle' }, label),
      ),
    ),
  );
}

/** Under points at equal distances: the versions of some of them. */
export function VersionAxis({ x, frame, points }: { x: Scale; frame: Frame; points: readonly Point[] }) {
  const every = Math.max(1, Math.ceil(points.length / Math.max(2, Math.floor(frame.width / 80))));
  const y = frame.height - frame.bottom;
  return h(
    'g',
    { class: 'axis', 'aria-hidden': 'true' },
    points
      .filter((_, index) => index % every === 0)
      .map((point) =>
        h(
          'text',
          { key: `${point.epoch}.${point.version}`, x: x.at(point.atMs), y: y + 16, 'text-anchor': 'middle' },
          point.version,
        ),
      ),
  );
}

interface ValueAxisProps {
  readonly y: Scale;
  readonly frame: Frame;
  readonly text: (value: number) => string;
  /** Default: round in decimal. */
  readonly ticksIn?: typeof ticksOf;
}

export function ValueAxis({ y, frame, text, ticksIn = ticksOf }: ValueAxisProps) {
  const ticks = ticksIn(y, Math.max(2, Math.floor(frame.height / 60)));
  return h(
    'g',
    { class: 'axis', 'aria-hidden': 'true' },
    ticks.map((value) =>
      h(
        'g',
        { key: value },
        h('line', {
          x1: frame.left,
          x2: frame.width - frame.right,
          y1: y.at(value),
          y2: y.at(value),
          class: 'grid',
        }),
        h('text', { x: frame.left - 6, y: y.at(value) + 4, 'text-anchor': 'end' }, text(value)),
      ),
    ),
  );
}
