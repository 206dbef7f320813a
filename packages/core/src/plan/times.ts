import { TIME_MS_MAX } from '../contract/ranges.ts';

/**
 * The modification time to record for any time a source reports: whole milliseconds, at least 1.
 * Times before 1970 or after 9999 become the nearest permitted time. 0: the source has none.
 */
export function recordedTimeMs(mtimeMs: number | undefined): number {
  if (!Number.isFinite(mtimeMs)) return 0;
  return Math.min(Math.max(Math.floor(mtimeMs as number), 1), TIME_MS_MAX);
}

/**
 * A time of a clock, for a record: whole milliseconds within the range of a record. A clock that is
 * wrong by decades stops no save.
 */
export function clockTimeMs(ms: number): number {
  return Math.min(TIME_MS_MAX, Math.max(0, Math.floor(ms)));
}
