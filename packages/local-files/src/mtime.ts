/** Modification times in whole milliseconds, as records have them. */

import type { BigIntStats } from 'node:fs';

export function millisecondsOf({ mtimeNs }: Pick<BigIntStats, 'mtimeNs'>): number {
  return Number(mtimeNs / 1_000_000n);
}

/**
 * Converts a time for `utimes`, which truncates a double to nanoseconds. So the next double above
 * is passed. Otherwise a time that is set and read again could be a millisecond less. In this
 * century the double is within half a microsecond of the time.
 */
export function secondsOf(timeMs: number): number {
  return (timeMs / 1000) * (1 + Number.EPSILON);
}
