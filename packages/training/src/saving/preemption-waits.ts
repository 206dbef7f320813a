/** Waits that end early when a worker is preempted. `null` as preemption: wait to the end. */

import { StopException } from '../errors.ts';
import type { Preemption } from './preemption.ts';

/**
 * Resolves as `waiting` does. `StopException` at the notice: the other workers may have left
 * already.
 */
export async function unlessPreempted<T>(preemption: Preemption | null, waiting: T | Promise<T>): Promise<T> {
  if (preemption === null) return await waiting;
  const { signal } = preemption;
  const leaving = Promise.withResolvers<never>();
  const leave = () => leaving.reject(new StopException('preempted'));
  signal.addEventListener('abort', leave);
  if (signal.aborted) leave();
  try {
    return await Promise.race([waiting, leaving.promise]);
  } finally {
    signal.removeEventListener('abort', leave);
  }
}

/**
 * Stops waiting for `body` at the deadline, and does not start it after the deadline. The caller
 * must hold the preemption, so that it does not finish earlier.
 */
export async function untilDeadline(preemption: Preemption | null, body: () => Promise<void>): Promise<void> {
  if (preemption === null) return await body();
  if (preemption.report === null) await Promise.race([body(), preemption.finished]);
}
