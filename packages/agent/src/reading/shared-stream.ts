/**
 * One read of a file for all ranks of a node that ask for the same bytes at about the same time. A
 * reader may join as long as the first chunk is still there. The read has the pace of its slowest
 * reader. A reader that stands still for too long loses its place and reads on by itself. If all of
 * them stand still, the read may be cut off.
 */

import { CheckpointError, systemClock } from '@holdfast/core';
import type { Standing } from './turns.ts';

/** Kept for slower readers, and for readers that join later. At least one chunk is kept. */
export const KEPT_BYTES_MAX = 16 * 1024 * 1024;
/** A reader that takes no chunk for this time no longer holds up the others. */
const STANDSTILL_MS = 5000;

interface Chunk {
  readonly bytes: Uint8Array;
  /** Number of readers that are passing it on. */
  userCount: number;
}

interface Place {
  /** Number of the next chunk that this reader gets. */
  next: number;
  movedAtMs: number;
  /** It has been given a chunk, and has not come for the next one. */
  isSending: boolean;
}

export interface SharedStreamOptions {
  /** Gets each chunk when no reader needs it any more. */
  readonly giveBack?: (bytes: Uint8Array) => void;
  /** There is no reader any more, or never was one. */
  readonly onClose?: () => void;
  /** The memory that its chunks may take. */
  readonly sizeBytesMax?: number;
}

export class SharedStream implements Standing {
  readonly sizeBytesMax: number;
  readonly #chunks: AsyncIterator<Uint8Array>;
  readonly #giveBack: (bytes: Uint8Array) => void;
  readonly #onClose: () => void;
  readonly #kept: Chunk[] = [];
  #keptBytes = 0;
  readonly #places = new Set<Place>();
  readonly #waiting = new Set<() => void>();
  /** Number of the first chunk that is kept. */
  #first = 0;
  #end = Number.POSITIVE_INFINITY;
  #fetching: Promise<void> | undefined;
  #error: unknown;
  #hasFailed = false;
  readonly #cut = new AbortController();

  constructor(
    chunks: AsyncIterable<Uint8Array>,
    { giveBack = () => undefined, onClose = () => undefined, sizeBytesMax = 0 }: SharedStreamOptions = {},
  ) {
    this.sizeBytesMax = sizeBytesMax;
    this.#giveBack = giveBack;
    this.#onClose = onClose;
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** The first chunk is still there. */
  get isOpen(): boolean {
    return this.#first === 0 && !this.#hasFailed;
  }

  get hasReaders(): boolean {
    return this.#places.size > 0;
  }

  /** Fires when the read was cut off. */
  get cut(): AbortSignal {
    return this.#cut.signal;
  }

  get standingSinceMs(): number | undefined {
    const places = [...this.#places];
    if (places.length === 0 || places.some(({ isSending }) => !isSending)) return undefined;
    return Math.max(...places.map(({ movedAtMs }) => movedAtMs));
  }

  /** Stops the read: its readers take nothing, and others wait. The readers end by `cut`. */
  cutOff(): void {
    const why = new CheckpointError('Unavailable', 'the reader takes nothing, and others wait');
    this.#hasFailed = true;
    this.#error = why;
    this.#cut.abort(why);
  }

  /**
   * The bytes of one reader. `null` instead of a chunk: it was too slow, and must read by itself.
   */
  async *read(): AsyncGenerator<Uint8Array | null, void, void> {
    const place: Place = { next: 0, movedAtMs: systemClock.monotonicMs(), isSending: false };
    this.#places.add(place);
    try {
      while (this.#places.has(place)) {
        const chunk = await this.#chunkAt(place);
        if (chunk === undefined) return;
        chunk.userCount += 1;
        place.isSending = true;
        place.movedAtMs = systemClock.monotonicMs();
        try {
          yield chunk.bytes;
        } finally {
          chunk.userCount -= 1;
          place.isSending = false;
        }
        place.next += 1;
        place.movedAtMs = systemClock.monotonicMs();
        this.#wake();
      }
      yield null;
    } finally {
      this.#places.delete(place);
      this.#wake();
      if (this.#places.size === 0) await this.#close();
    }
  }

  async #chunkAt(place: Place): Promise<Chunk | undefined> {
    for (;;) {
      if (this.#hasFailed) throw this.#error;
      if (place.next >= this.#end) return undefined;
      const kept = this.#kept[place.next - this.#first];
      if (kept) return kept;
      const isFull = this.#keptBytes >= KEPT_BYTES_MAX && !this.#dropPassed();
      if (!isFull) this.#fetching ??= this.#fetch();
      await (isFull ? this.#waitForOthers() : this.#fetching);
    }
  }

  async #fetch(): Promise<void> {
    try {
      const { done, value } = await this.#chunks.next();
      if (done) this.#end = this.#first + this.#kept.length;
      else {
        this.#kept.push({ bytes: value, userCount: 0 });
        this.#keptBytes += value.byteLength;
      }
    } catch (error) {
      this.#hasFailed = true;
      this.#error = error;
    } finally {
      this.#fetching = undefined;
    }
  }

  /** Returns when a reader has moved, or when those that stand still have lost their places. */
  async #waitForOthers(): Promise<void> {
    const moved = new AbortController();
    const wake = () => moved.abort();
    this.#waiting.add(wake);
    try {
      await systemClock.sleep(STANDSTILL_MS, moved.signal).catch(() => undefined);
      if (!moved.signal.aborted) this.#dropStanding();
    } finally {
      this.#waiting.delete(wake);
    }
  }

  #dropStanding(): void {
    const since = systemClock.monotonicMs() - STANDSTILL_MS;
    for (const place of [...this.#places])
      if (place.next === this.#first && place.movedAtMs <= since) this.#places.delete(place);
  }

  /** Drops the oldest chunk if every reader has it. */
  #dropPassed(): boolean {
    if ([...this.#places].some(({ next }) => next <= this.#first)) return false;
    const dropped = this.#kept.shift();
    if (dropped === undefined) return false;
    this.#drop(dropped);
    return true;
  }

  /** Memory is not used again if a reader that lost its place is still passing the chunk on. */
  #drop({ bytes, userCount }: Chunk): void {
    this.#keptBytes -= bytes.byteLength;
    this.#first += 1;
    if (userCount === 0) this.#giveBack(bytes);
  }

  async #close(): Promise<void> {
    for (const chunk of this.#kept.splice(0)) this.#drop(chunk);
    try {
      await this.#chunks.return?.();
    } finally {
      this.#onClose();
    }
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}
