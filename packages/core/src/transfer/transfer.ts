/**
 * One transfer: an upload, a download, a verification, an open stream or source. It has its own
 * signal, first error and share of the concurrency.
 *
 * All errors are reported to `fail`. The first error stops the rest, and `files` throws it once
 * everything has settled.
 */

import pLimit, { type LimitFunction } from 'p-limit';
import {
  abortError,
  CheckpointError,
  isCheckpointError,
  type ObjectStore,
  type Settings,
  type StoreCapabilities,
  throwIfAborted,
  toCheckpointError,
  unlessAborted,
} from '../contract/index.ts';
import type { BufferPool, PooledBuffer } from './buffer-pool.ts';
import type { Items, TransferOptions } from './options.ts';
import { Pace } from './pace.ts';
import { type RetryPolicy, retrying } from './retry.ts';
import { type ActiveTransfer, longestRequestMs, retryPolicy, type Shared, stallTimeoutMs } from './shared.ts';
import { ABORT_GRACE_MS, type RequestCall, type Stoppable, WatchedCall } from './stall.ts';
import type { Workers } from './workers.ts';

/**
 * Files that are open at once in one call: enough for fair turns, far below the 1,024 open files
 * that a process may have.
 */
const FILES_OPEN_MAX = 64;
/**
 * Longest time that tidying up after a failure (aborting an upload, closing a source) delays the
 * caller.
 */
const TIDY_TIMEOUT_MS_MAX = 5000;
const TIDY_TIMEOUT_MS_MIN = 50;
/**
 * The requests of a transfer, and those that tidy up after it, get this long after `letGo`. Then
 * nothing waits for them any more.
 */
const LET_GO_MS = 800;
/**
 * A hedge is a second request for the same bytes. It is sent beyond the limit of concurrent
 * requests, so only few are allowed.
 */
const HEDGES_MAX = 2;
const HEDGE_SHARE_MAX = 0.05;

export interface CallExtras<T> {
  /** Memory that the call reads or writes. */
  readonly buffer?: PooledBuffer | undefined;
  /**
   * Payload bytes that the call moves. The first try has waited for the limit of bandwidth. Retries
   * of `request` count too, and do not wait, because they would hold memory meanwhile.
   */
  readonly payloadBytes?: number | undefined;
  /** Called just before the call begins. The receiver may stop the call. */
  readonly onStart?: ((call: Stoppable) => void) | undefined;
  /** Called with the result of an abandoned call, which may need undoing. */
  readonly onLate?: ((value: T) => unknown) | undefined;
}

export class Transfer implements ActiveTransfer {
  readonly shared: Shared;
  readonly options: TransferOptions;
  /** Resolves when nothing of this transfer is in progress any more. */
  readonly finished: Promise<void>;
  readonly #controller = new AbortController();
  readonly #turns: LimitFunction;
  readonly #partTurns: LimitFunction;
  readonly #pace: Pace;
  readonly #hedgesMax: number;
  /** Requests in progress. */
  readonly #calls = new Set<Stoppable>();
  /** Calls of sources and sinks in progress. */
  readonly #localCalls = new Set<Stoppable>();
  readonly #leftovers = new Set<Promise<void>>();
  #hedges = 0;
  #failure: { readonly error: unknown } | undefined;
  /** On the scale of `deadlines.nowMs`. */
  #endByMs = Number.POSITIVE_INFINITY;
  #finish: () => void = () => undefined;

  constructor(shared: Shared, options: TransferOptions) {
    if (shared.isClosed) throw new CheckpointError('Aborted', 'the manager was closed');
    throwIfAborted(options.signal);
    this.shared = shared;
    this.options = options;
    const { settings, store } = shared;
    const { preferredConcurrency, preferredPartConcurrency } = store.capabilities;
    this.#turns = pLimit(Math.max(1, settings.concurrency || preferredConcurrency));
    this.#partTurns = pLimit(Math.max(1, settings.concurrency || preferredPartConcurrency));
    this.#pace = new Pace([this.#turns, this.#partTurns]);
    this.#hedgesMax = Math.max(HEDGES_MAX, Math.floor(this.#turns.concurrency * HEDGE_SHARE_MAX));
    this.finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
    options.signal?.addEventListener('abort', this.#onAbort, { once: true });
    shared.active.add(this);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get store(): ObjectStore {
    return this.shared.store;
  }

  get settings(): Settings {
    return this.shared.settings;
  }

  get capabilities(): StoreCapabilities {
    return this.shared.store.capabilities;
  }

  get pool(): BufferPool {
    return this.shared.pool;
  }

  get workers(): Workers {
    return this.shared.workers;
  }

  /** See `Workers.expect`. A stop of the transfer ends the wait. */
  expect(sizeBytes: number): Promise<void> | undefined {
    const starting = this.workers.expect(sizeBytes);
    return starting && unlessAborted(starting, this.signal);
  }

  fail(error: unknown): void {
    if (this.#failure) return;
    this.#failure = { error };
    const why = toCheckpointError(error);
    this.#controller.abort(why);
    for (const call of [...this.#calls, ...this.#localCalls]) call.stop(why);
  }

  /**
   * As `fail`, for a caller that is gone or must not wait. All requests of this transfer, and those
   * that tidy up after it, end within a second. Requests that the store does not end keep
   * their buffers. What could not be undone in time stays in the store until a sweep deletes it.
   */
  letGo(error: unknown): void {
    this.#endByMs = Math.min(this.#endByMs, this.shared.deadlines.nowMs + LET_GO_MS);
    this.#abort(error);
  }

  /** Waits for the calls that were left to end by themselves. */
  async end(): Promise<void> {
    await Promise.all(this.#leftovers);
    this.options.signal?.removeEventListener('abort', this.#onAbort);
    this.shared.active.delete(this);
    this.#finish();
  }

  /**
   * Works on all items, a limited number at a time, in the order given. Throws the first error once
   * all work has settled.
   */
  async files<I, O>(items: readonly I[], work: (item: I) => Promise<O>): Promise<O[]> {
    const results = new Array<O>(items.length);
    await this.each(items.entries(), async ([index, item]) => {
      results[index] = await work(item);
    });
    return results;
  }

  /**
   * As `files`, for items that are produced on demand. After a failure no more items are requested.
   */
  async each<I>(items: Items<I>, work: (item: I) => Promise<void>): Promise<void> {
    const rest = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
    const workOnRest = async () => {
      while (!this.signal.aborted) {
        try {
          const next = await unlessAborted(Promise.resolve(rest.next()), this.signal);
          if (next.done) return;
          await work(next.value);
        } catch (error) {
          this.fail(error);
        }
      }
    };
    await Promise.all(Array.from({ length: FILES_OPEN_MAX }, workOnRest));
    // The caller's signal ends a `next()` that is pending. Nothing waits for it here.
    void Promise.resolve(rest.return?.()).catch(() => undefined);
    if (this.#failure) throw this.#failure.error;
  }

  /** Runs `work` as one of the limited requests in progress, in order of arrival. */
  turn<T>(work: () => Promise<T>): Promise<T> {
    return this.#turns(work);
  }

  /** As `turn`, for the parts of large files. */
  partTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#partTurns(work);
  }

  /**
   * Waits until `sizeBytes` may be sent. Never rejects: if the transfer has failed, the next step
   * finds out.
   */
  async admit(sizeBytes: number): Promise<void> {
    try {
      if (sizeBytes > 0) await this.shared.throttle?.take(sizeBytes, this.signal);
    } catch (error) {
      this.fail(error);
    }
  }

  /** See `Throttle.charge`. */
  charge(sizeBytes: number): void {
    this.shared.throttle?.charge(sizeBytes);
  }

  /** Runs `work` when one of the limited streams is free. All transfers share the limit. */
  async inStreamSeat<T>(work: () => Promise<T>): Promise<T> {
    let leave: () => void = () => undefined;
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const seated = new Promise<void>((resolve) => {
      void this.shared.streamSeats(() => {
        resolve();
        return left;
      });
    });
    try {
      await unlessAborted(seated, this.signal);
      return await work();
    } finally {
      leave();
    }
  }

  /**
   * One request that may be sent again. It is watched for silence and retried after temporary
   * errors. If the store throttles, fewer requests are sent at once.
   */
  request<T>(what: string, send: (call: RequestCall) => Promise<T>, extras: CallExtras<T> = {}): Promise<T> {
    return retrying((repeats) => {
      if (repeats > 0) this.charge(extras.payloadBytes ?? 0);
      return this.sendOnce(what, send, repeats, extras);
    }, this.retryPolicy(what));
  }

  /** One try of a request, for callers that retry it themselves. */
  async sendOnce<T>(
    what: string,
    send: (call: RequestCall) => Promise<T>,
    repeats: number,
    extras: CallExtras<T>,
  ): Promise<T> {
    const { slowdowns } = this.#pace;
    try {
      const timeoutMs = stallTimeoutMs(this.settings, repeats);
      const value = await this.#watched(what, send, timeoutMs, extras);
      this.#pace.succeeded();
      return value;
    } catch (error) {
      if (isCheckpointError(error, 'Throttled')) this.#pace.throttled(slowdowns);
      throw error;
    }
  }

  /** Whether a second request for the same bytes may be sent now. */
  get mayHedge(): boolean {
    return this.#hedges < this.#hedgesMax && !this.#pace.isSlowed && !this.signal.aborted;
  }

  hedgeBegun(call: Promise<unknown>): void {
    this.#hedges += 1;
    const ended = () => {
      this.#hedges -= 1;
    };
    call.then(ended, ended);
  }

  /**
   * Lets `ending` continue in the background. The transfer ends only after it. `ending` must
   * never reject.
   */
  leave(ending: Promise<void>): void {
    this.#leftovers.add(ending);
    void ending.then(() => this.#leftovers.delete(ending));
  }

  /** A call of a source or sink. Only the end of this transfer ends it early. */
  local<T>(what: string, call: () => Promise<T>, extras: CallExtras<T> = {}): Promise<T> {
    return this.#watched(what, () => call(), undefined, extras, this.#localCalls);
  }

  /**
   * Undoes or closes something, also after a failure. Takes seconds at most. An error is only
   * logged, because it does not change the result.
   */
  async tidyUp(what: string, call: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { deadlines, logger, settings } = this.shared;
    // Half for an answer, half for a stopped call to end.
    const leftMs = Math.max(TIDY_TIMEOUT_MS_MIN, (this.#endByMs - deadlines.nowMs) / 2);
    const limitMs = Math.min(settings.stallTimeoutMs, TIDY_TIMEOUT_MS_MAX, leftMs);
    try {
      const watched = new WatchedCall<void>({ what, stallTimeoutMs: limitMs, graceMs: limitMs, deadlines });
      await watched.run(({ signal }) => call(signal));
    } catch (error) {
      logger.log('warn', `${what} failed: ${toCheckpointError(error).message}`);
    }
  }

  retryPolicy(what: string, countMax?: number): RetryPolicy {
    const policy = retryPolicy(this.shared, what, { signal: this.signal, onRetry: this.options.onRetry });
    return countMax === undefined ? policy : { ...policy, countMax };
  }

  readonly #onAbort = (): void => {
    const why = abortError(this.options.signal as AbortSignal);
    if (this.options.endsFast) this.letGo(why);
    else this.#abort(why);
  };

  /**
   * No caller waits for answers any more, so requests get little time to end. Sources and sinks
   * keep their time.
   */
  #abort(error: unknown): void {
    this.fail(error);
    const graceMs = Math.min(this.settings.stallTimeoutMs, ABORT_GRACE_MS);
    for (const call of this.#calls) call.stop(toCheckpointError(error), graceMs);
  }

  #watched<T>(
    what: string,
    operation: (call: WatchedCall<T>) => Promise<T>,
    timeoutMs: number | undefined,
    extras: CallExtras<T>,
    among = this.#calls,
  ): Promise<T> {
    if (this.signal.aborted) return Promise.reject(abortError(this.signal));
    const { deadlines, logger, settings } = this.shared;
    const onAbandoned = (late: Promise<T>) => {
      logger.log('warn', `${what}: abandoned, because it did not end when it was stopped`);
      extras.buffer?.keepFor(late);
      // The result is not used. Only what the call may have left in the store matters.
      if (extras.onLate) late.then(extras.onLate).catch(() => undefined);
    };
    const { stallTimeoutMs: graceMs } = settings;
    const longestMs = timeoutMs && longestRequestMs(timeoutMs, extras.payloadBytes ?? 0);
    const limits = { stallTimeoutMs: timeoutMs, longestMs, graceMs };
    const call = new WatchedCall({ what, ...limits, deadlines, onAbandoned, among });
    extras.onStart?.(call);
    return call.run(operation);
  }
}

/**
 * The requests of one file. Each is begun before the next one queues for its turn, so files take
 * turns and each file keeps its order.
 */
export class FileTurns {
  readonly #transfer: Transfer;
  readonly #takeTurn: (work: () => Promise<void>) => Promise<void>;
  #underWay = 0;
  #settle: (() => void) | undefined;

  /**
   * `hasParts`: the file needs more than one request. `among`: where the requests queue for their
   * turns, by default the transfer.
   */
  constructor(transfer: Transfer, hasParts: boolean, among: Pick<Transfer, 'turn' | 'partTurn'> = transfer) {
    this.#transfer = transfer;
    this.#takeTurn = hasParts ? (work) => among.partTurn(work) : (work) => among.turn(work);
  }

  /**
   * Resolves when `work` has begun. If `work` fails, the transfer fails. `work` is begun even
   * after a failure, so that it can free what it holds.
   */
  next(work: () => Promise<void>): Promise<void> {
    return new Promise((begun) => {
      const begin = () => {
        begun();
        return work();
      };
      this.add(this.#takeTurn(begin));
    });
  }

  /** Adds work that is already in progress. */
  add(work: Promise<void>): void {
    this.#underWay += 1;
    void work.catch((error: unknown) => this.#transfer.fail(error)).then(() => this.#ended());
  }

  /** Waits for all work that was begun. Then throws if the transfer has failed. */
  async settled(): Promise<void> {
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => {
        this.#settle = resolve;
      });
    }
    throwIfAborted(this.#transfer.signal);
  }

  #ended(): void {
    this.#underWay -= 1;
    if (this.#underWay === 0) this.#settle?.();
  }
}
