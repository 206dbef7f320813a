/** What the checkpoints of the catalog hold on to, as their records say. */

import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import { type CatalogCheckpoint, checkpointPrefix, type Manifest, toHex } from '../format/index.ts';
import { receiptPlaces } from '../plan/file-lists.ts';
import { checkpointText } from '../plan/select.ts';
import type { HeldKeys } from '../plan/sweep.ts';
import type { Engine } from './engine.ts';
import { inBatches } from './in-batches.ts';
import { readManifest } from './manifest.ts';
import { isUnreadable } from './records.ts';
import { readSlices, type Slice } from './slices.ts';

/** Of all manifests that are remembered: about 20 MB. */
const KEYS_REMEMBERED_MAX = 100_000;

/** By the engine of a manager, for as long as it lives. A manifest never changes, so what one sweep has read the next need not. */
const remembered = new WeakMap<Engine, Map<string, HeldKeys>>();

/**
 * Of each checkpoint, all its keys. One GET each, and one for each receipt and file list that it refers to, but for those that this manager
 * has read before. The first record that cannot be read is thrown: without it nobody knows what must stay, but for what `heldWithoutManifest`
 * knows.
 */
export async function readHeldKeys(
  engine: Engine,
  checkpoints: readonly CatalogCheckpoint[],
  signal: AbortSignal | undefined,
): Promise<HeldKeys[]> {
  const known = remembered.get(engine) ?? new Map<string, HeldKeys>();
  const { preferredConcurrency } = engine.store.capabilities;
  const held = await inBatches(checkpoints, preferredConcurrency, async (checkpoint) => {
    const name = nameOf(checkpoint);
    const keys = known.get(name) ?? (await readKeys(engine, checkpoint, signal));
    return { name, keys };
  });
  remembered.set(engine, newest(held));
  return held.map(({ keys }) => keys);
}

async function readKeys(
  engine: Engine,
  checkpoint: CatalogCheckpoint,
  signal: AbortSignal | undefined,
): Promise<HeldKeys> {
  try {
    const manifest = await readManifest(engine, checkpoint, signal);
    const keys = manifestKeys(checkpoint, manifest);
    for await (const slice of readSlices(engine, manifest, { signal })) addSliceKeys(keys, slice);
    return keys;
  } catch (error) {
    const held = isUnreadable(error) ? heldWithoutManifest(checkpoint) : undefined;
    if (held) return held;
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    const which = checkpointText(checkpoint);
    const context = { ...error.context, version: checkpoint.id.version, checkpoint: which };
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

/** Of one that is out of the way already, and shares no files: all that lies below its prefix. `undefined`: only its manifest knows. */
export function heldWithoutManifest({ id, state, bases }: CatalogCheckpoint): HeldKeys | undefined {
  return state === 'QUARANTINED' && bases.length === 0 ? [checkpointPrefix(id)] : undefined;
}

/** Those of checkpoints that are gone are forgotten; of the others as many as there is room for, from the newest on. */
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
