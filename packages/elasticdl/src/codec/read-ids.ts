/**
 * Reads the ids of a table's rows: varints, decoded as they are read, without a BigInt for each.
 */

import { type RandomSource, throwIfAborted } from '@holdfast/core/contract';
import { HIGH, LOW, wordsOf } from '../id-halves.ts';
import type { IdRun, TablePlace } from '../layout.ts';
import { corrupt, quoted } from './read-errors.ts';
import { VARINT_BYTES_MAX } from './wire-cursor.ts';

export interface IdChunk {
  /** Row of the table that the first id belongs to; the others follow it. */
  readonly firstRow: number;
  /** At least 1, at most 65,536. */
  readonly ids: BigInt64Array;
}

export interface ReadIdsOptions {
  /** Name of the file in messages. */
  name: string;
  /** Bytes per read. Default and maximum 1 MiB. */
  bufferBytes?: number | undefined;
  signal?: AbortSignal | undefined;
}

const CHUNK_IDS = 65_536;
const READ_BYTES_MAX = 1_048_576;
const READ_BYTES_MIN = 64;
/** A tag and a varint. */
const ITEM_BYTES_MAX = 1 + VARINT_BYTES_MAX;

/**
 * Yields the ids in the order of rows; no byte is read twice. The next pull reuses the memory of a
 * chunk. `Corrupt`, with file, table and offset: a varint runs over its end, or the numbers of ids
 * and rows differ. Too few ids show only after all were read; more ids than rows are never yielded.
 */
export async function* readIds(
  source: RandomSource,
  place: TablePlace,
  options: ReadIdsOptions,
): AsyncGenerator<IdChunk, void, undefined> {
  const { name: file, signal } = options;
  const what = `table ${quoted(place.name)}`;
  const decoder = new IdDecoder(Math.max(1, Math.min(place.rowCount, CHUNK_IDS)));
  let firstRow = 0;
  // Small buffers for small tables, because a model may have many.
  const longestBytes = place.ids.reduce((most, { lengthBytes }) => Math.max(most, lengthBytes), 0);
  const runs = new RunReader(source, Math.min(options.bufferBytes ?? READ_BYTES_MAX, longestBytes));
  for (const run of place.ids) {
    runs.begin(run);
    while (await runs.fill(signal)) {
      while (runs.at < runs.stop) {
        if (!decoder.decode(runs, !run.isPacked)) {
          const problem = 'the varint of an id has no end, or more than 64 bits';
          throw corrupt({ file, what, offsetBytes: runs.offsetBytes, problem });
        }
        if (!decoder.isFull) continue;
        yield chunkFrom(firstRow);
        firstRow += decoder.count;
        decoder.count = 0;
      }
    }
  }
  if (decoder.count > 0) yield chunkFrom(firstRow);
  if (firstRow + decoder.count !== place.rowCount) throw otherCount(firstRow + decoder.count);

  function chunkFrom(row: number): IdChunk {
    const seen = row + decoder.count;
    if (seen > place.rowCount) throw otherCount(`${seen} or more`);
    return { firstRow: row, ids: decoder.ids };
  }

  function otherCount(found: number | string): Error {
    const problem = 'ids and rows of different count';
    const offsetBytes = place.ids[0]?.offsetBytes ?? place.values.offsetBytes;
    return corrupt({ file, what, offsetBytes, problem, expected: `${place.rowCount}`, found: `${found}` });
  }
}

/** Reads runs piece by piece. An item that a piece cuts is moved to the start of the next one. */
class RunReader {
  readonly #source: RandomSource;
  /** Followed by zeros, which end every varint that has no end of its own. */
  readonly bytes: Uint8Array;
  readonly #readBytes: number;
  /** Start of the next item. */
  at = 0;
  /** Items that start before this can be decoded. */
  stop = 0;
  #filledBytes = 0;
  /** Offset in the file after the filled part. */
  #nextBytes = 0;
  #endBytes = 0;

  constructor(source: RandomSource, readBytes: number) {
    this.#source = source;
    this.#readBytes = Math.max(READ_BYTES_MIN, Math.min(readBytes, READ_BYTES_MAX));
    this.bytes = new Uint8Array(this.#readBytes + 2 * ITEM_BYTES_MAX);
  }

  /** Offset of the next item in the file. */
  get offsetBytes(): number {
    return this.#nextBytes - this.#filledBytes + this.at;
  }

  begin({ offsetBytes, lengthBytes }: IdRun): void {
    this.at = 0;
    this.stop = 0;
    this.#filledBytes = 0;
    this.#nextBytes = offsetBytes;
    this.#endBytes = offsetBytes + lengthBytes;
  }

  /** False: the run has ended. */
  async fill(signal: AbortSignal | undefined): Promise<boolean> {
    const leftBytes = this.#endBytes - this.#nextBytes;
    if (leftBytes === 0) return false;
    throwIfAborted(signal);
    this.bytes.copyWithin(0, this.at, this.#filledBytes);
    const keptBytes = this.#filledBytes - this.at;
    const moreBytes = Math.min(leftBytes, this.#readBytes);
    await this.#source.readInto(this.#nextBytes, this.bytes.subarray(keptBytes, keptBytes + moreBytes));
    this.at = 0;
    this.#filledBytes = keptBytes + moreBytes;
    this.#nextBytes += moreBytes;
    this.bytes.fill(0, this.#filledBytes, this.#filledBytes + ITEM_BYTES_MAX);
    this.stop = moreBytes === leftBytes ? this.#filledBytes : Math.max(0, this.#filledBytes - ITEM_BYTES_MAX);
    return true;
  }

  /** Whether an item that ends at `at` ends within the run. */
  reaches(at: number): boolean {
    return at <= this.#filledBytes;
  }
}

/** Decodes ids into a chunk until that is full. */
class IdDecoder {
  readonly #ids: BigInt64Array;
  readonly #words: Uint32Array;
  count = 0;

  constructor(capacity: number) {
    this.#ids = new BigInt64Array(capacity);
    this.#words = wordsOf(this.#ids);
  }

  get isFull(): boolean {
    return this.count === this.#ids.length;
  }

  /** The ids decoded so far, as a view of the chunk. */
  get ids(): BigInt64Array {
    return this.#ids.subarray(0, this.count);
  }

  /**
   * Decodes until the chunk is full or the piece ends. False: the item at `run.at` is not valid.
   */
  decode(run: RunReader, hasTags: boolean): boolean {
    const { bytes, stop } = run;
    const words = this.#words;
    const tagBytes = hasTags ? 1 : 0;
    let { at } = run;
    let index = 2 * this.count;
    while (at < stop && index < words.length) {
      const start = at;
      at += tagBytes;
      let byte = bytes[at++] as number;
      let low = byte & 0x7f;
      let high = 0;
      for (let shift = 7; byte >= 0x80 && shift < 28; shift += 7) {
        byte = bytes[at++] as number;
        low |= (byte & 0x7f) << shift;
      }
      if (byte >= 0x80) {
        byte = bytes[at++] as number;
        low |= byte << 28;
        high = (byte & 0x7f) >>> 4;
        let shift = 3;
        for (; byte >= 0x80 && shift < 32; shift += 7) {
          byte = bytes[at++] as number;
          high |= (byte & 0x7f) << shift;
        }
        // The tenth byte may have only one bit.
        if (byte >= 0x80 || (shift > 32 && byte > 1)) {
          run.at = start;
          return false;
        }
      }
      if (!run.reaches(at)) {
        run.at = start;
        return false;
      }
      words[index + LOW] = low;
      words[index + HIGH] = high;
      index += 2;
    }
    run.at = at;
    this.count = index / 2;
    return true;
  }
}
