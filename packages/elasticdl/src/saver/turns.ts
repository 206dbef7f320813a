import { abortError } from '@holdfast/core/contract';

/** Calls one after the other, in the order in which they came, each when the one before has settled, however it has. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  /** `Aborted`: the signal fired before its turn came; `act` is then not called. Once it is, what becomes of it is its own affair. */
  take<T>(act: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
    const before = this.#last;
    const done = waitFor(before, signal).then(act);
    // The next one's turn comes when both are over. Nothing of their outcome is kept.
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
