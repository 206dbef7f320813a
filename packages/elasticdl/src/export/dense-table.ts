/**
 * Writes the tensor of a dense table while its rows arrive, with ids in any order. A table that
 * fits into memory is assembled there and written at once. For a larger one, each block of rows is
 * sorted by id, and consecutive ids are written together. Without consecutive ids that takes one
 * call per row. Rows that never arrive are not written.
 */

import { atATime } from '@holdfast/core/contract';
import { LOW, wordsOf } from '../id-halves.ts';
import { checkIds } from './dense-ids.ts';

/** Size of the rows that are sorted together. */
const BLOCK_BYTES = 1024 * 1024;
/** An id and an index in the block share one float: 2^32 * 2^16 is below 2^53. */
const BLOCK_ROWS_MAX = 65_536;
const WRITES_AT_ONCE = 8;

/** Memory that tables share while they are assembled. */
export interface Memory {
  leftBytes: number;
}

export interface DenseTableOptions {
  readonly name: string;
  readonly rowBytes: number;
  readonly rowCount: number;
  /** Number of rows that will arrive. */
  readonly presentCount: number;
  readonly memory: Memory;
  /** Offsets count from the first byte of the table. */
  write(offsetBytes: number, bytes: Uint8Array): Promise<void>;
}

interface Run {
  readonly offsetBytes: number;
  readonly bytes: Uint8Array;
}

export class DenseTable {
  readonly #options: DenseTableOptions;
  readonly #blockRows: number;
  readonly #keys: Float64Array;
  /**
   * The whole table, from its first row to its last. `null`: it does not fit, no row has arrived,
   * or all is written.
   */
  #whole: Uint8Array | null = null;
  #arrivedCount = 0;
  #hasLastRow = false;

  constructor(options: DenseTableOptions) {
    this.#options = options;
    const rows = Math.floor(BLOCK_BYTES / Math.max(options.rowBytes, 1));
    this.#blockRows = Math.min(Math.max(rows, 1), BLOCK_ROWS_MAX);
    this.#keys = new Float64Array(Math.min(this.#blockRows, options.presentCount));
  }

  /** `InvalidArgument`: an id has no row here. */
  async put(ids: BigInt64Array, values: Uint8Array): Promise<void> {
    const { name, rowBytes, rowCount, presentCount } = this.#options;
    checkIds(name, ids, rowCount);
    if (rowBytes === 0) return;
    if (this.#arrivedCount === 0) this.#takeMemory();
    for (let from = 0; from < ids.length; from += this.#blockRows) {
      const to = Math.min(from + this.#blockRows, ids.length);
      const rows = values.subarray(from * rowBytes, to * rowBytes);
      await this.#putBlock(wordsOf(ids.subarray(from, to)), rows);
    }
    this.#arrivedCount += ids.length;
    if (this.#arrivedCount === presentCount) await this.#writeWhole();
  }

  /** Extends the file to its full length, whichever rows are missing. */
  async end(): Promise<void> {
    const { rowBytes, rowCount, write } = this.#options;
    if (this.#hasLastRow || rowCount === 0 || rowBytes === 0) return;
    // Write one byte, not the whole row: an info may give a table without rows any number of
    // elements.
    await write(rowCount * rowBytes - 1, new Uint8Array(1));
  }

  #takeMemory(): void {
    const { rowBytes, rowCount, memory } = this.#options;
    const sizeBytes = rowBytes * rowCount;
    if (sizeBytes > memory.leftBytes) return;
    memory.leftBytes -= sizeBytes;
    this.#whole = new Uint8Array(sizeBytes);
  }

  async #writeWhole(): Promise<void> {
    const whole = this.#whole;
    if (whole === null) return;
    await this.#options.write(0, whole);
    this.#hasLastRow = true;
    this.#whole = null;
    this.#options.memory.leftBytes += whole.byteLength;
  }

  async #putBlock(ids: Uint32Array, rows: Uint8Array): Promise<void> {
    const { rowBytes, write } = this.#options;
    const whole = this.#whole;
    if (whole === null) {
      const runs = this.#runs(ids, rows);
      await atATime(runs, WRITES_AT_ONCE, (run) => write(run.offsetBytes, run.bytes));
      return;
    }
    for (let row = 0; 2 * row < ids.length; row++) {
      const id = ids[2 * row + LOW] as number;
      whole.set(rows.subarray(row * rowBytes, (row + 1) * rowBytes), id * rowBytes);
    }
  }

  /** Rows of consecutive ids, each sequence in one piece. */
  #runs(ids: Uint32Array, rows: Uint8Array): Run[] {
    const { rowBytes, rowCount } = this.#options;
    const keys = this.#sortedKeys(ids);
    const sorted = new Uint8Array(rows.byteLength);
    const runs: Run[] = [];
    let start = 0;
    for (let at = 0; at < keys.length; at++) {
      const row = (keys[at] as number) % BLOCK_ROWS_MAX;
      sorted.set(rows.subarray(row * rowBytes, (row + 1) * rowBytes), at * rowBytes);
      const id = idOfKey(keys[at] as number);
      if (id === rowCount - 1) this.#hasLastRow = true;
      if (at + 1 < keys.length && idOfKey(keys[at + 1] as number) === id + 1) continue;
      const bytes = sorted.subarray(start * rowBytes, (at + 1) * rowBytes);
      runs.push({ offsetBytes: (id - (at - start)) * rowBytes, bytes });
      start = at + 1;
    }
    return runs;
  }

  #sortedKeys(ids: Uint32Array): Float64Array {
    const keys = this.#keys.subarray(0, ids.length / 2);
    for (let row = 0; row < keys.length; row++)
      keys[row] = (ids[2 * row + LOW] as number) * BLOCK_ROWS_MAX + row;
    return keys.sort();
  }
}

function idOfKey(key: number): number {
  return Math.floor(key / BLOCK_ROWS_MAX);
}
