/** Reads what a checkpoint refers to, without a lease on it. */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { isCheckpointError } from '../../contract/errors.ts';
import { findById } from '../../plan/state.ts';
import type { Catalog } from '../catalog/index.ts';

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
