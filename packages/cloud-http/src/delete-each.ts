import { atATime, type CheckpointError, type DeleteResult } from '@holdfast/core/contract';

/** Concurrent requests of one `deleteMany` that sends one request per key. */
const DELETES_MAX = 32;

/**
 * Sends one request per key, for stores without a useful batch delete. `work` deletes one key. A
 * missing object counts as deleted. A failure of one key does not stop the others, unless the
 * signal has fired.
 */
export function deleteEach(
  keys: readonly string[],
  signal: AbortSignal | undefined,
  work: (key: string) => Promise<unknown>,
  toError: (error: unknown, key: string) => CheckpointError,
): Promise<DeleteResult[]> {
  return atATime(keys, DELETES_MAX, async (key): Promise<DeleteResult> => {
    try {
      await work(key);
      return { key };
    } catch (error) {
      if (signal?.aborted) throw error;
      return { key, error: toError(error, key) };
    }
  });
}
