import { TIME_MS_MAX } from '../contract/ranges.ts';

/**
 * What a record says of a time of modification, whatever a source gives: whole milliseconds, at least
 * 1; a time before 1970 or after 9999 is the nearest of these. 0: the source has none.
 */
export function recordedTimeMs(mtimeMs: number | undefined): number {
  if (!Number.isFinite(mtimeMs)) return 0;
  return Math.min(Math.max(Math.floor(mtimeMs as number), 1), TIME_MS_MAX);
}
