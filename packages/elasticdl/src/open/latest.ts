import { callback, checkSome, flag, isCheckpointError, optional } from '@holdfast/core/contract';
import type { CheckOptions } from '../reading-options.ts';
import { CHECK } from '../reading-options.ts';
import type { ShardSet } from '../shard-set.ts';
import { checkShards } from './check.ts';
import { type FoundVersion, findVersions, openFound, type Place } from './place.ts';

export interface LatestOptions extends CheckOptions {
  /** Accept a version only if `checkShards` finds no error. Default: names decide. */
  readonly deep?: boolean | undefined;
  /** Called for each newer version that is skipped, with the reason in words. */
  readonly onSkipped?: ((found: FoundVersion, reason: string) => void) | undefined;
}

/**
 * The newest version with all its shards; `null` if there is none. Skips versions that are
 * incomplete, were removed meanwhile or, with `deep`, do not decode.
 */
export async function latestValid(place: Place, options: LatestOptions = {}): Promise<ShardSet | null> {
  checkSome(options, { ...CHECK, deep: optional(flag), onSkipped: optional(callback) });
  const look = (set: ShardSet) => (options.deep ? checkShards(set, options) : Promise.resolve(null));
  const versions = await findVersions(place, options);
  for (const found of versions) {
    const valid = await openIfValid(() => openFound(place, found, { ...options, versions }), look);
    if ('set' in valid) return valid.set;
    options.onSkipped?.(found, valid.reason);
  }
  return null;
}

/**
 * Opens a set and runs `look` on it. If the version is unusable, resolves to the `reason`, in
 * words, and closes the set. Throws other errors.
 */
export async function openIfValid<T>(
  open: () => Promise<ShardSet>,
  look: (set: ShardSet) => Promise<T>,
): Promise<{ readonly set: ShardSet; readonly seen: T } | { readonly reason: string }> {
  let set: ShardSet | undefined;
  try {
    set = await open();
    return { set, seen: await look(set) };
  } catch (error) {
    await set?.close();
    const isOfNoUse =
      isCheckpointError(error, 'Corrupt') ||
      isCheckpointError(error, 'NotFound') ||
      isCheckpointError(error, 'SourceChanged');
    if (!isOfNoUse) throw error;
    return { reason: error.message };
  }
}
