/** Times of modification in whole milliseconds, as records have them. */

import type { BigIntStats } from 'node:fs';

export function millisecondsOf({ mtimeNs }: Pick<BigIntStats, 'mtimeNs'>): number {
  return Number(mtimeNs / 1_000_000n);
}

/**
 * What `utimes` takes for a time. It makes nanoseconds of a double by cutting, so the next double
 * above is given: else a time that is set and read again could be a millisecond less. Of our
 * century that is within half a microsecond of the time.
 */
export function secondsOf(timeMs: number): number {
  return (timeMs / 1000) * (1 + Number.EPSILON);
}
