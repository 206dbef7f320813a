/** Reads what a checkpoint refers to, without a lease on it. */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import type { CatalogCheckpoint } from '../../format/index.ts';
import { findById } from '../../plan/state.ts';
import type { Catalog } from '../catalog/index.ts';
import type { RunContext } from './context.ts';

/**
 * `null`: the checkpoint was removed meanwhile. A record that `read` did not find is then no
 * damage.
 */
export async function unlessRemoved<T>(
  catalog: Catalog,
  id: CheckpointId,
  signal: AbortSignal | undefined,
  read: () => Promise<T>,
): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    const { answer } = await catalog.ask(({ state }) => findById(state, id), signal);
    if (answer) throw error;
    return null;
  }
}

/**
 * The error of a reading that failed. Another process can remove a checkpoint that is read without
 * a valid lease: the store cannot be written, or the process was suspended. Then a missing object
 * is no damage, so `Corrupt` becomes `NotFound`. Cost for `Corrupt`: a look at the catalog.
 */
export async function unlessRemovedMeanwhile(
  run: RunContext,
  { id }: CatalogCheckpoint,
  error: unknown,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  if (!isCheckpointError(error, 'Corrupt')) return error;
  const { answer: isThere } = await run.catalog.ask(({ state }) => findById(state, id) !== undefined, signal);
  if (isThere) return error;
  return new CheckpointError('NotFound', `version ${id.version} was removed while it was read`, {
    context: { store: run.store.uri, version: id.version, removed: true },
    cause: error,
  });
}
