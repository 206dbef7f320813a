/** The keys of all objects that the checkpoints of the catalog need, as their records say. */

import { atATime } from '../../contract/at-a-time.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { type CatalogCheckpoint, checkpointPrefix, type Manifest, toHex } from '../../format/index.ts';
import { receiptPlaces } from '../../plan/file-lists.ts';
import { checkpointText } from '../../plan/select.ts';
import type { HeldKeys } from '../../plan/sweep.ts';
import {
  isUnreadable,
  readAllReceipts,
  readLists,
  readManifest,
  readSlices,
  type Slice,
} from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/** Keys remembered for all manifests together: about 20 MB. */
const KEYS_REMEMBERED_MAX = 100_000;

/**
 * For each run, as long as its manager exists. A manifest never changes, so a later sweep need not
 * read it again.
 */
const remembered = new WeakMap<RunContext, Map<string, HeldKeys>>();

/**
 * All keys that each checkpoint holds. Throws for the first record that cannot be read: without it,
 * the objects to keep are not known. Exception: a checkpoint for which `heldWithoutManifest`
 * returns keys.
 *
 * Cost: one GET per checkpoint, and one for each receipt and file list that it refers to. Records
 * that this manager has read before cost nothing.
 */
export async function readHeldKeys(
  run: RunContext,
  checkpoints: readonly CatalogCheckpoint[],
  signal: AbortSignal | undefined,
): Promise<HeldKeys[]> {
  const known = remembered.get(run) ?? new Map<string, HeldKeys>();
  const { preferredConcurrency } = run.store.capabilities;
  const held = await atATime(checkpoints, preferredConcurrency, async (checkpoint) => {
    const name = nameOf(checkpoint);
    const keys = known.get(name) ?? (await readKeys(run, checkpoint, signal));
    return { name, keys };
  });
  remembered.set(run, newest(held));
  return held.map(({ keys }) => keys);
}

async function readKeys(
  run: RunContext,
  checkpoint: CatalogCheckpoint,
  signal: AbortSignal | undefined,
): Promise<HeldKeys> {
  try {
    const manifest = await readManifest(run, checkpoint, signal);
    const keys = manifestKeys(checkpoint, manifest);
    for await (const slice of readSlices(run, manifest, { signal })) addSliceKeys(keys, slice);
    return keys;
  } catch (error) {
    const held = isUnreadable(error) ? await heldWithoutManifest(run, checkpoint, signal) : undefined;
    if (held) return held;
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    const which = checkpointText(checkpoint);
    const quarantined = checkpoint.state === 'QUARANTINED';
    const context = { ...error.context, version: checkpoint.id.version, checkpoint: which, quarantined };
    throw new CheckpointError('Corrupt', `version ${which}: ${error.message}`, {
      context,
      cause: error,
    });
  }
}

/** Keys of the manifest and of the receipts. */
export function manifestKeys({ manifestKey }: CatalogCheckpoint, manifest: Manifest): string[] {
  return [manifestKey, ...receiptPlaces(manifest).map(({ key }) => key)];
}

export function addSliceKeys(keys: string[], { files, listKey }: Slice): void {
  for (const { key } of files) keys.push(key);
  if (listKey !== undefined) keys.push(listKey);
}

/**
 * What a sweep must keep for a checkpoint whose manifest, or a record to which it refers, cannot be
 * read: a quarantined checkpoint keeps everything below its prefix. If it shares files with others,
 * it also keeps what any of its receipts names, also those of lives that the manifest did not
 * choose. `undefined`: not known. The checkpoint is not quarantined, or a receipt cannot be read
 * either. Cost: none if it shares no files, else a list request and a GET for each record.
 */
export async function heldWithoutManifest(
  run: RunContext,
  { id, state, bases }: CatalogCheckpoint,
  signal: AbortSignal | undefined,
): Promise<HeldKeys | undefined> {
  if (state !== 'QUARANTINED') return undefined;
  const keys = [checkpointPrefix(id)];
  if (bases.length === 0) return keys;
  try {
    const receipts = await readAllReceipts(run, id, signal);
    if (receipts.length === 0) return undefined;
    for await (const slice of readLists(run, receipts, { signal })) addSliceKeys(keys, slice);
    return keys;
  } catch (error) {
    if (isUnreadable(error)) return undefined;
    throw error;
  }
}

/**
 * Selects what is remembered: the checkpoints of `held` from the newest to the oldest, until there
 * is no room for more. All others are forgotten.
 */
function newest(held: readonly { name: string; keys: HeldKeys }[]): Map<string, HeldKeys> {
  const kept = new Map<string, HeldKeys>();
  let count = 0;
  for (const { name, keys } of held.toReversed()) {
    count += keys.length;
    if (count > KEYS_REMEMBERED_MAX) break;
    kept.set(name, keys);
  }
  return kept;
}

function nameOf({ manifestKey, manifestSha256 }: CatalogCheckpoint): string {
  return `${manifestKey} ${toHex(manifestSha256)}`;
}
