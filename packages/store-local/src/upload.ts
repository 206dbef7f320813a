import type { BigIntStats } from 'node:fs';
import { basename } from 'node:path';
import type {
  CallOptions,
  CheckpointError,
  CompleteOptions,
  ErrorCode,
  ObjectInfo,
  PartOptions,
  PartReceipt,
  Upload,
} from '@holdfast/core/contract';
import type { Check } from '@holdfast/local-files';
import { errnoOf } from '@holdfast/local-files';
import type { DurableNames } from './durable-names.ts';
import { objectError, writeError } from './errors.ts';
import { infoOf } from './object-files.ts';
import type { UploadNotes } from './upload-notes.ts';
import type { ObjectWriter, TemporaryFile } from './writer.ts';

/** What an upload needs from its store. */
export interface UploadParts {
  readonly uri: string;
  readonly writer: ObjectWriter;
  readonly names: DurableNames;
  readonly maxParts: number;
  /** `null` where uploads cannot be resumed. */
  readonly resuming: Resuming | null;
  /**
   * Runs a call of the store: rejects it when the store is closed, and lets `close` wait for it.
   */
  readonly run: <T>(options: CallOptions | undefined, work: (check: Check) => Promise<T>) => Promise<T>;
  /** Called when the upload no longer needs its store. */
  readonly onEnd: (upload: LocalUpload) => void;
}

export interface Resuming {
  readonly notes: UploadNotes;
  readonly crc32c: Crc32c;
}

/** `seed`: the CRC32C of the preceding bytes. */
export type Crc32c = (bytes: Uint8Array, seed?: number) => number;

/** Bytes of a part that are read at a time. */
const SCAN_BYTES = 4 * 1024 * 1024;

/** Open handles, by process and file name. The file name is unique. */
const handles = new Map<string, LocalUpload>();

/**
 * The only handle of this process that may write to the file. The key includes the process, because
 * a test has several in one program.
 */
export function handleOf(file: string, resuming: Pick<Resuming, 'notes'> | null): LocalUpload | undefined {
  return handles.get(handleName(file, resuming));
}

function handleName(file: string, resuming: Pick<Resuming, 'notes'> | null): string {
  return `${resuming?.notes.self ?? ''} ${file}`;
}

/**
 * Parts are written to their final positions in one temporary file, so completing moves no bytes.
 * The file becomes the object, so only one handle at a time may write to it. A process that takes
 * the upload over waits until the previous handle has released it, or its process is gone.
 */
export class LocalUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #parts: UploadParts;
  readonly #temporary: TemporaryFile;
  readonly #file: string;
  readonly #receipts = new Map<number, PartReceipt>();
  readonly #running = new Set<Promise<unknown>>();
  /** The file may hold parts whose checksums are not known yet. */
  #isScanned: boolean;
  /** Stats of the finished file. Nothing is written to it any more. */
  #finished: BigIntStats | null = null;
  /** The handle accepts no more calls. */
  #hasEnded = false;
  #lettingGo: Promise<void> | null = null;
  /** The upload is gone and cannot be resumed. */
  #isGone = false;

  /** `isResumed`: the file holds data written by another handle. */
  constructor(
    { key, partSizeBytes }: Pick<Upload, 'key' | 'partSizeBytes'>,
    temporary: TemporaryFile,
    parts: UploadParts,
    isResumed: boolean,
  ) {
    this.key = key;
    this.partSizeBytes = partSizeBytes;
    this.#file = basename(temporary.path);
    this.token = JSON.stringify({ key, partSizeBytes, file: this.#file } satisfies LocalToken);
    this.#parts = parts;
    this.#temporary = temporary;
    this.#isScanned = !isResumed;
    handles.set(handleName(this.#file, parts.resuming), this);
  }

  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    return this.#run(options, async (check) => {
      this.#assertOpen();
      this.#assertPart(index, bytes);
      // While the part is being replaced, its content is neither the old nor the new.
      this.#receipts.delete(index);
      await this.#temporary.file.write(index * this.partSizeBytes, bytes, check).catch((error: unknown) => {
        throw writeError(error, `write part ${index} of`, this.#subject());
      });
      const receipt = receiptOf(index, bytes.byteLength, options.crc32c);
      this.#receipts.set(index, receipt);
      return receipt;
    });
  }

  listParts(options?: CallOptions): Promise<PartReceipt[]> {
    return this.#run(options, async (check) => {
      this.#assertOpen();
      if (!this.#isScanned) await this.#scan(check);
      return [...this.#receipts.values()].sort((a, b) => a.index - b.index);
    });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#run(options, async (check) => {
      this.#assertOpen();
      this.#assertComplete(parts, options.sizeBytes);
      const { writer } = this.#parts;
      try {
        this.#finished ??= await this.#finish(options.sizeBytes);
        check();
        await writer.name(this.#temporary, this.key);
        await this.#parts.names.made(this.key);
      } catch (error) {
        // Sending everything again can succeed, completing again cannot.
        if (errnoOf(error) === 'ENOENT')
          throw objectError('NotFound', this.#subject(), 'cannot be completed: its file is gone', error);
        throw writeError(error, 'complete', this.#subject());
      }
      await this.#end();
      return infoOf(this.key, this.#finished);
    });
  }

  async abort(options?: CallOptions): Promise<void> {
    if (this.#hasEnded) return;
    await this.#run(options, () => this.#end());
  }

  /**
   * Stops writing and leaves the upload resumable. An upload that cannot be resumed ends instead.
   * Waits for pending calls. Never throws: if its note cannot be renamed, the upload stays with
   * this process until the process ends.
   */
  letGo(): Promise<void> {
    this.#lettingGo ??= this.#letGo();
    return this.#lettingGo;
  }

  async #letGo(): Promise<void> {
    const { resuming } = this.#parts;
    if (resuming === null && !this.#hasEnded) return this.#end();
    const isOpen = !this.#hasEnded;
    this.#hasEnded = true;
    await Promise.allSettled(this.#running);
    if (!isOpen || this.#isGone) return;
    this.#forget();
    await this.#temporary.file.close().catch(() => undefined);
    await resuming?.notes.free(this.#file).catch(() => undefined);
  }

  /**
   * Reads the file to find which parts are present. A part that was being written is reported with
   * the bytes that the file holds.
   */
  async #scan(check: Check): Promise<void> {
    const { file } = this.#temporary;
    const sizeBytes = Number((await file.stat()).size);
    const count = Math.min(Math.ceil(sizeBytes / this.partSizeBytes), this.#parts.maxParts);
    for (let index = 0; index < count; index++) {
      if (this.#receipts.has(index)) continue;
      const start = index * this.partSizeBytes;
      const end = Math.min(start + this.partSizeBytes, sizeBytes);
      const crc32c = await this.#crcOf(start, end, check);
      // The part may have been sent meanwhile.
      if (crc32c === null || this.#receipts.has(index)) continue;
      this.#receipts.set(index, receiptOf(index, end - start, crc32c));
    }
    this.#isScanned = true;
  }

  /** Null if all bytes are zero: a hole, where no part was written, reads like that. */
  async #crcOf(start: number, end: number, check: Check): Promise<number | null> {
    const { file } = this.#temporary;
    const buffer = Buffer.alloc(Math.min(SCAN_BYTES, end - start));
    const zeros = Buffer.alloc(buffer.byteLength);
    let isHole = true;
    let crc32c = 0;
    for (let offset = start; offset < end; offset += SCAN_BYTES) {
      const piece = buffer.subarray(0, Math.min(SCAN_BYTES, end - offset));
      const count = await file.read(offset, piece, check);
      crc32c = this.#parts.resuming?.crc32c(piece.subarray(0, count), crc32c) ?? 0;
      isHole &&= piece.equals(zeros.subarray(0, piece.byteLength));
    }
    return isHole ? null : crc32c;
  }

  /**
   * Finishes the file. After a failure here the content of the file is unknown, so the file is
   * abandoned.
   */
  async #finish(sizeBytes: number): Promise<BigIntStats> {
    const { file } = this.#temporary;
    try {
      // A last part that was sent again may be shorter than before.
      if (Number((await file.stat()).size) !== sizeBytes) await file.truncate(sizeBytes);
      await this.#parts.writer.makeDurable(file);
      return await file.stat();
    } catch (error) {
      await this.#end();
      throw error;
    }
  }

  async #end(): Promise<void> {
    this.#hasEnded = true;
    this.#isGone = true;
    this.#forget();
    await this.#parts.writer.remove(this.#temporary);
    // If the removal fails, the note belongs to a file that is gone, and is swept.
    await this.#parts.resuming?.notes.remove(this.#file).catch(() => undefined);
  }

  #forget(): void {
    const name = handleName(this.#file, this.#parts.resuming);
    if (handles.get(name) === this) handles.delete(name);
    this.#parts.onEnd(this);
  }

  async #run<T>(options: CallOptions | undefined, work: (check: Check) => Promise<T>): Promise<T> {
    const running = this.#parts.run(options, work);
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  #assertOpen(): void {
    if (this.#hasEnded)
      throw this.#error('NotFound', 'has no such upload: it is completed, aborted or taken over');
  }

  #assertPart(index: number, bytes: Uint8Array): void {
    const { maxParts } = this.#parts;
    if (this.#finished !== null)
      throw this.#error('InvalidArgument', 'is being completed and takes no more parts');
    if (!Number.isSafeInteger(index) || index < 0 || index >= maxParts) {
      throw this.#error('InvalidArgument', `has no part ${index}; parts are numbered 0 to ${maxParts - 1}`);
    }
    if (bytes.byteLength > this.partSizeBytes) {
      const message = `was given a part of ${bytes.byteLength} bytes; its parts have ${this.partSizeBytes}`;
      throw this.#error('InvalidArgument', message);
    }
  }

  #assertComplete(parts: readonly PartReceipt[], sizeBytes: number): void {
    let sumBytes = 0;
    for (const [index, part] of parts.entries()) {
      const sent = this.#receipts.get(index);
      if (part.index !== index || sent === undefined || sent.etag !== part.etag) {
        throw this.#error(
          'InvalidArgument',
          `cannot be completed: part ${index} is not the one that was sent last`,
        );
      }
      if (index < parts.length - 1 && sent.sizeBytes !== this.partSizeBytes) {
        const message = `cannot be completed: part ${index} has ${sent.sizeBytes} bytes, not ${this.partSizeBytes}, and is not the last`;
        throw this.#error('InvalidArgument', message);
      }
      sumBytes += sent.sizeBytes;
    }
    if (sumBytes !== sizeBytes) {
      throw this.#error('Corrupt', `has parts of ${sumBytes} bytes together; expected ${sizeBytes}`);
    }
  }

  #error(code: ErrorCode, what: string): CheckpointError {
    return objectError(code, this.#subject(), what);
  }

  #subject() {
    return { store: this.#parts.uri, key: this.key };
  }
}

/** Encoded as JSON. */
export interface LocalToken {
  readonly key: string;
  readonly partSizeBytes: number;
  /** Name of the temporary file. */
  readonly file: string;
}

function receiptOf(index: number, sizeBytes: number, crc32c: number): PartReceipt {
  return { index, sizeBytes, crc32c, etag: `${index}-${sizeBytes}-${crc32c}` };
}
