import type { CheckpointError, DeleteResult } from '@holdfast/core/contract';
import { atATime } from './at-a-time.ts';

/** Requests of one `deleteMany` where each key is a request. */
const DELETES_MAX = 32;

/**
 * One request per key, for stores without a batch that is worth its name. `work` deletes one, and
 * takes one that is not there for deleted; a failure of one key does not stop the others, unless
 * the signal has fired.
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
