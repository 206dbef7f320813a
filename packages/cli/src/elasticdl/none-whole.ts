/** What is said where a version of ElasticDL cannot be used: why, and whether there is another. */

import { CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import type { Place } from '@holdfast/elasticdl';
import { formatPlural } from '../format.ts';

/** A version that is of no use, and why. */
export interface Skipped {
  readonly version: bigint;
  readonly folder: string;
  readonly reason: string;
}

/** A message stays readable; the context has them all. */
const REASONS_MAX = 3;

export function noneWhole(place: Place, skipped: readonly Skipped[]): CheckpointError {
  const where = place.where('');
  const reasons = skipped.slice(0, REASONS_MAX).map(({ reason }) => reason);
  if (skipped.length > reasons.length) reasons.push(`and ${skipped.length - reasons.length} more`);
  const what = `none of ${formatPlural(skipped.length, 'version')} in ${where} is whole`;
  return new CheckpointError('Corrupt', `${what}: ${reasons.join('; ')}`, {
    context: { path: where, skipped, wholeVersion: null },
  });
}

/** For its advice: the newest other version at the place that is whole; `null`: there is none. */
export function tellingOther(error: unknown, wholeVersion: bigint | null): unknown {
  if (!isCheckpointError(error, 'Corrupt')) return error;
  const context = { ...error.context, wholeVersion };
  return new CheckpointError('Corrupt', error.message, { context, cause: error });
}
