/** What is waited for less when a worker is to leave. `null`: nobody is preempted here, and all is waited for. */

import { StopException } from '../errors.ts';
import type { Preemption } from './preemption.ts';

/** What `waiting` comes to, or `StopException` at the notice: the other workers may have left before. */
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
 * At the deadline `body` is not waited for any more, and after it not begun. For whoever holds the preemption: it is then not finished
 * before.
 */
export async function untilDeadline(preemption: Preemption | null, body: () => Promise<void>): Promise<void> {
  if (preemption === null) return await body();
  if (preemption.report === null) await Promise.race([body(), preemption.finished]);
}
