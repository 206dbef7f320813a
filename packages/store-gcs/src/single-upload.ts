/**
 * Uploads whose parts are kept in memory and sent as one body: for servers that support neither
 * multipart uploads nor compose.
 */

import { randomUUID } from 'node:crypto';
import {
  assertComplete,
  assertPart,
  encodeToken,
  objectError,
  type StoreSubject,
} from '@holdfast/cloud-http';
import type {
  CallOptions,
  CheckpointError,
  CompleteOptions,
  ObjectInfo,
  PartOptions,
  PartReceipt,
  Upload,
} from '@holdfast/core/contract';
import type { Place, UploadHome } from './upload-home.ts';
import { infoOf } from './values.ts';
import { earlierEffect, ifAbsent, written } from './written.ts';

export class SingleUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #home: UploadHome;
  readonly #name: string;
  readonly #subject: StoreSubject;
  readonly #parts = new Map<number, { readonly bytes: Uint8Array; readonly receipt: PartReceipt }>();
  #isOver = false;

  constructor(home: UploadHome, { key, path }: Place, partSizeBytes: number) {
    this.key = key;
    this.token = encodeToken({ strategy: 'single', key, uploadId: randomUUID(), partSizeBytes });
    this.partSizeBytes = partSizeBytes;
    this.#home = home;
    this.#name = path;
    this.#subject = { store: home.config.uri, key };
  }

  putPart(index: number, bytes: Uint8Array, { crc32c, onBytes, signal }: PartOptions): Promise<PartReceipt> {
    return this.#run('send a part of', signal, async () => {
      this.#assertThere();
      const sizeBytes = bytes.byteLength;
      const { maxParts } = this.#home.capabilities;
      assertPart(this.#subject, { partSizeBytes: this.partSizeBytes, maxParts }, index, sizeBytes);
      const receipt = { index, sizeBytes, crc32c, etag: String(crc32c) };
      this.#parts.set(index, { bytes: bytes.slice(), receipt });
      onBytes?.();
      return receipt;
    });
  }

  listParts({ signal }: CallOptions = {}): Promise<PartReceipt[]> {
    return this.#run('list the parts of', signal, async () => {
      this.#assertThere();
      return [...this.#parts.values()].map(({ receipt }) => receipt).sort((a, b) => a.index - b.index);
    });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#run('complete', options.signal, async () => {
      this.#assertThere();
      assertComplete(this.#subject, this.partSizeBytes, parts, options);
      const bytes = Buffer.concat(parts.map((part) => this.#bytesOf(part)));
      const { objects } = this.#home;
      const created = await ifAbsent(objects.create(this.#name, bytes, options));
      const object =
        created === undefined
          ? await earlierEffect(objects, this.#subject, this.#name, options)
          : await written(objects, this.#subject, created, options);
      this.#end();
      return infoOf(this.key, object);
    });
  }

  abort({ signal }: CallOptions = {}): Promise<void> {
    return this.#run('abort an upload to', signal, async () => this.#end());
  }

  #end(): void {
    this.#isOver = true;
    this.#parts.clear();
  }

  #bytesOf({ index, etag }: PartReceipt): Uint8Array {
    const part = this.#parts.get(index);
    if (part !== undefined && part.receipt.etag === etag) return part.bytes;
    throw objectError('InvalidArgument', this.#subject, `cannot be completed: part ${index} is another one`);
  }

  #assertThere(): void {
    if (this.#isOver) throw this.#gone();
  }

  #gone(): CheckpointError {
    return objectError('NotFound', this.#subject, 'has no such upload: it is completed or aborted');
  }

  #run<T>(action: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return this.#home.calls.run({ action, key: this.key, signal }, work);
  }
}
