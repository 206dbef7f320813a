/** Tells which part of the catalog is damaged: the remedy depends on it. */

import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';

/**
 * Adds `catalog` to the context of a `Corrupt` error: it tells whether the newest entry or an older
 * one cannot be read. Without the newest entry, nothing can be looked up or decided. Only the log
 * needs older entries. An intact entry in the wrong place, as after a rebuild, is not damage.
 */
export async function withDamagedPart<T>(which: 'newest' | 'older', reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt') || error.context['isIntact'] === true) throw error;
    const context = { ...error.context, catalog: which };
    throw new CheckpointError('Corrupt', error.message, { context, cause: error.cause });
  }
}
