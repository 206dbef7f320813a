/** Limits the time of operations that may not end by themselves. */

import { abortError, CheckpointError, type Clock } from '@holdfast/core/contract';
import { formatDuration } from '../format.ts';

/** Time for aborted calls to end, so that they create nothing after the removal. */
export const ENDING_MS_MAX = 2000;

/**
 * Runs it until it ends, its time is up, or the signal fires; returns then even if it continues.
 */
export async function inTime<T>(
  { clock, timeoutMs, signal }: { clock: Clock; timeoutMs: number; signal?: AbortSignal },
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = new AbortController();
  const deadline = new AbortController();
  const stop = AbortSignal.any([deadline.signal, ...(signal === undefined ? [] : [signal])]);
  const stopped = new Promise<never>((_, reject) => {
    stop.addEventListener('abort', () => reject(abortError(stop)), { once: true });
  });
  void clock.sleep(timeoutMs, timer.signal).then(
    () => deadline.abort(new CheckpointError('TimedOut', `not done within ${formatDuration(timeoutMs)}`)),
    () => undefined, // It ended in time.
  );
  const running = run(stop);
  try {
    return await Promise.race([running, stopped]);
  } catch (error) {
    await atMost(ENDING_MS_MAX, clock, running);
    throw error;
  } finally {
    timer.abort();
  }
}

/** Waits until it settles, at most for this time. Leaves no timer behind. */
export async function atMost(ms: number, clock: Clock, ending: Promise<unknown>): Promise<void> {
  const ended = new AbortController();
  const quietly = () => undefined;
  await Promise.race([ending.then(quietly, quietly), clock.sleep(ms, ended.signal)]);
  ended.abort();
}
