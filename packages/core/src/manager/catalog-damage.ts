/** What of the catalog is damaged: what can be done about it depends on that. */

import { CheckpointError, isCheckpointError } from '../contract/errors.ts';

/**
 * `Corrupt` with `catalog` in its context: which decision cannot be read. Without the newest, nothing can be looked up or decided;
 * only the log needs older ones. An intact entry that belongs elsewhere, as after a rebuild, is not damage.
 */
export async function damageTold<T>(which: 'newest' | 'older', reading: Promise<T>): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt') || error.context['isIntact'] === true) throw error;
    const context = { ...error.context, catalog: which };
    throw new CheckpointError('Corrupt', error.message, { context, cause: error.cause });
  }
}
