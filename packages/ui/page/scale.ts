/** Positions in pictures. Pure. */

import { unitOf } from './words.ts';

export interface Scale {
  readonly min: number;
  readonly max: number;
  /** From a value to pixels. */
  at(value: number): number;
}

/** Linear from `values` to pixels. A single value lies in the middle. */
export function scaleOf(
  values: readonly number[],
  [from, to]: readonly [number, number],
  { isFromZero = false }: { readonly isFromZero?: boolean } = {},
): Scale {
  const finite = values.filter(Number.isFinite);
  let min = isFromZero ? 0 : finite.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  let max = finite.reduce((a, b) => Math.max(a, b), isFromZero ? 0 : Number.NEGATIVE_INFINITY);
  if (finite.length === 0) [min, max] = [0, 1];
  if (min === max) [min, max] = isFromZero ? [0, 1] : [min - 1, max + 1];
  return { min, max, at: (value) => from + ((value - min) / (max - min)) * (to - from) };
}

/**
 * A scale on which all points have the same distance: its values are times, ascending, and the
 * place of a time between two points is in between. Long times without commits take no room.
 */
export function stepsOf(times: readonly number[], [from, to]: readonly [number, number]): Scale {
  const [min, max] = [times[0] ?? 0, times.at(-1) ?? 1];
  const positionOf = (value: number): number => {
    const after = times.findIndex((time) => time >= value);
    if (after < 0) return times.length - 1;
    const [low = 0, high = 0] = [times[after - 1] ?? value, times[after]];
    return after === 0 ? 0 : after - 1 + (high === low ? 1 : (value - low) / (high - low));
  };
  const span = Math.max(1, times.length - 1);
  return { min, max, at: (value) => from + (positionOf(value) / span) * (to - from) };
}

/** About `wanted` round values between the ends of the scale. */
export function ticksOf({ min, max }: Pick<Scale, 'min' | 'max'>, wanted: number): number[] {
  const rough = (max - min) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5, 10].find((each) => each * power >= rough) ?? 10) * power;
  const ticks: number[] = [];
  for (let at = Math.ceil(min / step) * step; at <= max + step * 1e-9; at += step)
    ticks.push(Math.abs(at) < step / 1e6 ? 0 : at);
  return ticks;
}

/** The same for bytes: round in the unit in which the largest is shown. */
export function byteTicksOf({ min, max }: Pick<Scale, 'min' | 'max'>, wanted: number): number[] {
  const unitBytes = 1024 ** unitOf(max);
  const ticks = ticksOf({ min: min / unitBytes, max: max / unitBytes }, wanted);
  return ticks.map((tick) => tick * unitBytes);
}

const SPANS_MS = [
  ...[1, 2, 5, 10, 30].map((seconds) => seconds * 1000),
  ...[1, 2, 5, 10, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 6, 12].map((hours) => hours * 3_600_000),
  ...[1, 2, 7, 14, 30, 90, 365].map((days) => days * 86_400_000),
];

/** About `wanted` round times, each with a short label in UTC. */
export function timeTicksOf(
  { min, max }: Pick<Scale, 'min' | 'max'>,
  wanted: number,
): { readonly atMs: number; readonly label: string }[] {
  const step = SPANS_MS.find((span) => (max - min) / span <= wanted) ?? SPANS_MS.at(-1) ?? 1;
  const ticks: { atMs: number; label: string }[] = [];
  for (let at = Math.ceil(min / step) * step; at <= max && ticks.length < 50; at += step) {
    const text = new Date(at).toISOString();
    const label = step >= 86_400_000 ? text.slice(5, 10) : text.slice(11, step >= 60_000 ? 16 : 19);
    ticks.push({ atMs: at, label: at % 86_400_000 === 0 ? text.slice(5, 10) : label });
  }
  return ticks;
}

/** Index of the value nearest to `wanted`; -1 if there is no value. */
export function nearest(values: readonly number[], wanted: number): number {
  let best = -1;
  for (const [index, value] of values.entries())
    if (best < 0 || Math.abs(value - wanted) < Math.abs((values[best] as number) - wanted)) best = index;
  return best;
}
