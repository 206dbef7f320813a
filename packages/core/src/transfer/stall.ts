/**
 * A limit on silence. A call that was told to stop still owns its buffer until it settles, so stopping is not the end of it: we wait
 * for that, and a call which does not even end then is left behind together with its buffer.
 */

import {
  abortError,
  CheckpointError,
  isCheckpointError,
  type RequestWatch,
  throwIfAborted,
  watchRequests,
} from '../contract/index.ts';
import type { Deadline, Deadlines } from './deadlines.ts';

/** Time a request has to end once its caller has stopped. Reading and sending end at once in a store that heeds its signal. */
export const ABORT_GRACE_MS = 500;

export interface Stoppable {
  /** None of its requests has a connection yet, and at least one waits for one. */
  readonly isWaiting: boolean;
  /** Ends it early, with this error. Called again, it only shortens the time the call has left. Default of `graceMs`: the call's own. */
  stop(why: CheckpointError, graceMs?: number): void;
}

/** What a request is sent with. */
export interface RequestCall {
  readonly signal: AbortSignal;
  readonly onBytes: () => void;
}

export interface WatchOptions<T = unknown> {
  /** For messages: "part 3 of model.bin". */
  readonly what: string;
  /** Longest time without an answer, from when a request has a connection. Left out: the call is only stopped from outside. */
  readonly stallTimeoutMs?: number | undefined;
  /** After the call was told to stop: how long it may take to end. */
  readonly graceMs: number;
  readonly deadlines: Deadlines;
  /** The call was left behind. `late` is its promise: until it settles, the call's buffer is not ours. */
  readonly onAbandoned?: ((late: Promise<T>) => void) | undefined;
  /** It is among these while it is under way. */
  readonly among?: Set<Stoppable> | undefined;
}

/**
 * One call. No answer and, where the store tells, no byte of payload within `stallTimeoutMs`: its signal fires, and once the call has settled
 * the error is a temporary `Unavailable`. Time in which its requests only wait for a connection does not count, where the store tells.
 * `stop`: the same with that error. The call does not settle within `graceMs` of either: `onAbandoned`, and the error has status
 * `exhausted` (`Aborted` stays as it is), for nobody knows what the call still does. A call that succeeds although it was told to stop
 * has succeeded.
 */
export class WatchedCall<T> implements Deadline, Stoppable, RequestCall, RequestWatch {
  dueMs = 0;
  readonly #options: WatchOptions<T>;
  #movedMs = Number.NEGATIVE_INFINITY;
  #waitingCount = 0;
  #sentCount = 0;
  #request: AbortController | undefined;
  #stoppedBy: CheckpointError | undefined;
  #giveUp: ((error: CheckpointError) => void) | undefined;

  constructor(options: WatchOptions<T>) {
    this.#options = options;
  }

  /** For what is called. Made when it is asked for: many calls have no use for it, and it is not cheap. */
  get signal(): AbortSignal {
    if (this.#request === undefined) {
      this.#request = new AbortController();
      watchRequests(this.#request.signal, this);
      if (this.#stoppedBy) this.#request.abort(this.#stoppedBy);
    }
    return this.#request.signal;
  }

  /** Something has moved. */
  readonly onBytes = (): void => {
    this.#movedMs = this.#options.deadlines.nowMs;
  };

  get isWaiting(): boolean {
    return this.#waitingCount > 0 && this.#sentCount === 0;
  }

  changed(waiting: number, sent: number): void {
    const hasWaited = this.isWaiting;
    this.#waitingCount += waiting;
    this.#sentCount += sent;
    if (hasWaited && !this.isWaiting) this.onBytes(); // the silence, if there is one, begins now
  }

  /** Once. */
  run(operation: (call: WatchedCall<T>) => Promise<T>): Promise<T> {
    const { stallTimeoutMs, onAbandoned, among } = this.#options;
    return new Promise((resolve, reject) => {
      const call = operation(this);
      this.#giveUp = (error) => {
        among?.delete(this);
        onAbandoned?.(call);
        reject(error);
      };
      among?.add(this);
      if (stallTimeoutMs !== undefined) this.#setDeadline(stallTimeoutMs);
      call.then(
        (value) => {
          this.#ended();
          resolve(value);
        },
        (error: unknown) => {
          this.#ended();
          // What the call says of itself counts for more, unless it only says that it was stopped.
          reject(this.#stoppedBy && isCheckpointError(error, 'Aborted') ? this.#stoppedBy : error);
        },
      );
    });
  }

  stop(why: CheckpointError, graceMs = this.#options.graceMs): void {
    const { deadlines } = this.#options;
    if (this.#stoppedBy && deadlines.nowMs + graceMs >= this.dueMs) return;
    if (!this.#stoppedBy) {
      this.#stoppedBy = why;
      this.#request?.abort(why);
    }
    this.#setDeadline(graceMs);
  }

  onDue(): void {
    const { what, stallTimeoutMs = 0, deadlines } = this.#options;
    const silentMs = deadlines.nowMs - this.#movedMs;
    if (this.#stoppedBy) this.#giveUp?.(abandonedError(this.#options, this.#stoppedBy));
    else if (this.isWaiting) this.#setDeadline(stallTimeoutMs);
    else if (silentMs < stallTimeoutMs) this.#setDeadline(stallTimeoutMs - silentMs);
    else this.stop(stallError(what, stallTimeoutMs));
  }

  #setDeadline(delayMs: number): void {
    const { deadlines } = this.#options;
    this.dueMs = deadlines.nowMs + delayMs;
    deadlines.add(this);
  }

  #ended(): void {
    this.#options.deadlines.remove(this);
    this.#options.among?.delete(this);
  }
}

/** A `WatchedCall` that the caller's signal stops, with `Aborted`. It then has `ABORT_GRACE_MS` to end. */
export async function withStallTimeout<T>(
  operation: (signal: AbortSignal) => Promise<T>,
  options: WatchOptions<T> & { readonly signal?: AbortSignal | undefined },
): Promise<T> {
  const { signal } = options;
  throwIfAborted(signal);
  const call = new WatchedCall(options);
  const graceMs = Math.min(options.graceMs, ABORT_GRACE_MS);
  const onAbort = () => call.stop(abortError(signal as AbortSignal), graceMs);
  signal?.addEventListener('abort', onAbort, { once: true });
  try {
    return await call.run(({ signal: own }) => operation(own));
  } finally {
    signal?.removeEventListener('abort', onAbort);
  }
}

function stallError(what: string, timeoutMs: number): CheckpointError {
  return new CheckpointError('Unavailable', `${what}: no answer for ${timeoutMs / 1000} s`);
}

function abandonedError(options: { graceMs: number }, why: CheckpointError): CheckpointError {
  if (why.code === 'Aborted') return why;
  const message = `${why.message}, and the call did not end within ${options.graceMs / 1000} s of being stopped`;
  return new CheckpointError(why.code, message, { context: why.context, cause: why, status: 'exhausted' });
}
