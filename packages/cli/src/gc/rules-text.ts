import type { KeepBest, RetentionPolicy } from '@holdfast/core/contract';
import { formatCount, printable } from '../format.ts';

/** What the engine takes where no grace is given. */
export const GRACE_DEFAULT_MS = 3_600_000;

/** `newest 3, multiples of 1,000, best 2 by loss (lowest); grace 1 h`. */
export function rulesText(policy: RetentionPolicy): string {
  const { keepLast, keepEvery, keepEveryMs, keepForMs, keepBest = [], graceMs = GRACE_DEFAULT_MS } = policy;
  const rules = [
    ...(keepLast === undefined ? [] : [`newest ${formatCount(keepLast)}`]),
    ...(keepEvery === undefined ? [] : [`multiples of ${formatCount(keepEvery)}`]),
    ...(keepEveryMs === undefined ? [] : [`first of every ${spanText(keepEveryMs)}`]),
    ...(keepForMs === undefined ? [] : [`younger than ${spanText(keepForMs)}`]),
    ...keepBest.map(bestText),
  ];
  return rules.length === 0 ? NO_RULES : `${rules.join(', ')}; grace ${spanText(graceMs)}`;
}

export const NO_RULES = 'none: everything is kept';

function bestText({ metric, mode, count }: KeepBest): string {
  return `best ${formatCount(count)} by ${printable(metric)} (${mode === 'min' ? 'lowest' : 'highest'})`;
}

/** A span as people set it: the largest unit that it is whole in. */
export function spanText(ms: number): string {
  const units: [number, string][] = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1000, 's'],
  ];
  if (ms === 0) return '0 s';
  const unit = units.find(([size]) => ms % size === 0);
  return unit === undefined ? `${formatCount(ms)} ms` : `${formatCount(ms / unit[0])} ${unit[1]}`;
}
