/** Pictures of sizes and metrics, in the order of the commits. */

import { h } from 'preact';
import { useState } from 'preact/hooks';
import type { BestOf, Point } from '../src/api.ts';
import { type Frame, frameOf, ValueAxis, VersionAxis } from './axes.ts';
import { useChosenPoint } from './chosen-point.ts';
import { useWidth } from './live.ts';
import { badgeText } from './parts.ts';
import { byteTicksOf, type Scale, scaleOf, stepsOf, ticksOf } from './scale.ts';
import { bytes, metric, time } from './words.ts';

const HEIGHT = 200;

interface Picture {
  readonly label: string;
  readonly points: readonly Point[];
  readonly valuesOf: (point: Point) => readonly number[];
  readonly isFromZero: boolean;
  readonly text: (value: number) => string;
  readonly ticksIn?: typeof ticksOf;
  readonly readout: (point: Point) => string;
  readonly hint: string;
  readonly draw: (scales: { readonly x: Scale; readonly y: Scale; readonly frame: Frame }) => unknown;
}

/** A picture over versions with axes, whose points can be read with pointer and arrow keys. */
function PointPicture(picture: Picture) {
  const { label, points, valuesOf, isFromZero, text, ticksIn = ticksOf, readout, hint, draw } = picture;
  const [element, width] = useWidth();
  const frame = frameOf(width, HEIGHT);
  const x = stepsOf(
    points.map(({ atMs }) => atMs),
    [frame.left + 14, width - frame.right - 14],
  );
  const y = scaleOf(points.flatMap(valuesOf), [HEIGHT - frame.bottom, frame.top + 4], { isFromZero });
  const { at, handlers } = useChosenPoint(points.map(({ atMs }) => x.at(atMs)));
  const chosen = points[at];
  const props = {
    width,
    height: HEIGHT,
    role: 'application',
    'aria-label': label,
    tabindex: 0,
    ...handlers,
  };
  return h(
    'div',
    { class: 'picture', ref: element },
    width === 0
      ? null
      : h(
          'svg',
          props,
          h(VersionAxis, { x, frame, points }),
          h(ValueAxis, { y, frame, text, ticksIn }),
          draw({ x, y, frame }) as never,
          chosen
            ? h('line', {
                class: 'cursor',
                x1: x.at(chosen.atMs),
                x2: x.at(chosen.atMs),
                y1: frame.top,
                y2: HEIGHT - frame.bottom,
              })
            : null,
        ),
    h('p', { class: 'readout', 'aria-live': 'polite' }, chosen ? readout(chosen) : hint),
  );
}

export function SizeChart({ points }: { points: readonly Point[] }) {
  const barWidth = (frame: Frame) =>
    Math.max(1.5, Math.min(24, (frame.width - frame.left) / (points.length * 1.6)));
  return h(PointPicture, {
    label: 'Size of each version in the order of commits, arrow keys move',
    points,
    valuesOf: ({ sizeBytes }) => [sizeBytes],
    isFromZero: true,
    text: bytes,
    ticksIn: byteTicksOf,
    hint: 'Filled: bytes that were sent for the version. Pale: bytes that it shares with older versions.',
    readout: ({ version, atMs, sizeBytes, storedBytes }) =>
      `Version ${version} · ${time(atMs)} · ${bytes(sizeBytes)}: ${bytes(storedBytes)} stored, ${bytes(sizeBytes - storedBytes)} shared`,
    draw: ({ x, y, frame }) =>
      points.map(({ version, lineage, atMs, sizeBytes, storedBytes }) => {
        const width = barWidth(frame);
        const bar = (name: string, from: number, to: number) =>
          h('rect', {
            class: name,
            x: x.at(atMs) - width / 2,
            y: y.at(to),
            width,
            height: Math.max(0, y.at(from) - y.at(to)),
          });
        return h(
          'g',
          { key: `${lineage}.${version}.${atMs}` },
          bar('bar stored', 0, storedBytes),
          bar('bar shared', storedBytes, sizeBytes),
        );
      }),
  });
}

export function MetricChart({
  points,
  names,
  best,
}: {
  points: readonly Point[];
  names: readonly string[];
  best: readonly BestOf[];
}) {
  const [chosen, setChosen] = useState<string | null>(null);
  const name = chosen !== null && names.includes(chosen) ? chosen : (best[0]?.metric ?? names[0] ?? '');
  const own = points.filter(({ metrics }) => metrics[name] !== undefined);
  const metricOf = (point: Point) => point.metrics[name] as number;
  const rule = best.find((each) => each.metric === name);
  const bestKeys = new Set(rule?.best.map(({ lineage, epoch, version }) => `${lineage}.${epoch}.${version}`));
  const isBest = ({ lineage, epoch, version }: Point) => bestKeys.has(`${lineage}.${epoch}.${version}`);
  return h(
    'div',
    null,
    h(
      'div',
      { class: 'controls' },
      h(
        'label',
        null,
        'Metric ',
        h(
          'select',
          {
            value: name,
            onChange: (event: Event) => setChosen((event.currentTarget as HTMLSelectElement).value),
          },
          names.map((each) => h('option', { key: each, value: each }, each.slice(0, 80))),
        ),
      ),
    ),
    h(PointPicture, {
      label: `${name.slice(0, 80)} of each version in the order of commits, arrow keys move`,
      points: own,
      valuesOf: (point) => [metricOf(point)],
      isFromZero: false,
      text: metric,
      hint: `${rule ? `Diamonds: the best ${rule.best.length} (${rule.mode}), which a rule keeps. ` : ''}Filled: retention keeps the version. Hollow: it goes.`,
      readout: (point) =>
        [
          `Version ${point.version}`,
          `${name} ${metric(metricOf(point))}`,
          time(point.atMs),
          ...(isBest(point) ? ['best'] : []),
          ...badgeText(point),
        ].join(' · '),
      draw: ({ x, y }) => [
        ...pathsOf(own).map((part) =>
          h('path', {
            key: `line ${part[0]?.lineage}.${part[0]?.epoch}`,
            class: `line c${(part[0]?.lineage ?? 0) % 6}`,
            d: part
              .map((point, index) => `${index === 0 ? 'M' : 'L'}${x.at(point.atMs)} ${y.at(metricOf(point))}`)
              .join(''),
          }),
        ),
        ...own.map((point) => {
          const [cx, cy] = [x.at(point.atMs), y.at(metricOf(point))];
          const name = `dot c${point.lineage % 6} ${point.isKept ? '' : 'hollow'}`;
          return isBest(point)
            ? h('path', { key: keyOf(point), class: `${name} best`, d: `M${cx} ${cy - 7}l7 7l-7 7l-7 -7Z` })
            : h('circle', { key: keyOf(point), class: name, cx, cy, r: 3 });
        }),
      ],
    }),
  );
}

function keyOf({ lineage, epoch, version }: Point): string {
  return `${lineage}.${epoch}.${version}`;
}

/** The points of each attempt. */
function pathsOf(points: readonly Point[]): Point[][] {
  return [...Map.groupBy(points, ({ lineage, epoch }) => `${lineage}.${epoch}`).values()];
}
