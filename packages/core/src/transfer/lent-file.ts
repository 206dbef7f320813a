/**
 * Files of one store as sources for uploads to another. They are read straight into the memory of
 * the uploading transfer, and each part is compared before it is sent. No byte is copied, and the
 * lender needs no memory.
 */

import { abortError, CheckpointError, isCheckpointError, type ObjectStore } from '../contract/index.ts';
import { checkStoredFile, wholeParts } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import { ReadMemory } from './hedged-read.ts';
import { readParts, readUncompared, wholeMismatch } from './read.ts';
import type { Transfer } from './transfer.ts';

/** One file on offer. */
export class LentFile {
  readonly file: StoredFile;
  /**
   * Shared by all files of one loan: whether the borrower's store cannot copy from the lender's.
   */
  readonly copies: { areImpossible: boolean };
  readonly #transfer: Transfer;

  constructor(file: StoredFile, transfer: Transfer, copies: LentFile['copies']) {
    this.file = file;
    this.copies = copies;
    this.#transfer = transfer;
  }

  /** The store that holds the file. */
  get store(): ObjectStore {
    return this.#transfer.store;
  }

  /** `borrower`: fires when the bytes are no longer needed. */
  open(borrower: AbortSignal): LentSource {
    return new LentSource(this.file, this.#transfer, borrower);
  }
}

/**
 * One file while it is read. Its `Corrupt` errors name the store that holds it, and have `lent` set
 * in their context.
 */
export class LentSource {
  readonly sizeBytes: number;
  /** The file's checksums are of parts of this size. */
  readonly unitBytes: number;
  /**
   * Reading takes turns among the requests to the lender's store, sending among those to the
   * borrower's.
   */
  readonly turns: Pick<Transfer, 'turn' | 'partTurn'>;
  readonly #file: StoredFile;
  readonly #transfer: Transfer;
  readonly #borrower: AbortSignal;
  /** Some bytes that were read could not be compared at once. */
  #isUncompared = false;

  constructor(file: StoredFile, transfer: Transfer, borrower: AbortSignal) {
    this.#file = file;
    this.#transfer = transfer;
    this.#borrower = borrower;
    this.sizeBytes = file.sizeBytes;
    this.unitBytes = file.partSizeBytes;
    this.turns = transfer;
    try {
      checkStoredFile(file);
    } catch (error) {
      throw this.#located(error);
    }
    borrower.addEventListener('abort', this.#onAbort, { once: true });
  }

  /**
   * Fills the buffer. Whole parts of the file are compared with the record. Other bytes are
   * compared by `assertUnchanged`.
   */
  async readInto(offsetBytes: number, bytes: Uint8Array, buffer: PooledBuffer): Promise<void> {
    const memory = ReadMemory.fixed(buffer);
    const parts = wholeParts(this.#file, offsetBytes, bytes.byteLength);
    if (!parts) this.#isUncompared = true;
    try {
      await (parts
        ? readParts(this.#transfer, this.#file, parts, memory)
        : readUncompared(this.#transfer, this.#file, offsetBytes, memory));
    } catch (error) {
      throw this.#located(error);
    }
  }

  /**
   * `crc32c`: of all bytes that are about to become an object. `Corrupt` (temporary, because
   * reading again may help): they differ from the file.
   */
  async assertUnchanged(crc32c: number): Promise<void> {
    if (crc32c === this.#file.crc32c) return;
    const mismatch = wholeMismatch(this.#file, crc32c);
    if (this.#isUncompared) throw this.#located(mismatch, 'temporary');
    const message = `"${this.#file.name}" was changed in this machine's memory while it was copied`;
    throw new CheckpointError('Corrupt', message, { context: mismatch.context, status: 'temporary' });
  }

  close(): void {
    this.#borrower.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = (): void => this.#transfer.letGo(abortError(this.#borrower));

  #located(error: unknown, status?: CheckpointError['status']): unknown {
    if (!isCheckpointError(error, 'Corrupt')) return error;
    return new CheckpointError('Corrupt', error.message, {
      context: { ...error.context, store: this.#transfer.store.uri, lent: true },
      cause: error.cause,
      status: status ?? error.status,
    });
  }
}
