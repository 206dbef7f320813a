/**
 * Uploads whose parts are objects that the store composes: for servers without the XML API.
 *
 * All objects of one upload are below `.holdfast-compose/<id>/` at the root. They are the parts,
 * and the object `begun`, which exists as long as the upload does. More than 32 parts also need
 * intermediate objects. Each name describes the content (its CRC32C and size, or the names it was
 * made from), and each object is created once. So a part that arrives twice, even much later,
 * changes nothing.
 */

import { createHash, randomUUID } from 'node:crypto';
import {
  assertCrcOfParts,
  type Completion,
  HttpRefusal,
  type ObjectPlace,
  objectError,
  type PartsPage,
  PartUpload,
} from '@holdfast/cloud-http';
import {
  atATime,
  type CheckpointError,
  type ObjectInfo,
  type PartOptions,
  type PartReceipt,
  STORE_OWN_PREFIX,
} from '@holdfast/core/contract';
import { type GcsObject, infoOf } from './answers.ts';
import type { GcsUploadHome, Token } from './upload-home.ts';
import { earlierEffect, ifAbsent, written } from './written.ts';

/** Maximum number of sources of one compose in GCS. */
const SOURCES_MAX = 32;
/** Concurrent requests that compose parts, and that delete them. */
const COMPOSES_MAX = 8;
const DELETES_MAX = 32;

const BEGUN = 'begun';
/** The mark (object `begun`) holds only a key in JSON, so a larger object is not one of ours. */
const BEGUN_BYTES_MAX = 16 * 1024;
/** Index, CRC32C in hex, size. */
const PART = /^part-(\d{5})-([0-9a-f]{8})-(\d{1,13})$/;

/** Content of the mark. */
interface Begun {
  readonly key: string;
  readonly partSizeBytes: number;
}

/**
 * Lists incomplete uploads with their parts. Needs one more request for each upload, to read its
 * mark.
 */
export async function* listComposeUploads(
  home: GcsUploadHome,
  signal: AbortSignal | undefined,
): AsyncGenerator<Begun & { uploadId: string; beganAtMs: number; sizeBytes: number }, void, void> {
  const folder = `${home.config.root}${STORE_OWN_PREFIX}compose/`;
  const call = { action: 'list the uploads of', signal };
  const files = await home.calls.run(call, () => filesBelow(home, folder, signal));
  const sizes = new Map<string, number>();
  for (const { name, sizeBytes } of files) {
    const [uploadId = '', file = ''] = name.slice(folder.length).split('/');
    if (PART.test(file)) sizes.set(uploadId, (sizes.get(uploadId) ?? 0) + sizeBytes);
  }
  for (const { name, createdAtMs } of files) {
    const [uploadId = '', file] = name.slice(folder.length).split('/');
    if (file !== BEGUN) continue;
    const begun = await home.calls.run(call, () => readMark(home, name, signal));
    if (begun !== null)
      yield { ...begun, uploadId, beganAtMs: createdAtMs, sizeBytes: sizes.get(uploadId) ?? 0 };
  }
}

/** Null: the mark is gone, or is not ours. */
async function readMark(
  { objects }: GcsUploadHome,
  name: string,
  signal: AbortSignal | undefined,
): Promise<Begun | null> {
  try {
    const { body } = await objects.read(name, { bodyBytesMax: BEGUN_BYTES_MAX, signal });
    const { key, partSizeBytes } = JSON.parse(new TextDecoder().decode(body)) as Partial<Begun>;
    return typeof key === 'string' && typeof partSizeBytes === 'number' ? { key, partSizeBytes } : null;
  } catch (error) {
    const isGone = error instanceof HttpRefusal && error.status === 404;
    if (isGone || error instanceof SyntaxError) return null;
    throw error;
  }
}

async function filesBelow(
  { objects }: GcsUploadHome,
  folder: string,
  signal: AbortSignal | undefined,
): Promise<GcsObject[]> {
  const files = new Map<string, GcsObject>();
  let pageToken: string | undefined;
  do {
    const page = await objects.page({ prefix: folder, pageToken }, { signal });
    for (const file of page.objects) files.set(file.name, file);
    pageToken = page.nextPageToken;
  } while (pageToken !== undefined);
  return [...files.values()];
}

export class ComposeUpload extends PartUpload {
  readonly #home: GcsUploadHome;
  readonly #name: string;
  /** In the bucket, with a trailing '/'. */
  readonly #folder: string;

  constructor(home: GcsUploadHome, name: string, token: Token) {
    super(home, token);
    this.#home = home;
    this.#name = name;
    this.#folder = `${home.config.root}${STORE_OWN_PREFIX}compose/${token.uploadId}/`;
  }

  static async begin(
    home: GcsUploadHome,
    { key, path }: ObjectPlace,
    partSizeBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<ComposeUpload> {
    await assertNothingIsKept(home, signal);
    const token = { strategy: 'compose', key, uploadId: randomUUID(), partSizeBytes } satisfies Token;
    const upload = new ComposeUpload(home, path, token);
    // For listings of uploads, and for people who find it.
    const text = Buffer.from(JSON.stringify({ key, partSizeBytes } satisfies Begun));
    // The name is unique, so an existing object is this one.
    await ifAbsent(home.objects.create(`${upload.#folder}${BEGUN}`, text, { signal }));
    return upload;
  }

  protected async sendPart(
    index: number,
    bytes: Uint8Array,
    { crc32c, ...options }: PartOptions,
  ): Promise<Pick<PartReceipt, 'crc32c' | 'etag'>> {
    const sizeBytes = bytes.byteLength;
    const etag = hex(crc32c);
    const name = this.#folder + partName({ index, sizeBytes, etag });
    const object = await ifAbsent(this.#home.objects.create(name, bytes, { crc32c, ...options }));
    if (object !== undefined) await written(this.#home.objects, this.subject, object, { sizeBytes, crc32c });
    return { crc32c, etag };
  }

  protected async partsPage(_: undefined | string, signal: AbortSignal | undefined): Promise<PartsPage> {
    const files = await filesBelow(this.#home, this.#folder, signal);
    if (!files.some(({ name }) => name === `${this.#folder}${BEGUN}`)) throw this.#gone();
    // If a part was sent again with other bytes, the last one counts.
    const byAge = files.toSorted((a, b) => Number(a.generation) - Number(b.generation));
    const parts = new Map<number, PartReceipt>();
    for (const { name } of byAge) {
      const [, index = '', etag = '', size] = PART.exec(name.slice(this.#folder.length)) ?? [];
      if (size === undefined) continue;
      const crc32c = Number.parseInt(etag, 16);
      parts.set(Number(index), { index: Number(index), sizeBytes: Number(size), crc32c, etag });
    }
    return { parts: [...parts.values()].sort((a, b) => a.index - b.index) };
  }

  protected async sendCompletion(
    parts: readonly PartReceipt[],
    options: Completion,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    assertCrcOfParts(this.subject, parts, options);
    await this.#assertBegun(options.signal);
    const object = (await this.#earlier(options)) ?? (await this.#compose(parts, options));
    // The upload ends only when its parts and its mark are deleted. A caller that repeats this call
    // finds the finished object, and continues here.
    await this.sendAbort(options.signal).catch((error: unknown) => {
      // Without permission to delete, leave the parts to the bucket's lifecycle: the object
      // exists all the same.
      if (!(error instanceof HttpRefusal && error.status === 403)) throw error;
    });
    return infoOf(object);
  }

  /** Deletes the mark last: until then the upload can be found and aborted. */
  protected async sendAbort(signal: AbortSignal | undefined): Promise<void> {
    const { objects } = this.#home;
    const mark = `${this.#folder}${BEGUN}`;
    const names = (await filesBelow(this.#home, this.#folder, signal))
      .map(({ name }) => name)
      .filter((name) => name !== mark);
    await atATime(names, DELETES_MAX, (name) => objects.remove(name, { signal }));
    await objects.remove(mark, { signal });
  }

  /**
   * Finds the object made by an earlier call whose answer was lost. Some of the parts may be gone
   * then.
   */
  async #earlier(options: Completion): Promise<GcsObject | undefined> {
    try {
      return await earlierEffect(this.#home.objects, this.subject, this.#name, options);
    } catch (error) {
      if (error instanceof HttpRefusal && error.status === 404 && !error.isForeign) return undefined;
      throw error;
    }
  }

  async #compose(parts: readonly PartReceipt[], options: Completion): Promise<GcsObject> {
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
    if (composed === undefined) return earlierEffect(objects, this.subject, this.#name, options);
    return written(objects, this.subject, composed, options);
  }

  async #assertBegun(signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#home.objects.metadata(`${this.#folder}${BEGUN}`, { signal });
    } catch (error) {
      if (error instanceof HttpRefusal && error.status === 404 && !error.isForeign) throw this.#gone();
      throw error;
    }
  }

  #gone(): CheckpointError {
    return this.gone('it is completed or aborted');
  }
}

function partName({ index, etag, sizeBytes }: Pick<PartReceipt, 'index' | 'etag' | 'sizeBytes'>): string {
  return `part-${String(index).padStart(5, '0')}-${etag}-${sizeBytes}`;
}

function hex(crc32c: number): string {
  return (crc32c >>> 0).toString(16).padStart(8, '0');
}

/**
 * Throws `Unsupported` if the bucket has a retention policy or default holds. They forbid deleting,
 * but parts that are objects have to be deleted. A bucket whose settings we have no
 * permission to read is accepted.
 */
async function assertNothingIsKept(
  { objects, config }: GcsUploadHome,
  signal: AbortSignal | undefined,
): Promise<void> {
  const settings = await objects
    .bucket('retentionPolicy,defaultEventBasedHold', { signal })
    .catch(unlessDenied);
  const keeps =
    settings.retentionPolicy !== undefined
      ? 'a retention policy'
      : settings.defaultEventBasedHold === true && 'a hold on every object';
  if (keeps === false) return;
  const what = `has ${keeps}, which would keep the parts of uploads=compose; use uploads=multipart`;
  throw objectError('Unsupported', { store: config.uri }, what);
}

function unlessDenied(error: unknown): Record<string, unknown> {
  if (error instanceof HttpRefusal && error.status === 403) return {};
  throw error;
}
