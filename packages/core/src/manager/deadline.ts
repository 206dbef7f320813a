/** Bounds a piece of work in time. */

import type { Clock } from '../contract/components.ts';
import { CheckpointError } from '../contract/errors.ts';

/** Made once: ending the timer of every decision must not cost an error with a stack each time. */
const DONE = new CheckpointError('Aborted', 'the work was done in time');

/**
 * Runs `work` with a signal that fires when the caller's does, or after `timeoutMs` with `TimedOut`: `what` took longer.
 * The promise settles when `work` does.
 */
export async function withDeadline<T>(
  {
    clock,
    timeoutMs,
    what,
    signal,
  }: {
    clock: Clock;
    timeoutMs: number;
    /** A function is asked when the time is up. */
    what: string | (() => string);
    signal: AbortSignal | undefined;
  },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController();
  const over = new AbortController();
  clock.sleep(timeoutMs, over.signal).then(
    () => {
      const took = typeof what === 'function' ? what() : what;
      deadline.abort(new CheckpointError('TimedOut', `${took} took longer than ${timeoutMs / 1000} s`));
    },
    () => undefined, // the work was done before
  );
  try {
    return await work(signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal);
  } finally {
    over.abort(DONE);
  }
}
