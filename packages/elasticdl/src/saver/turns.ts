import { abortError } from '@holdfast/core/contract';

/**
 * Runs calls one after the other, in the order in which they came. Each starts when the one before
 * has settled, even if it failed.
 */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  /**
   * `Aborted`: the signal fired before the turn came, and `act` is not called. After that the
   * signal has no effect here.
   */
  take<T>(act: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const before = this.#last;
    const done = waitFor(before, signal).then(act);
    // The next turn comes when both have settled. Neither result is kept.
    this.#last = Promise.allSettled([before, done]).then(() => undefined);
    return done;
  }
}

/** `before` never rejects. */
function waitFor(before: Promise<unknown>, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(abortError(signal as AbortSignal));
    if (signal?.aborted) return stop();
    signal?.addEventListener('abort', stop, { once: true });
    void before.then(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    });
  });
}
