/** Bounds a piece of work in time. */

import type { Clock } from '../contract/components.ts';
import { abortError, CheckpointError } from '../contract/errors.ts';

/** Made once: ending the timer of every decision must not cost an error with a stack each time. */
const DONE = new CheckpointError('Aborted', 'the work was done in time');

/**
 * Runs `work` with a signal that fires when the caller's does, or after `timeoutMs` with `TimedOut`: `what` took longer. `renew` gives it
 * `timeoutMs` from then on: for work that goes on as long as the store answers. The promise settles when `work` does.
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
  work: (signal: AbortSignal, renew: () => void) => Promise<T>,
): Promise<T> {
  const deadline = new AbortController();
  const over = new AbortController();
  let dueMs = clock.monotonicMs() + timeoutMs;
  const renew = () => {
    dueMs = clock.monotonicMs() + timeoutMs;
  };
  const elapse = async () => {
    for (let leftMs = timeoutMs; leftMs > 0; leftMs = dueMs - clock.monotonicMs())
      await clock.sleep(leftMs, over.signal);
  };
  elapse().then(
    () => {
      const took = typeof what === 'function' ? what() : what;
      deadline.abort(new CheckpointError('TimedOut', `${took} took longer than ${timeoutMs / 1000} s`));
    },
    () => undefined, // the work was done before
  );
  try {
    return await work(signal ? AbortSignal.any([signal, deadline.signal]) : deadline.signal, renew);
  } finally {
    over.abort(DONE);
  }
}

/** So long a caller who has stopped a call waits at most to hear what its request has come to. */
const LAST_LOOK_MS = 1000;

/**
 * For the last look after a request that was acknowledged: runs `work` with a signal that fires a second after
 * the caller's. A stop that comes after the decision then does not hide it.
 */
export async function withLastLook<T>(
  clock: Clock,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  if (signal === undefined) return work(new AbortController().signal);
  const late = new AbortController();
  const over = new AbortController();
  const stop = () =>
    void clock.sleep(LAST_LOOK_MS, over.signal).then(
      () => late.abort(abortError(signal)),
      () => undefined, // the work was done before
    );
  if (signal.aborted) stop();
  else signal.addEventListener('abort', stop, { once: true });
  try {
    return await work(late.signal);
  } finally {
    signal.removeEventListener('abort', stop);
    over.abort(DONE);
  }
}

/** Waits for work that is over for its caller, `timeoutMs` at most: then it goes on alone. What it fails with in that time is thrown. */
export async function waitAtMost(clock: Clock, timeoutMs: number, work: Promise<unknown>): Promise<void> {
  const bounds = { clock, timeoutMs, what: 'ending what is under way', signal: undefined };
  await withDeadline(bounds, (until) => Promise.race([work, whenAborted(until)]));
}

/** Never rejects. */
function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
