/**
 * Uploads whose parts are kept in memory and sent as one body: for servers that support neither
 * multipart uploads nor compose.
 */

import { randomUUID } from 'node:crypto';
import {
  type Completion,
  type ObjectPlace,
  objectError,
  type PartsPage,
  PartUpload,
} from '@holdfast/cloud-http';
import type { ObjectInfo, PartOptions, PartReceipt } from '@holdfast/core/contract';
import { infoOf } from './answers.ts';
import type { GcsUploadHome, Token } from './upload-home.ts';
import { earlierEffect, ifAbsent, written } from './written.ts';

export class SingleUpload extends PartUpload {
  readonly #home: GcsUploadHome;
  readonly #name: string;
  readonly #parts = new Map<number, { readonly bytes: Uint8Array; readonly receipt: PartReceipt }>();
  #isCompleted = false;

  constructor(home: GcsUploadHome, { key, path }: ObjectPlace, partSizeBytes: number) {
    const token: Token = { strategy: 'single', key, uploadId: randomUUID(), partSizeBytes };
    super(home, token);
    this.#home = home;
    this.#name = path;
  }

  protected async sendPart(
    index: number,
    bytes: Uint8Array,
    { crc32c, onBytes }: PartOptions,
  ): Promise<Pick<PartReceipt, 'crc32c' | 'etag'>> {
    this.#assertThere();
    const facts = { crc32c, etag: String(crc32c) };
    const receipt = { index, sizeBytes: bytes.byteLength, ...facts };
    this.#parts.set(index, { bytes: bytes.slice(), receipt });
    onBytes?.();
    return facts;
  }

  protected async partsPage(): Promise<PartsPage> {
    this.#assertThere();
    const parts = [...this.#parts.values()].map(({ receipt }) => receipt);
    return { parts: parts.sort((a, b) => a.index - b.index) };
  }

  protected async sendCompletion(
    parts: readonly PartReceipt[],
    options: Completion,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    this.#assertThere();
    const bytes = Buffer.concat(parts.map((part) => this.#bytesOf(part)));
    const { objects } = this.#home;
    const created = await ifAbsent(objects.create(this.#name, bytes, options));
    const object =
      created === undefined
        ? await earlierEffect(objects, this.subject, this.#name, options)
        : await written(objects, this.subject, created, options);
    this.#isCompleted = true;
    this.#parts.clear();
    return infoOf(object);
  }

  protected async sendAbort(): Promise<void> {
    this.#parts.clear();
  }

  #bytesOf({ index, etag }: PartReceipt): Uint8Array {
    const part = this.#parts.get(index);
    if (part !== undefined && part.receipt.etag === etag) return part.bytes;
    throw objectError('InvalidArgument', this.subject, `cannot be completed: part ${index} is another one`);
  }

  #assertThere(): void {
    if (this.#isCompleted) throw this.gone('it is completed');
  }
}
