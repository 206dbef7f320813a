import { atATime, type CheckpointError, type DeleteResult } from '@holdfast/core/contract';
import type { ObjectPlace } from './object-answers.ts';

/** Concurrent requests of one `deleteMany` that sends one request per key. */
const DELETES_MAX = 32;

/**
 * Sends one request per key, for stores without a useful batch delete. `work` deletes one object. A
 * missing object counts as deleted. A failure of one key does not stop the others, unless the
 * signal has fired.
 */
export function deleteEach(
  places: readonly ObjectPlace[],
  signal: AbortSignal | undefined,
  work: (place: ObjectPlace) => Promise<unknown>,
  toError: (error: unknown, place: ObjectPlace) => CheckpointError,
): Promise<DeleteResult[]> {
  return atATime(places, DELETES_MAX, async (place): Promise<DeleteResult> => {
    const { key } = place;
    try {
      await work(place);
      return { key };
    } catch (error) {
      if (signal?.aborted) throw error;
      return { key, error: toError(error, place) };
    }
  });
}
