/**
 * Errors for an ElasticDL version that cannot be used: the reason, and whether there is another
 * version.
 */

import { CheckpointError, isCheckpointError } from '@holdfast/core/contract';
import type { Place } from '@holdfast/elasticdl';
import { formatPlural } from '../format.ts';

/** A version that cannot be used, and the reason. */
export interface Skipped {
  readonly version: bigint;
  readonly folder: string;
  readonly reason: string;
}

/** Limit for the message, so that it stays readable. The context has all reasons. */
const REASONS_MAX = 3;

export function noneWhole(place: Place, skipped: readonly Skipped[]): CheckpointError {
  const where = place.where('');
  const reasons = skipped.slice(0, REASONS_MAX).map(({ reason }) => reason);
  if (skipped.length > reasons.length) reasons.push(`and ${skipped.length - reasons.length} more`);
  const what = `none of ${formatPlural(skipped.length, 'version')} in ${where} is complete`;
  return new CheckpointError('Corrupt', `${what}: ${reasons.join('; ')}`, {
    context: { path: where, skipped, wholeVersion: null },
  });
}

/**
 * Adds the version to advise: the newest other complete version at the place; `null`: there is
 * none.
 */
export function tellingOther(error: unknown, wholeVersion: bigint | null): unknown {
  if (!isCheckpointError(error, 'Corrupt')) return error;
  const context = { ...error.context, wholeVersion };
  return new CheckpointError('Corrupt', error.message, { context, cause: error });
}
