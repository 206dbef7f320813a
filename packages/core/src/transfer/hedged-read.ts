/**
 * A read that takes far longer than others of its size is sent a second time, into other memory.
 * Some requests meet a slow disk or a dead connection, and repeating them usually helps. The first
 * to succeed counts. The other is stopped, and its memory stays unused until its call has settled.
 *
 * A read never waits for room for a second request: it is sent only if memory is free at once and
 * few other second requests are in progress.
 */

import { CheckpointError } from '../contract/index.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import type { Deadline } from './deadlines.ts';
import { retrying } from './retry.ts';
import { stallTimeoutMs } from './shared.ts';
import type { RequestCall, Stoppable } from './stall.ts';
import type { Transfer } from './transfer.ts';

/** A read is slow after this many times the median of its size. */
const SLOW_FACTOR = 4;
/** Created once: it only ends a call whose result is no longer needed. */
const OUTRUN = new CheckpointError('Aborted', 'the same bytes were read by another request first');

/**
 * Memory for reads, one after the other. A read may leave its bytes in other memory than it was
 * given, so take `bytes` again after each read.
 */
export class ReadMemory {
  #bytes: Uint8Array;
  #buffer: PooledBuffer | undefined;
  /** The bytes must arrive in the given memory, so the read is never sent a second time. */
  readonly isFixed: boolean;

  /** `buffer` owns the memory; absent if the memory is not from the pool. */
  constructor(bytes: Uint8Array, buffer?: PooledBuffer, isFixed = false) {
    this.#bytes = bytes;
    this.#buffer = buffer;
    this.isFixed = isFixed;
  }

  static of(buffer: PooledBuffer): ReadMemory {
    return new ReadMemory(buffer.bytes, buffer);
  }

  /** Memory of another pool, whose owner uses the bytes in place. */
  static fixed(buffer: PooledBuffer): ReadMemory {
    return new ReadMemory(buffer.bytes, buffer, true);
  }

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get buffer(): PooledBuffer | undefined {
    return this.#buffer;
  }

  /**
   * The bytes are in `buffer`, which belongs to this object from now on. The caller takes over the
   * former buffer.
   */
  moveTo(buffer: PooledBuffer): void {
    if (this.#buffer === undefined) {
      // A reader outside the pool keeps the bytes, so they are copied out of it.
      this.#bytes = buffer.bytes.slice();
      buffer.release();
    } else {
      this.#bytes = buffer.bytes;
      this.#buffer = buffer;
    }
  }

  release(): void {
    this.#buffer?.release();
  }
}

export interface HedgeableRead {
  /** For messages. */
  readonly what: string;
  readonly memory: ReadMemory;
  /** The read fills this many bytes at the beginning of the memory. */
  readonly lengthBytes: number;
  readonly into: (bytes: Uint8Array, call: RequestCall) => Promise<number>;
}

/**
 * Resolves to the count that the read returns; the bytes are in `read.memory`. Retries after
 * temporary errors.
 */
export function readHedged(transfer: Transfer, read: HedgeableRead): Promise<number> {
  return retrying(
    (repeats) => new ReadTry(transfer, read, repeats).settle(),
    transfer.retryPolicy(read.what),
  );
}

interface Contender {
  /** Memory of a second request, which must be released. */
  readonly spare: PooledBuffer | undefined;
  readonly sentMs: number;
  /** Settles when the call has settled, or was abandoned together with its buffer. */
  readonly call: Promise<number>;
  readonly request: Stoppable | undefined;
}

/** One try of a read: one request, or two. */
class ReadTry implements Deadline {
  dueMs = 0;
  readonly #transfer: Transfer;
  readonly #read: HedgeableRead;
  readonly #repeats: number;
  /** Requests in progress. */
  readonly #running = new Set<Contender>();
  #resolve: (count: number) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #firstError: unknown;
  #isOver = false;

  constructor(transfer: Transfer, read: HedgeableRead, repeats: number) {
    this.#transfer = transfer;
    this.#read = read;
    this.#repeats = repeats;
  }

  settle(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      const { settings, shared } = this.#transfer;
      this.#send();
      if (settings.hedgeDelayMsMin === 0 || this.#read.memory.isFixed) return;
      this.dueMs = shared.deadlines.nowMs + settings.hedgeDelayMsMin;
      // A request that is stopped for silence before that time is retried anyway.
      if (settings.hedgeDelayMsMin < stallTimeoutMs(settings, this.#repeats)) shared.deadlines.add(this);
    });
  }

  /**
   * Sends the second request if this read is slow by now and there is room. Otherwise it checks
   * again later.
   */
  onDue(): void {
    const { settings, shared } = this.#transfer;
    const [first] = this.#running;
    const nowMs = shared.deadlines.nowMs;
    const medianMs = shared.readTimes.medianMs(this.#read.lengthBytes) ?? Number.POSITIVE_INFINITY;
    const slowAtMs = (first?.sentMs ?? nowMs) + SLOW_FACTOR * medianMs;
    // A request that waits for a connection is not slow, and a second one would wait behind it.
    const isSlow = nowMs >= slowAtMs && first?.request?.isWaiting !== true;
    if (isSlow && this.#hedge()) return;
    const againMs = nowMs + settings.hedgeDelayMsMin;
    this.dueMs = slowAtMs > nowMs ? Math.min(slowAtMs, againMs) : againMs;
    shared.deadlines.add(this);
  }

  #hedge(): boolean {
    const transfer = this.#transfer;
    if (!transfer.mayHedge) return false;
    const spare = transfer.pool.acquireNow(this.#read.memory.bytes.byteLength);
    if (spare === null) return false;
    transfer.shared.logger.log('info', `${this.#read.what}: far slower than others; sent a second time`);
    const { call } = this.#send(spare);
    transfer.hedgeBegun(call);
    return true;
  }

  #send(spare?: PooledBuffer): Contender {
    const { memory, lengthBytes, into, what } = this.#read;
    const buffer = spare ?? memory.buffer;
    const bytes = (spare ?? memory).bytes.subarray(0, lengthBytes);
    let request: Stoppable | undefined;
    const onStart = (started: Stoppable) => {
      request = started;
    };
    const sentMs = this.#transfer.shared.deadlines.nowMs;
    const call = this.#transfer.sendOnce(what, (sent) => into(bytes, sent), this.#repeats, {
      buffer,
      payloadBytes: lengthBytes,
      onStart,
    });
    const contender = { spare, sentMs, call, request };
    this.#running.add(contender);
    call.then(
      (count) => this.#succeeded(contender, count),
      (error: unknown) => this.#failed(contender, error),
    );
    return contender;
  }

  #succeeded(winner: Contender, count: number): void {
    if (this.#isOver) return;
    this.#end(winner);
    const { deadlines, readTimes } = this.#transfer.shared;
    readTimes.note(this.#read.lengthBytes, deadlines.nowMs - winner.sentMs);
    const { memory } = this.#read;
    const former = memory.buffer;
    if (winner.spare) memory.moveTo(winner.spare);
    for (const loser of this.#running) {
      const giveBack = () => (winner.spare ? former : loser.spare)?.release();
      loser.request?.stop(OUTRUN);
      this.#transfer.leave(loser.call.then(giveBack, giveBack));
    }
    if (winner.spare && this.#running.size === 0) former?.release();
    this.#resolve(count);
  }

  /** The try fails only when no other request is in progress. */
  #failed(loser: Contender, error: unknown): void {
    if (this.#isOver) return;
    if (loser.spare) loser.spare.release();
    else this.#firstError = error;
    this.#running.delete(loser);
    if (this.#running.size > 0) return;
    this.#end(loser);
    // Reject with the error of the first request. It says whether its memory, which a retry reads
    // into, is still usable.
    this.#reject(this.#firstError);
  }

  #end(last: Contender): void {
    this.#isOver = true;
    this.#running.delete(last);
    this.#transfer.shared.deadlines.remove(this);
  }
}
