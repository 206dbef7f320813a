/**
 * A read that takes far longer than others of its size is asked for a second time, into other memory: some requests meet a slow disk or a
 * dead connection, and the same request again mostly does not. The first that succeeds counts; the other is stopped, and its memory stays
 * away from everybody until its call has settled.
 *
 * A second request is never waited for: it is sent only where memory is free at once and few others are under way.
 */

import { CheckpointError } from '../contract/index.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import type { Deadline } from './deadlines.ts';
import { retrying } from './retry.ts';
import type { Run } from './run.ts';
import { stallTimeoutMs } from './shared.ts';
import type { RequestCall, Stoppable } from './stall.ts';

/** So many times the median of others of its size is far longer. */
const SLOW_FACTOR = 4;
/** Made once: it only tells a call that nobody waits for it any more. */
const OUTRUN = new CheckpointError('Aborted', 'the same bytes were read by another request first');

/** Memory for reads, one after the other. A read may leave its bytes in other memory than it was given: ask for `bytes` after each. */
export class ReadMemory {
  #bytes: Uint8Array;
  #buffer: PooledBuffer | undefined;
  /** Its bytes have to be in the memory that it was given: such a read is sent once only. */
  readonly isFixed: boolean;

  /** `buffer` owns the memory; none where it is not of the pool. */
  constructor(bytes: Uint8Array, buffer?: PooledBuffer, isFixed = false) {
    this.#bytes = bytes;
    this.#buffer = buffer;
    this.isFixed = isFixed;
  }

  static of(buffer: PooledBuffer): ReadMemory {
    return new ReadMemory(buffer.bytes, buffer);
  }

  /** Memory of another pool, whose owner goes on with the bytes in it. */
  static fixed(buffer: PooledBuffer): ReadMemory {
    return new ReadMemory(buffer.bytes, buffer, true);
  }

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get buffer(): PooledBuffer | undefined {
    return this.#buffer;
  }

  /** The bytes are in `buffer`, which is this memory's own from now on. What was its memory is the caller's. */
  moveTo(buffer: PooledBuffer): void {
    if (this.#buffer === undefined) {
      // Whoever reads outside the pool keeps what is read.
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
  /** The read fills the first so many bytes of the memory. */
  readonly lengthBytes: number;
  readonly into: (bytes: Uint8Array, call: RequestCall) => Promise<number>;
}

/** Resolves to what the read does; the bytes are in `read.memory`. Repeated after temporary errors. */
export function readHedged(run: Run, read: HedgeableRead): Promise<number> {
  return retrying((attempt) => new Attempt(run, read, attempt).settle(), run.retryPolicy(read.what));
}

interface Contender {
  /** Of a second request: memory of its own, which the read has to give back. */
  readonly spare: PooledBuffer | undefined;
  readonly sentMs: number;
  /** Settles when the call has, or when it was left behind and its buffer with it. */
  readonly call: Promise<number>;
  readonly request: Stoppable | undefined;
}

/** One try of a read, in one or two requests. */
class Attempt implements Deadline {
  dueMs = 0;
  readonly #run: Run;
  readonly #read: HedgeableRead;
  readonly #attempt: number;
  /** Requests under way. */
  readonly #running = new Set<Contender>();
  #resolve: (count: number) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #firstError: unknown;
  #isOver = false;

  constructor(run: Run, read: HedgeableRead, attempt: number) {
    this.#run = run;
    this.#read = read;
    this.#attempt = attempt;
  }

  settle(): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      const { settings, shared } = this.#run;
      this.#send();
      if (settings.hedgeDelayMsMin === 0 || this.#read.memory.isFixed) return;
      this.dueMs = shared.deadlines.nowMs + settings.hedgeDelayMsMin;
      // Where the request is stopped for its silence before that, it is sent again anyway.
      if (settings.hedgeDelayMsMin < stallTimeoutMs(settings, this.#attempt)) shared.deadlines.add(this);
    });
  }

  /** Sends the second request if this read is slow by now and there is room for one; else looks again later. */
  onDue(): void {
    const { settings, shared } = this.#run;
    const [first] = this.#running;
    const nowMs = shared.deadlines.nowMs;
    const medianMs = shared.readTimes.medianMs(this.#read.lengthBytes) ?? Number.POSITIVE_INFINITY;
    const slowAtMs = (first?.sentMs ?? nowMs) + SLOW_FACTOR * medianMs;
    // One that waits for a connection is not slow, and a second one would wait behind it.
    const isSlow = nowMs >= slowAtMs && first?.request?.isWaiting !== true;
    if (isSlow && this.#hedge()) return;
    const againMs = nowMs + settings.hedgeDelayMsMin;
    this.dueMs = slowAtMs > nowMs ? Math.min(slowAtMs, againMs) : againMs;
    shared.deadlines.add(this);
  }

  #hedge(): boolean {
    const run = this.#run;
    if (!run.mayHedge) return false;
    const spare = run.pool.acquireNow(this.#read.memory.bytes.byteLength);
    if (spare === null) return false;
    run.shared.logger.log('info', `${this.#read.what}: far slower than others; sent a second time`);
    const { call } = this.#send(spare);
    run.hedgeBegun(call);
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
    const sentMs = this.#run.shared.deadlines.nowMs;
    const call = this.#run.sendOnce(what, (sent) => into(bytes, sent), this.#attempt, {
      buffer,
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
    const { deadlines, readTimes } = this.#run.shared;
    readTimes.note(this.#read.lengthBytes, deadlines.nowMs - winner.sentMs);
    const { memory } = this.#read;
    const former = memory.buffer;
    if (winner.spare) memory.moveTo(winner.spare);
    for (const loser of this.#running) {
      const giveBack = () => (winner.spare ? former : loser.spare)?.release();
      loser.request?.stop(OUTRUN);
      this.#run.leave(loser.call.then(giveBack, giveBack));
    }
    if (winner.spare && this.#running.size === 0) former?.release();
    this.#resolve(count);
  }

  /** While the other request is under way nothing is lost yet. */
  #failed(loser: Contender, error: unknown): void {
    if (this.#isOver) return;
    if (loser.spare) loser.spare.release();
    else this.#firstError = error;
    this.#running.delete(loser);
    if (this.#running.size > 0) return;
    this.#end(loser);
    // Of the first request, for it tells whether its memory, which a repeat reads into, is still ours.
    this.#reject(this.#firstError);
  }

  #end(last: Contender): void {
    this.#isOver = true;
    this.#running.delete(last);
    this.#run.shared.deadlines.remove(this);
  }
}
