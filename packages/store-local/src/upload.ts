import type { BigIntStats } from 'node:fs';
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
import { objectError, writeError } from './errors.ts';
import { infoOf } from './object-files.ts';
import type { ObjectWriter, TemporaryFile } from './writer.ts';

/** What an upload needs of its store. */
export interface UploadParts {
  readonly uri: string;
  readonly writer: ObjectWriter;
  readonly maxParts: number;
  /** Runs a call of the store: refuses it when the store is closed, and lets `close` wait for it. */
  readonly run: <T>(options: CallOptions | undefined, work: (check: Check) => Promise<T>) => Promise<T>;
  /** The upload needs its store no more. */
  readonly onEnd: (upload: LocalUpload) => void;
}

/** Parts are written to their places in one temporary file, so completing moves no bytes. */
export class LocalUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #parts: UploadParts;
  readonly #temporary: TemporaryFile;
  readonly #receipts = new Map<number, PartReceipt>();
  /** Of the finished file: nothing is written to it any more. */
  #finished: BigIntStats | null = null;
  #hasEnded = false;

  constructor(key: string, partSizeBytes: number, temporary: TemporaryFile, parts: UploadParts) {
    this.key = key;
    this.partSizeBytes = partSizeBytes;
    this.token = JSON.stringify({ key, partSizeBytes, file: temporary.path.split('/').at(-1) });
    this.#parts = parts;
    this.#temporary = temporary;
  }

  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    return this.#parts.run(options, async (check) => {
      this.#assertOpen();
      this.#assertPart(index, bytes);
      // While it is replaced the part is neither what it was nor what it will be.
      this.#receipts.delete(index);
      await this.#temporary.file.write(index * this.partSizeBytes, bytes, check).catch((error: unknown) => {
        throw writeError(error, `write part ${index} of`, this.#subject());
      });
      const { crc32c } = options;
      const receipt = {
        index,
        sizeBytes: bytes.byteLength,
        crc32c,
        etag: `${index}-${bytes.byteLength}-${crc32c}`,
      };
      this.#receipts.set(index, receipt);
      return receipt;
    });
  }

  listParts(options?: CallOptions): Promise<PartReceipt[]> {
    return this.#parts.run(options, async () => {
      this.#assertOpen();
      return [...this.#receipts.values()].sort((a, b) => a.index - b.index);
    });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#parts.run(options, async (check) => {
      this.#assertOpen();
      this.#assertComplete(parts, options.sizeBytes);
      const { writer } = this.#parts;
      try {
        this.#finished ??= await this.#finish(options.sizeBytes);
        check();
        await writer.name(this.#temporary, this.key);
        await writer.makeNameDurable(this.key);
      } catch (error) {
        throw writeError(error, 'complete', this.#subject());
      }
      await this.#end();
      return infoOf(this.key, this.#finished);
    });
  }

  async abort(options?: CallOptions): Promise<void> {
    if (this.#hasEnded) return;
    await this.#parts.run(options, () => this.#end());
  }

  /** Without asking the store, which is closing. Never throws. */
  async end(): Promise<void> {
    if (!this.#hasEnded) await this.#end();
  }

  /** After a failure here nobody knows what the file holds, so it is given up. */
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
    this.#parts.onEnd(this);
    await this.#parts.writer.remove(this.#temporary);
  }

  #assertOpen(): void {
    if (this.#hasEnded) throw this.#error('NotFound', 'has no such upload: it is completed or aborted');
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
