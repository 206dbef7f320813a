/**
 * Files of one store as sources for uploads to another. They are read straight into the memory of the transfer that uploads them, and
 * each part is compared before it is sent; so no byte is copied, and the lender needs no memory of its own.
 */

import { abortError, CheckpointError, isCheckpointError, type ObjectStore } from '../contract/index.ts';
import { checkStoredFile, wholeParts } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import { ReadMemory } from './hedged-read.ts';
import { readParts, readUncompared, wholeMismatch } from './read.ts';
import type { Run } from './run.ts';

/** One file on offer. */
export class LentFile {
  readonly file: StoredFile;
  /** Of all files of one loan: whether the borrower's store has said that it cannot copy from the lender's. */
  readonly copies: { areImpossible: boolean };
  readonly #run: Run;

  constructor(file: StoredFile, run: Run, copies: LentFile['copies']) {
    this.file = file;
    this.copies = copies;
    this.#run = run;
  }

  /** Where it lies. */
  get store(): ObjectStore {
    return this.#run.store;
  }

  /** `borrower`: when it fires, nobody wants the bytes any more. */
  open(borrower: AbortSignal): LentSource {
    return new LentSource(this.file, this.#run, borrower);
  }
}

/** One file while it is read. Its `Corrupt` errors name the store that it lies in, and say in their context that it was `lent`. */
export class LentSource {
  readonly sizeBytes: number;
  /** The file was checksummed in parts of so many bytes. */
  readonly unitBytes: number;
  /** Reading takes turns among the requests of the lender's store, sending among those of the borrower's. */
  readonly turns: Pick<Run, 'turn' | 'partTurn'>;
  readonly #file: StoredFile;
  readonly #run: Run;
  readonly #borrower: AbortSignal;
  /** Bytes were read that could not be compared at once. */
  #isUncompared = false;

  constructor(file: StoredFile, run: Run, borrower: AbortSignal) {
    this.#file = file;
    this.#run = run;
    this.#borrower = borrower;
    this.sizeBytes = file.sizeBytes;
    this.unitBytes = file.partSizeBytes;
    this.turns = run;
    try {
      checkStoredFile(file);
    } catch (error) {
      throw this.#located(error);
    }
    borrower.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Fills the buffer. Whole parts of the file are compared with its record; what else is read, `assertUnchanged` compares. */
  async readInto(offsetBytes: number, bytes: Uint8Array, buffer: PooledBuffer): Promise<void> {
    const memory = ReadMemory.fixed(buffer);
    const parts = wholeParts(this.#file, offsetBytes, bytes.byteLength);
    if (!parts) this.#isUncompared = true;
    try {
      await (parts
        ? readParts(this.#run, this.#file, parts, memory)
        : readUncompared(this.#run, this.#file, offsetBytes, memory));
    } catch (error) {
      throw this.#located(error);
    }
  }

  /** `crc32c`: of all that is about to become an object. `Corrupt` (temporary: reading again may help) if that is not the file. */
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

  readonly #onAbort = (): void => this.#run.letGo(abortError(this.#borrower));

  #located(error: unknown, status?: CheckpointError['status']): unknown {
    if (!isCheckpointError(error, 'Corrupt')) return error;
    return new CheckpointError('Corrupt', error.message, {
      context: { ...error.context, store: this.#run.store.uri, lent: true },
      cause: error.cause,
      status: status ?? error.status,
    });
  }
}
