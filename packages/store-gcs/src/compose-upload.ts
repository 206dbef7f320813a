/**
 * Uploads whose parts are objects, which the store puts together: for servers without the XML API.
 *
 * Everything of one is below `.holdfast-compose/<id>/` at the root: `begun`, as long as the upload is there; the parts; and, of more than
 * 32 parts, what some of them make together. The name of each tells what is in it (its CRC32C and size, or the names it was made from), and
 * each is created once: a part that comes twice, be it much later, changes nothing.
 */

import { createHash, randomUUID } from 'node:crypto';
import {
  assertComplete,
  assertCrcOfParts,
  assertPart,
  atATime,
  encodeToken,
  HttpRefusal,
  objectError,
  type StoreSubject,
} from '@holdfast/cloud-http';
import {
  type CallOptions,
  type CheckpointError,
  type CompleteOptions,
  type ObjectInfo,
  type PartOptions,
  type PartReceipt,
  STORE_OWN_PREFIX,
  type Upload,
} from '@holdfast/core/contract';
import { assertNothingIsKept } from './bucket-settings.ts';
import type { Place, UploadHome, UploadToken } from './upload.ts';
import { type GcsObject, infoOf } from './values.ts';
import { earlierEffect, ifAbsent, written } from './written.ts';

/** Sources of one compose: a limit of GCS. */
const SOURCES_MAX = 32;
/** Requests that put parts together, and those that delete them. */
const COMPOSES_MAX = 8;
const DELETES_MAX = 32;

const BEGUN = 'begun';
/** Index, CRC32C in hex, size. */
const PART = /^part-(\d{5})-([0-9a-f]{8})-(\d{1,13})$/;

export class ComposeUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #home: UploadHome;
  readonly #name: string;
  /** In the bucket, with '/' at its end. */
  readonly #folder: string;
  readonly #subject: StoreSubject;
  #isAborted = false;

  constructor(home: UploadHome, name: string, token: UploadToken) {
    this.key = token.key;
    this.token = encodeToken(token);
    this.partSizeBytes = token.partSizeBytes;
    this.#home = home;
    this.#name = name;
    this.#folder = `${home.config.root}${STORE_OWN_PREFIX}compose/${token.uploadId}/`;
    this.#subject = { store: home.config.uri, key: token.key };
  }

  static async begin(
    home: UploadHome,
    { key, path }: Place,
    partSizeBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<ComposeUpload> {
    await assertNothingIsKept(home, signal);
    const token = { strategy: 'compose', key, uploadId: randomUUID(), partSizeBytes } as const;
    const upload = new ComposeUpload(home, path, token);
    // For people who find it.
    const text = Buffer.from(JSON.stringify({ key }));
    // Nobody else knows its name: one that is there is this one.
    await ifAbsent(home.objects.create(`${upload.#folder}${BEGUN}`, text, { signal }));
    return upload;
  }

  putPart(index: number, bytes: Uint8Array, { crc32c, ...options }: PartOptions): Promise<PartReceipt> {
    return this.#run('send a part of', options.signal, async () => {
      this.#assertThere();
      const { maxParts } = this.#home.capabilities;
      const sizeBytes = bytes.byteLength;
      assertPart(this.#subject, { partSizeBytes: this.partSizeBytes, maxParts }, index, sizeBytes);
      const receipt = { index, sizeBytes, crc32c, etag: hex(crc32c) };
      const object = await ifAbsent(
        this.#home.objects.create(this.#folder + partName(receipt), bytes, { crc32c, ...options }),
      );
      if (object !== undefined)
        await written(this.#home.objects, this.#subject, object, { sizeBytes, crc32c });
      return receipt;
    });
  }

  listParts({ signal }: CallOptions = {}): Promise<PartReceipt[]> {
    return this.#run('list the parts of', signal, async () => {
      this.#assertThere();
      const files = await this.#files(signal);
      if (!files.some(({ name }) => name === `${this.#folder}${BEGUN}`)) throw this.#gone();
      // Of a part that was sent with other bytes again, the last counts.
      const byAge = files.toSorted((a, b) => Number(a.generation) - Number(b.generation));
      const parts = new Map<number, PartReceipt>();
      for (const { name } of byAge) {
        const [, index = '', etag = '', size] = PART.exec(name.slice(this.#folder.length)) ?? [];
        if (size === undefined) continue;
        const crc32c = Number.parseInt(etag, 16);
        parts.set(Number(index), { index: Number(index), sizeBytes: Number(size), crc32c, etag });
      }
      return [...parts.values()].sort((a, b) => a.index - b.index);
    });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#run('complete', options.signal, async () => {
      this.#assertThere();
      assertComplete(this.#subject, this.partSizeBytes, parts, options);
      assertCrcOfParts(this.#subject, parts, options);
      await this.#assertBegun(options.signal);
      const object = (await this.#earlier(options)) ?? (await this.#compose(parts, options));
      // As long as anything is left, the upload has not ended: whoever repeats this finds the object, and goes on here.
      await this.#clear(options.signal).catch((error: unknown) => {
        // What may not be deleted is for the bucket's lifecycle: the object is there all the same.
        if (!(error instanceof HttpRefusal && error.status === 403)) throw error;
      });
      return infoOf(this.key, object);
    });
  }

  abort({ signal }: CallOptions = {}): Promise<void> {
    return this.#run('abort an upload to', signal, () => {
      this.#isAborted = true;
      return this.#clear(signal);
    });
  }

  /** What an earlier call has made, of which nobody heard: then some of the parts may be gone. */
  async #earlier(options: CompleteOptions): Promise<GcsObject | undefined> {
    try {
      return await earlierEffect(this.#home.objects, this.#subject, this.#name, options);
    } catch (error) {
      if (error instanceof HttpRefusal && error.status === 404 && !error.isForeign) return undefined;
      throw error;
    }
  }

  async #compose(parts: readonly PartReceipt[], options: CompleteOptions): Promise<GcsObject> {
    const { signal } = options;
    const { objects } = this.#home;
    let names = parts.map((part) => this.#folder + partName(part));
    while (names.length > SOURCES_MAX) {
      const groups = Array.from({ length: Math.ceil(names.length / SOURCES_MAX) }, (_, group) =>
        names.slice(group * SOURCES_MAX, (group + 1) * SOURCES_MAX),
      );
      names = await atATime(groups, COMPOSES_MAX, async (sources) => {
        const name = `${this.#folder}tree-${createHash('sha256').update(sources.join('\n')).digest('hex')}`;
        await ifAbsent(objects.compose(name, sources, { signal }));
        return name;
      });
    }
    const composed = await ifAbsent(objects.compose(this.#name, names, { signal }));
    if (composed === undefined) return earlierEffect(objects, this.#subject, this.#name, options);
    return written(objects, this.#subject, composed, options);
  }

  /** What is there of this upload. */
  async #files(signal: AbortSignal | undefined): Promise<GcsObject[]> {
    const files = new Map<string, GcsObject>();
    let pageToken: string | undefined;
    do {
      const page = await this.#home.objects.page({ prefix: this.#folder, pageToken }, { signal });
      for (const file of page.objects) files.set(file.name, file);
      pageToken = page.nextPageToken;
    } while (pageToken !== undefined);
    return [...files.values()];
  }

  /** The mark goes last: as long as anything is there, the upload can be found and aborted. */
  async #clear(signal: AbortSignal | undefined): Promise<void> {
    const { objects } = this.#home;
    const mark = `${this.#folder}${BEGUN}`;
    const names = (await this.#files(signal)).map(({ name }) => name).filter((name) => name !== mark);
    await atATime(names, DELETES_MAX, (name) => objects.remove(name, { signal }));
    await objects.remove(mark, { signal });
  }

  async #assertBegun(signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#home.objects.metadata(`${this.#folder}${BEGUN}`, { signal });
    } catch (error) {
      if (error instanceof HttpRefusal && error.status === 404 && !error.isForeign) throw this.#gone();
      throw error;
    }
  }

  #assertThere(): void {
    if (this.#isAborted) throw this.#gone();
  }

  #gone(): CheckpointError {
    return objectError('NotFound', this.#subject, 'has no such upload: it is completed or aborted');
  }

  #run<T>(action: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return this.#home.calls.run({ action, key: this.key, signal }, work);
  }
}

function partName({ index, etag, sizeBytes }: PartReceipt): string {
  return `part-${String(index).padStart(5, '0')}-${etag}-${sizeBytes}`;
}

function hex(crc32c: number): string {
  return (crc32c >>> 0).toString(16).padStart(8, '0');
}
