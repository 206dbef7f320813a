import { formatDuration, formatRate } from './format.ts';

const RATE_FROM_BYTES = 1024 * 1024;

/** The elapsed time, and the rate if there was enough to measure. */
export function elapsedAndRate(durationMs: number, sizeBytes: number): string[] {
  const elapsed = formatDuration(durationMs);
  return sizeBytes < RATE_FROM_BYTES
    ? [elapsed]
    : [elapsed, formatRate((sizeBytes * 1000) / Math.max(1, durationMs))];
}
