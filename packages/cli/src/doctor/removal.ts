/** Removes what the checks have put into a store. */

import {
  type CheckpointError,
  type Clock,
  type ObjectStore,
  type Random,
  toCheckpointError,
} from '@holdfast/core/contract';
import { patiently } from '@holdfast/testkit';
import { formatPlural } from '../format.ts';
import type { Finding } from './finding.ts';

export interface Removal {
  /** Objects that may still be there. */
  readonly leftCount: number;
  /** The reason; `null`: nothing is left. */
  readonly error: CheckpointError | null;
}

export interface RemovalOptions {
  readonly clock: Clock;
  readonly random: Random;
  readonly prefix: string;
  readonly signal: AbortSignal;
  readonly onRepeat: () => void;
}

/**
 * Deletes all below the prefix, and all other noted keys. A key that was never created counts as
 * removed. Never rejects.
 */
export async function removeBelow(
  store: ObjectStore,
  noted: readonly string[],
  options: RemovalOptions,
): Promise<Removal> {
  const { signal } = options;
  let leftCount = noted.length;
  try {
    const found = await listed(store, options);
    const keys = [...new Set([...noted, ...found.keys])];
    leftCount = keys.length;
    const results = await patiently(options, () => store.deleteMany(keys, { signal }));
    const failed = results.filter((result) => result.error !== undefined);
    // Without permission to list, use the noted keys.
    const unseen = noted.length === 0 ? found.error : null;
    return { leftCount: failed.length, error: failed[0]?.error ?? unseen };
  } catch (error) {
    return { leftCount, error: toCheckpointError(error) };
  }
}

/** Includes objects of calls that were given up but took effect. */
async function listed(
  store: ObjectStore,
  { prefix, signal }: RemovalOptions,
): Promise<{ keys: string[]; error: CheckpointError | null }> {
  const listedKeys: string[] = [];
  let error: CheckpointError | null = null;
  try {
    for await (const page of store.list(prefix, { signal }))
      listedKeys.push(...page.objects.map((object) => object.key));
  } catch (thrown) {
    error = toCheckpointError(thrown); // The keys listed so far can still be removed.
  }
  // A store that lists foreign keys must not make us delete them.
  return { keys: listedKeys.filter((key) => key.startsWith(prefix)), error };
}

export function removalFinding({ leftCount, error }: Removal, prefix: string, durationMs: number): Finding {
  const common = { id: 'clean-up', title: 'clean up', because: null, durationMs, figures: { leftCount } };
  if (error === null)
    return {
      ...common,
      status: 'ok',
      seen: `nothing is left below ${prefix}`,
      meaning: '',
      advice: '',
      code: null,
    };
  const what = leftCount === 0 ? 'objects may be' : `up to ${formatPlural(leftCount, 'object')}`;
  return {
    ...common,
    status: 'degraded',
    seen: `${what} left below ${prefix}: ${error.message}`,
    meaning: 'they belong to no run and do no harm',
    advice: `delete the objects below ${prefix}`,
    code: error.code,
  };
}
