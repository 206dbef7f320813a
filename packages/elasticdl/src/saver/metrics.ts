/** Shared by all rankings of evaluations: names of metrics, and which of two values is better. */

import { CheckpointError, plainObject, shown as told } from '@holdfast/core/contract';

/** A metric, and whether low or high values are good. */
export interface RankedMetric {
  /** The name under which it was saved. */
  readonly metric: string;
  /** `min`: the lowest value is the best. */
  readonly mode: 'min' | 'max';
}

export type Metrics = Readonly<Record<string, number>>;

const METRICS_NAMED_MAX = 10;

/** `undefined` if it was not measured. Inherited properties are not metrics. */
export function measured(metrics: Metrics, metric: string): number | undefined {
  return Object.hasOwn(metrics, metric) ? metrics[metric] : undefined;
}

/** By how much `value` is better than `other`; negative if it is worse. */
export function gain(value: number, other: number, mode: RankedMetric['mode']): number {
  return mode === 'max' ? value - other : other - value;
}

/** `InvalidArgument` unless it names a metric and one of the two modes. */
export function checkRanked(ranked: RankedMetric): void {
  plainObject('what to rank by', ranked);
  const { metric, mode } = ranked;
  if (typeof metric !== 'string' || metric === '') {
    throw new CheckpointError('InvalidArgument', 'no metric to rank by is given: pass its name');
  }
  if (mode === 'min' || mode === 'max') return;
  throw new CheckpointError(
    'InvalidArgument',
    `the mode of metric "${metric}" is ${told(mode)}; it takes min (low values are good) or max`,
  );
}

/**
 * `InvalidArgument` that names the existing metrics. `lacks`: the beginning of the message, such as
 * `no checkpoint has`.
 */
export function unknownMetric(metric: string, lacks: string, known: Iterable<Metrics>): CheckpointError {
  const names = new Set<string>();
  for (const metrics of known) for (const name of Object.keys(metrics)) names.add(name);
  const shown = [...names].sort().slice(0, METRICS_NAMED_MAX).join(', ');
  const more = names.size > METRICS_NAMED_MAX ? `, … (${names.size} in all)` : '';
  const there = names.size === 0 ? 'there are no metrics' : `there are: ${shown}${more}`;
  return new CheckpointError('InvalidArgument', `${lacks} the metric "${metric}"; ${there}`);
}
