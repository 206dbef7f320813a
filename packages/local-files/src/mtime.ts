/** Modification times in whole milliseconds, as records have them. */

import type { BigIntStats } from 'node:fs';

export function millisecondsOf({ mtimeNs }: Pick<BigIntStats, 'mtimeNs'>): number {
  return Number(mtimeNs / 1_000_000n);
}

/**
 * Converts a time to seconds for `utimes`, rounded up to the next double. `utimes` truncates the
 * seconds to nanoseconds, and reading truncates these to milliseconds. Without the rounding, a time
 * that is set and read again could be a millisecond less. In this century the result differs from
 * the time by less than half a microsecond.
 */
export function secondsOf(timeMs: number): number {
  return (timeMs / 1000) * (1 + Number.EPSILON);
}
