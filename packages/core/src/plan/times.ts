import { TIME_MS_MAX } from '../contract/ranges.ts';

/**
 * The modification time to record for any time a source reports: whole milliseconds, at least 1.
 * Times before 1970 or after 9999 become the nearest permitted time. 0: the source has none.
 */
export function recordedTimeMs(mtimeMs: number | undefined): number {
  if (!Number.isFinite(mtimeMs)) return 0;
  return Math.min(Math.max(Math.floor(mtimeMs as number), 1), TIME_MS_MAX);
}
