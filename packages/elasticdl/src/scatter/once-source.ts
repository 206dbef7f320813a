/**
 * Keeps what was read of a file's structure. Reading the structure also reads some bytes around the
 * headers: ids, the beginnings of values. A source that verifies its bytes afterwards would have to
 * read all around them again if they were read twice. So they are kept and returned from here.
 */

import type { RandomSource } from '@holdfast/core/contract';

interface Piece {
  readonly offsetBytes: number;
  readonly bytes: Uint8Array;
}

export class OnceSource {
  readonly sizeBytes: number;
  readonly #source: RandomSource;
  #keepBytes: number;
  /** In order, without overlaps. */
  readonly #pieces: Piece[] = [];

  /** Keeps what is read, up to `keepBytes`. What does not fit is read again on the next request. */
  constructor(source: RandomSource, keepBytes: number) {
    this.sizeBytes = source.sizeBytes;
    this.#source = source;
    this.#keepBytes = keepBytes;
  }

  /** Stops keeping: later reads are large and happen once. */
  keepNoMore(): void {
    this.#keepBytes = 0;
  }

  async readInto(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    const end = offsetBytes + buffer.byteLength;
    let at = offsetBytes;
    for (const piece of this.#overlapping(offsetBytes, end)) {
      if (piece.offsetBytes > at)
        await this.#fetch(at, buffer.subarray(at - offsetBytes, piece.offsetBytes - offsetBytes));
      const from = Math.max(at, piece.offsetBytes);
      const kept = piece.bytes.subarray(from - piece.offsetBytes, end - piece.offsetBytes);
      buffer.set(kept, from - offsetBytes);
      at = from + kept.byteLength;
    }
    if (at < end) await this.#fetch(at, buffer.subarray(at - offsetBytes));
  }

  assertUnchanged(): Promise<void> {
    return this.#source.assertUnchanged();
  }

  /** Drops what was kept. The source stays open: its owner closes it. */
  async close(): Promise<void> {
    this.#pieces.length = 0;
  }

  async #fetch(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    await this.#source.readInto(offsetBytes, buffer);
    if (buffer.byteLength > this.#keepBytes) return;
    this.#keepBytes -= buffer.byteLength;
    this.#pieces.splice(this.#firstAfter(offsetBytes), 0, { offsetBytes, bytes: buffer.slice() });
  }

  #overlapping(start: number, end: number): Piece[] {
    const found: Piece[] = [];
    for (let at = this.#firstAfter(start); at < this.#pieces.length; at++) {
      const piece = this.#pieces[at];
      if (piece === undefined || piece.offsetBytes >= end) break;
      found.push(piece);
    }
    return found;
  }

  /** Index of the first piece that ends after `offsetBytes`. */
  #firstAfter(offsetBytes: number): number {
    let [low, high] = [0, this.#pieces.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      const piece = this.#pieces[middle];
      if (piece !== undefined && piece.offsetBytes + piece.bytes.byteLength <= offsetBytes) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
