/** Bounds a piece of work in time. */

import type { Clock } from '../../contract/components.ts';
import { abortError, CheckpointError } from '../../contract/errors.ts';

/**
 * The reason by which a timer that is no longer needed is stopped. It is shared, because creating
 * an error with its stack for each call would be slow.
 */
const DONE = new CheckpointError('Aborted', 'the work was done in time');

/**
 * Runs `work` with a signal that fires when the caller's signal does, or with `TimedOut` after
 * `timeoutMs`. `what` names the work in the message. `renew` restarts the `timeoutMs`, for work
 * that may continue as long as the store answers. The promise settles when `work` does.
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
    /** A function is called when the time is up. */
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

/** Longest time that a stopped call continues to read the outcome of its request. */
const LAST_LOOK_MS = 1000;

/**
 * Runs `work`, which reads the outcome of a request that the store has acknowledged. Its signal
 * fires one second after the caller's. So a call that is stopped just after its decision can still
 * report the decision.
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

/**
 * Waits at most `timeoutMs` for work that its caller no longer needs. After that the work continues
 * alone. Throws the error of the work if it fails within that time.
 */
export async function waitAtMost(clock: Clock, timeoutMs: number, work: Promise<unknown>): Promise<void> {
  const bounds = { clock, timeoutMs, what: 'ending the work in progress', signal: undefined };
  await withDeadline(bounds, (until) => Promise.race([work, whenAborted(until)]));
}

/** Never rejects. */
function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
