import { systemClock } from '@holdfast/core';

/** Resolves at the time given, by the monotonic clock, or as soon as the signal fires. */
export async function sleepUntil(untilMs: number, signal: AbortSignal): Promise<void> {
  const leftMs = Math.max(0, untilMs - systemClock.monotonicMs());
  await systemClock.sleep(leftMs, signal).catch(() => undefined);
}
