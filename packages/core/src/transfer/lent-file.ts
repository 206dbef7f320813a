/**
 * Files of one store as sources for uploads to another. They are read straight into the memory of the transfer that uploads them, and
 * each part is compared before it is sent; so no byte is copied, and the lender needs no memory of its own.
 */

import { abortError, CheckpointError, type ObjectStore, toCheckpointError } from '../contract/index.ts';
import { crc32cCombine } from '../format/checksum.ts';
import { checkStoredFile, wholeParts } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import { ReadMemory } from './hedged-read.ts';
import { readParts, readPiece, wholeMismatch } from './read.ts';
import type { Run } from './run.ts';

/** One file on offer. */
export class LentFile {
  readonly file: StoredFile;
  readonly #run: Run;

  constructor(file: StoredFile, run: Run) {
    this.file = file;
    this.#run = run;
  }

  /** Where it lies. */
  get store(): ObjectStore {
    return this.#run.store;
  }

  /** `borrower`: when it fires, nobody wants the bytes any more. `Corrupt` if the record makes no sense. */
  open(borrower: AbortSignal): LentSource {
    checkStoredFile(this.file);
    return new LentSource(this.file, this.#run, borrower);
  }
}

/** One file while it is read. */
export class LentSource {
  readonly sizeBytes: number;
  /** Reading takes turns among the requests of the lender's store, sending among those of the borrower's. */
  readonly turns: Pick<Run, 'turn' | 'partTurn'>;
  readonly #file: StoredFile;
  readonly #run: Run;
  readonly #borrower: AbortSignal;
  /** Checksums of bytes that could not be compared when they were read, by where they begin. */
  readonly #pieces = new Map<number, { readonly lengthBytes: number; readonly crc32c: number }>();

  constructor(file: StoredFile, run: Run, borrower: AbortSignal) {
    this.sizeBytes = file.sizeBytes;
    this.turns = run;
    this.#file = file;
    this.#run = run;
    this.#borrower = borrower;
    borrower.addEventListener('abort', this.#onAbort, { once: true });
  }

  /** Of what the file was checksummed. */
  get unitBytes(): number {
    return this.#file.partSizeBytes;
  }

  /** Fills the buffer. Whole parts of the file are compared with its record; what else is read, `assertUnchanged` compares. */
  async readInto(offsetBytes: number, bytes: Uint8Array, buffer: PooledBuffer): Promise<void> {
    const memory = ReadMemory.fixed(buffer);
    const parts = wholeParts(this.#file, offsetBytes, bytes.byteLength);
    if (parts) {
      await readParts(this.#run, this.#file, parts, memory);
      return;
    }
    const crc32c = await readPiece(this.#run, this.#file, offsetBytes, memory);
    this.#pieces.set(offsetBytes, { lengthBytes: bytes.byteLength, crc32c });
  }

  /** `Corrupt` (temporary: bytes may have been damaged on the way) if what was read is not what the record says. */
  async assertUnchanged(): Promise<void> {
    if (this.#pieces.size === 0) return;
    let found = 0;
    for (const [, piece] of [...this.#pieces].sort(([a], [b]) => a - b))
      found = crc32cCombine(found, piece.crc32c, piece.lengthBytes);
    if (found === this.#file.crc32c) return;
    const { message, context } = wholeMismatch(this.#file, found);
    throw new CheckpointError('Corrupt', message, { context, status: 'temporary' });
  }

  close(): void {
    this.#borrower.removeEventListener('abort', this.#onAbort);
  }

  readonly #onAbort = (): void => this.#run.fail(toCheckpointError(abortError(this.#borrower)));
}
