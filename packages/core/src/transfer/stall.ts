/**
 * A limit on silence. A call that was told to stop still owns its buffer until it settles, so stopping is not the end of it: we wait
 * for that, and a call which does not even end then is left behind together with its buffer.
 */

import {
  abortError,
  CheckpointError,
  type Clock,
  isCheckpointError,
  throwIfAborted,
} from '../contract/index.ts';

export interface StallOptions<T = unknown> {
  /** For messages: "part 3 of model.bin". */
  readonly what: string;
  /** Longest time without an answer. Left out: only the signal ends the call. */
  readonly stallTimeoutMs?: number | undefined;
  /** After the call was told to stop: how long it may take to end. */
  readonly graceMs: number;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
  /** The call is under way. `stop` ends it as the signal would, for another reason. */
  readonly onStart?: ((stop: (why: CheckpointError) => void) => void) | undefined;
  /** The call was left behind. `late` is its promise: until it settles, the call's buffer is not ours. */
  readonly onAbandoned?: ((late: Promise<T>) => void) | undefined;
}

/**
 * Runs one call with an AbortSignal of its own. No answer within `stallTimeoutMs`: that signal fires, and once the call has settled the
 * error is a temporary `Unavailable`. The caller's signal fires: the same with `Aborted`. The call does not settle within `graceMs` of
 * either: `onAbandoned`, and the error has status `exhausted` (`Aborted` stays as it is), for nobody knows what the call still does.
 * A call that succeeds although it was told to stop has succeeded.
 */
export async function withStallTimeout<T>(
  operation: (signal: AbortSignal) => Promise<T>,
  options: StallOptions<T>,
): Promise<T> {
  throwIfAborted(options.signal);
  const guard = new Guard(options);
  try {
    return await guard.run(operation);
  } finally {
    guard.end();
  }
}

/** Made once: ending the waits of every request must not cost an error with a stack each time. */
const ENDED = new CheckpointError('Aborted', 'the call has ended');

class Guard<T> {
  readonly #options: StallOptions<T>;
  readonly #request = new AbortController();
  #waits: AbortController | undefined;
  #stoppedBy: CheckpointError | undefined;
  #giveUp: ((error: CheckpointError) => void) | undefined;

  constructor(options: StallOptions<T>) {
    this.#options = options;
  }

  run(operation: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal, stallTimeoutMs } = this.#options;
    return new Promise((resolve, reject) => {
      const call = operation(this.#request.signal);
      call.then(resolve, (error: unknown) => {
        // What the call says of itself counts for more, unless it only says that it was stopped.
        reject(this.#stoppedBy && isCheckpointError(error, 'Aborted') ? this.#stoppedBy : error);
      });
      this.#giveUp = (error) => {
        this.#options.onAbandoned?.(call);
        reject(error);
      };
      signal?.addEventListener('abort', this.#onAbort, { once: true });
      this.#options.onStart?.((why) => this.#stop(why));
      if (stallTimeoutMs !== undefined)
        this.#after(stallTimeoutMs, () => this.#stop(stallError(this.#options.what, stallTimeoutMs)));
    });
  }

  end(): void {
    this.#options.signal?.removeEventListener('abort', this.#onAbort);
    this.#waits?.abort(ENDED);
  }

  readonly #onAbort = (): void => this.#stop(abortError(this.#options.signal as AbortSignal));

  #stop(why: CheckpointError): void {
    if (this.#stoppedBy) return;
    this.#stoppedBy = why;
    this.#request.abort(why);
    this.#after(this.#options.graceMs, () => this.#giveUp?.(abandonedError(this.#options, why)));
  }

  #after(delayMs: number, then: () => void): void {
    // The sleep rejects when the call has settled first: then there is nothing left to do.
    this.#waits ??= new AbortController();
    this.#options.clock.sleep(delayMs, this.#waits.signal).then(then, () => undefined);
  }
}

/** Waits for something that holds no memory of ours, and turns away as soon as the signal fires. */
export function untilAborted<T>(waited: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = () => reject(abortError(signal));
    if (signal.aborted) stop();
    else signal.addEventListener('abort', stop, { once: true });
    waited.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

function stallError(what: string, timeoutMs: number): CheckpointError {
  return new CheckpointError('Unavailable', `${what}: no answer for ${timeoutMs / 1000} s`);
}

function abandonedError(options: { graceMs: number }, why: CheckpointError): CheckpointError {
  if (why.code === 'Aborted') return why;
  const message = `${why.message}, and the call did not end within ${options.graceMs / 1000} s of being stopped`;
  return new CheckpointError(why.code, message, { context: why.context, cause: why, status: 'exhausted' });
}
