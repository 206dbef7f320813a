/**
 * Keeps ids between the pass that counts them and the one that moves their rows. They stay in
 * memory as long as there is room; the rest goes to an unlinked file.
 */

import { constants } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemRandom } from '@holdfast/core/contract';
import { DirectFile, fileError, nodeFileSystem } from '@holdfast/local-files';

/**
 * Consecutive rows in one table of one file, without the unwanted ones. At most 65,536, so a
 * position takes 16 bits.
 */
export interface IdRecord {
  /** Row of the table in its file at position 0. */
  readonly firstRow: number;
  /** Two for each wanted row, as in a `BigInt64Array`. */
  readonly halves: Int32Array;
  /** Positions of these rows, counted from `firstRow`, ascending: one for each row. */
  readonly positions: Uint16Array;
}

/** A record in the spool. */
export interface KeptRecord {
  readonly firstRow: number;
  readonly count: number;
  /** All rows are wanted, so no positions are stored. */
  readonly isWhole: boolean;
  /** The record in memory, or its offset in the file. */
  readonly where: IdRecord | number;
}

export const RECORD_ROWS_MAX = 65_536;

const ALL_POSITIONS = Uint16Array.from({ length: RECORD_ROWS_MAX }, (_, row) => row);

const ID_BYTES = 8;
const POSITION_BYTES = 2;

export class IdSpool {
  readonly #directory: string;
  #memoryBytesLeft: number;
  #file: Promise<DirectFile> | null = null;
  #fileBytes = 0;

  /** `directory`: for the file, if one is needed; default: the directory for temporary files. */
  constructor(memoryBytes: number, directory: string = tmpdir()) {
    this.#memoryBytesLeft = memoryBytes;
    this.#directory = directory;
  }

  /** Bytes that did not fit into memory. */
  get fileBytes(): number {
    return this.#fileBytes;
  }

  /** Copies the record. `rowCount`: number of rows that it covers, wanted or not. */
  async keep(record: IdRecord, rowCount: number): Promise<KeptRecord> {
    const { firstRow, halves, positions } = record;
    const count = positions.length;
    const isWhole = count === rowCount;
    const sizeBytes = count * (isWhole ? ID_BYTES : ID_BYTES + POSITION_BYTES);
    if (sizeBytes <= this.#memoryBytesLeft) {
      this.#memoryBytesLeft -= sizeBytes;
      const kept = {
        firstRow,
        halves: halves.slice(),
        positions: isWhole ? whole(count) : positions.slice(),
      };
      return { firstRow, count, isWhole, where: kept };
    }
    const offsetBytes = this.#fileBytes;
    this.#fileBytes += sizeBytes;
    const bytes = new Uint8Array(sizeBytes);
    bytes.set(bytesOf(halves));
    if (!isWhole) bytes.set(bytesOf(positions), count * ID_BYTES);
    const file = await this.#open();
    await translated('write', this.#directory, () => file.write(offsetBytes, bytes));
    return { firstRow, count, isWhole, where: offsetBytes };
  }

  async load({ firstRow, count, isWhole, where }: KeptRecord): Promise<IdRecord> {
    if (typeof where !== 'number') return where;
    const bytes = new Uint8Array(count * (isWhole ? ID_BYTES : ID_BYTES + POSITION_BYTES));
    const file = await this.#open();
    await translated('read', this.#directory, () => file.read(where, bytes));
    const halves = new Int32Array(bytes.buffer, 0, 2 * count);
    const positions = isWhole ? whole(count) : new Uint16Array(bytes.buffer, count * ID_BYTES, count);
    return { firstRow, halves, positions };
  }

  async close(): Promise<void> {
    await (await this.#file)?.close();
  }

  #open(): Promise<DirectFile> {
    this.#file ??= translated('create', this.#directory, async () => {
      const path = join(this.#directory, `.holdfast-ids-${systemRandom.hex(16)}`);
      const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
      const file = await DirectFile.open(path, flags, { direct: false, mode: 0o600 });
      // Without a name the file disappears with the process, however that ends.
      await nodeFileSystem.unlink(path);
      return file;
    });
    return this.#file;
  }
}

function whole(count: number): Uint16Array {
  return ALL_POSITIONS.subarray(0, count);
}

function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

async function translated<T>(action: string, directory: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw fileError(error, `${action} a scratch file for ids in ${directory}`, { path: directory });
  }
}
