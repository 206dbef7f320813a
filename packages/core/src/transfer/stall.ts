/**
 * Limits how long a request may be silent. A call that was told to stop may use its buffer until it
 * settles, so its end is waited for. A call that does not end in time is abandoned, together with
 * its buffer.
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

/**
 * Time a request has to end once its caller has stopped. In a store that obeys its signal, reading
 * and sending end at once.
 */
export const ABORT_GRACE_MS = 500;

export interface Stoppable {
  /** At least one of its requests waits for a connection, and no request has one yet. */
  readonly isWaiting: boolean;
  /**
   * Ends the call early with this error. A second call can only shorten the remaining time. Default
   * of `graceMs`: that of the call.
   */
  stop(why: CheckpointError, graceMs?: number): void;
}

/** Arguments for sending a request. */
export interface RequestCall {
  readonly signal: AbortSignal;
  readonly onBytes: () => void;
}

export interface WatchOptions<T = unknown> {
  /** For messages: "part 3 of model.bin". */
  readonly what: string;
  /**
   * Longest time without an answer, counted from when a request has a connection. Absent: the call
   * ends early only by `stop`.
   */
  readonly stallTimeoutMs?: number | undefined;
  /**
   * Longest time of the whole call, counted in the same way, for an answer that comes byte by byte
   * and never ends. Looked at each `stallTimeoutMs`. Absent: any.
   */
  readonly longestMs?: number | undefined;
  /** Time the call has to end after it was told to stop. */
  readonly graceMs: number;
  readonly deadlines: Deadlines;
  /**
   * The call was abandoned. `late` is its promise: until it settles, the call may still use its
   * buffer.
   */
  readonly onAbandoned?: ((late: Promise<T>) => void) | undefined;
  /** The set that contains the call while it is in progress. */
  readonly among?: Set<Stoppable> | undefined;
}

/**
 * Watches one call for silence. If there is no answer within `stallTimeoutMs`, its signal fires.
 * Bytes of payload count as an answer if the store reports them. Time in which its requests only
 * wait for a connection does not count, if the store reports that. Once the call has settled, the
 * error is a temporary `Unavailable`.
 *
 * `stop` does the same with the given error. In both cases, if the call does not settle within
 * `graceMs`, `onAbandoned` is called. The error then has status `exhausted`, because the effect of
 * the call is unknown; `Aborted` stays unchanged. A call that succeeds after it was told to stop
 * has succeeded.
 */
export class WatchedCall<T> implements Deadline, Stoppable, RequestCall, RequestWatch {
  dueMs = 0;
  readonly #options: WatchOptions<T>;
  #begunMs = 0;
  #movedMs = Number.NEGATIVE_INFINITY;
  #waitingCount = 0;
  #sentCount = 0;
  #request: AbortController | undefined;
  #stoppedBy: CheckpointError | undefined;
  #giveUp: ((error: CheckpointError) => void) | undefined;

  constructor(options: WatchOptions<T>) {
    this.#options = options;
  }

  /**
   * For the watched operation. Created on demand: many calls do not use it, and it is expensive.
   */
  get signal(): AbortSignal {
    if (this.#request === undefined) {
      this.#request = new AbortController();
      watchRequests(this.#request.signal, this);
      if (this.#stoppedBy) this.#request.abort(this.#stoppedBy);
    }
    return this.#request.signal;
  }

  /** Payload bytes were transferred. */
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
    if (!hasWaited || this.isWaiting) return;
    this.onBytes(); // the silence, if any, begins now
    this.#begunMs = this.#movedMs;
  }

  /** Call it once. */
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
      this.#begunMs = this.#options.deadlines.nowMs;
      if (stallTimeoutMs !== undefined) this.#setDeadline(stallTimeoutMs);
      call.then(
        (value) => {
          this.#ended();
          resolve(value);
        },
        (error: unknown) => {
          this.#ended();
          // The call's own error counts more, unless it only says that the call was stopped.
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
    const { what, stallTimeoutMs = 0, longestMs = Number.POSITIVE_INFINITY, deadlines } = this.#options;
    const silentMs = deadlines.nowMs - this.#movedMs;
    const passedMs = deadlines.nowMs - this.#begunMs;
    if (this.#stoppedBy) this.#giveUp?.(abandonedError(this.#options, this.#stoppedBy));
    else if (this.isWaiting) this.#setDeadline(stallTimeoutMs);
    else if (passedMs >= longestMs) this.stop(endlessError(what, passedMs));
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

/**
 * A `WatchedCall` that the caller's signal stops with `Aborted`. It then has `ABORT_GRACE_MS` to
 * end.
 */
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

function endlessError(what: string, passedMs: number): CheckpointError {
  const seconds = Math.round(passedMs / 1000);
  return new CheckpointError('Unavailable', `${what}: the answer has not ended after ${seconds} s`);
}

function abandonedError(options: { graceMs: number }, why: CheckpointError): CheckpointError {
  if (why.code === 'Aborted') return why;
  const message = `${why.message}, and the call did not end within ${options.graceMs / 1000} s of being stopped`;
  return new CheckpointError(why.code, message, { context: why.context, cause: why, status: 'exhausted' });
}
