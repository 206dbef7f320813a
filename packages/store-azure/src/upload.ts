/**
 * Uploads as blocks. Azure has no uploads: uncommitted blocks belong to the name of a blob. They
 * expire a week after the last of them, or when a list of blocks is committed. So each upload has
 * an id in the names of its blocks. It begins with a block that marks its start. If it is aborted,
 * another block marks that.
 */

import { randomUUID } from 'node:crypto';
import {
  base64Crc,
  type Completion,
  decodeToken,
  isTokenPartSize,
  type ObjectPlace,
  objectError,
  type PartsPage,
  PartUpload,
  type TransportAnswer,
  type UploadHome,
  type UploadToken,
} from '@holdfast/cloud-http';
import type { ObjectInfo, PartOptions, PartReceipt, Upload } from '@holdfast/core/contract';
import { blockName, parseBlockName } from './block-names.ts';
import { commitBlocks, type UploadBlock, uncommittedBlocks } from './blocks.ts';
import type { AzureConnection } from './client.ts';
import type { AzureConfig } from './config.ts';
import { AzureRefusal } from './errors.ts';
import { md5Header } from './headers.ts';
import { writtenBlob } from './objects.ts';

export interface AzureUploadHome extends UploadHome {
  readonly config: AzureConfig;
  readonly connection: AzureConnection;
}

/** Content of a mark: a block must not be empty. */
const MARK = new TextEncoder().encode('-');

type Mark = { readonly kind: 'begun'; readonly beganAtMs: number } | { readonly kind: 'aborted' };

export async function beginUpload(
  home: AzureUploadHome,
  { key, path }: ObjectPlace,
  partSizeBytes: number,
  signal: AbortSignal | undefined,
): Promise<Upload> {
  const uploadId = randomUUID().replaceAll('-', '');
  const upload = new AzureUpload(home, path, { key, uploadId, partSizeBytes });
  await upload.mark({ kind: 'begun', beganAtMs: Date.now() }, signal);
  return upload;
}

/** The upload of a token. Sends nothing. `uploadId`: 32 hexadecimal digits. */
export function uploadOf(home: AzureUploadHome, placeOf: (key: string) => ObjectPlace, text: string): Upload {
  const token = decodeToken<UploadToken>(
    { store: home.config.uri },
    text,
    ({ key, uploadId, partSizeBytes }) =>
      typeof key === 'string' &&
      typeof uploadId === 'string' &&
      /^[0-9a-f]{32}$/.test(uploadId) &&
      isTokenPartSize(home.capabilities, partSizeBytes),
  );
  return new AzureUpload(home, placeOf(token.key).path, token);
}

class AzureUpload extends PartUpload {
  readonly #home: AzureUploadHome;
  readonly #blob: string;
  readonly #uploadId: string;

  constructor(home: AzureUploadHome, blob: string, token: UploadToken) {
    super(home, token);
    this.#home = home;
    this.#blob = blob;
    this.#uploadId = token.uploadId;
  }

  /** Uploads a block that marks a state and is not a part. */
  async mark(mark: Mark, signal: AbortSignal | undefined): Promise<void> {
    await this.#putBlock(blockName({ uploadId: this.#uploadId, ...mark }), MARK, { signal });
  }

  protected async sendPart(
    index: number,
    bytes: Uint8Array,
    options: PartOptions,
  ): Promise<Pick<PartReceipt, 'crc32c' | 'etag'>> {
    const { crc32c } = options;
    const etag = blockName({ uploadId: this.#uploadId, kind: 'part', index, crc32c });
    // Azure rejects empty blocks, and an empty part adds nothing.
    if (bytes.byteLength > 0) await this.#putBlock(etag, bytes, options);
    return { crc32c, etag };
  }

  protected async partsPage(_: string | undefined, signal: AbortSignal | undefined): Promise<PartsPage> {
    const parts = new Map((await this.#parts(signal)).map((part) => [part.index, part]));
    return { parts: [...parts.values()].sort((a, b) => a.index - b.index) };
  }

  protected async sendCompletion(
    parts: readonly PartReceipt[],
    options: Completion,
  ): Promise<Omit<ObjectInfo, 'key'>> {
    this.#assertSame(parts, await this.#parts(options.signal));
    return writtenBlob(await this.#commit(parts, options), options.sizeBytes);
  }

  protected async sendAbort(signal: AbortSignal | undefined): Promise<void> {
    const blocks = await this.#blocks(signal);
    // For other processes the upload is aborted from here on. Its blocks expire after a week: any
    // way to free them sooner would be visible under the key.
    if (blocks.some(({ block }) => block.kind === 'begun')) await this.mark({ kind: 'aborted' }, signal);
  }

  /**
   * Lists all versions of a part that was sent with different bytes. `NotFound`: completed, aborted
   * or expired.
   */
  async #parts(signal: AbortSignal | undefined): Promise<PartReceipt[]> {
    const blocks = await this.#blocks(signal);
    const kinds = new Set(blocks.map(({ block }) => block.kind));
    if (kinds.has('aborted')) throw this.gone('it was aborted');
    if (!kinds.has('begun')) throw this.gone('it is completed, or has expired');
    return blocks.flatMap(({ name, block, sizeBytes }) =>
      block.kind === 'part' ? [{ index: block.index, sizeBytes, crc32c: block.crc32c, etag: name }] : [],
    );
  }

  /** Blocks of this upload only. */
  async #blocks(signal: AbortSignal | undefined): Promise<UploadBlock[]> {
    const blocks = await uncommittedBlocks(this.#home.connection, this.#blob, signal);
    return blocks.filter(({ block }) => block.uploadId === this.#uploadId);
  }

  async #putBlock(
    name: string,
    body: Uint8Array,
    { onBytes, signal }: Pick<PartOptions, 'onBytes' | 'signal'>,
  ): Promise<void> {
    await this.#home.connection.send({
      operation: 'putPart',
      method: 'PUT',
      blob: this.#blob,
      query: { comp: 'block', blockid: base64(name) },
      headers: md5Header(this.#home.config, body),
      body,
      isRepeatable: true,
      onBytes,
      signal,
    });
  }

  /** If a blob exists already, this upload made it: no other upload has its key. */
  async #commit(parts: readonly PartReceipt[], { crc32c, signal }: Completion): Promise<TransportAnswer> {
    const ids = parts.filter(({ sizeBytes }) => sizeBytes > 0).map(({ etag }) => base64(etag));
    const metadata = crc32c === undefined ? {} : { 'x-ms-meta-crc32c': base64Crc(crc32c) };
    try {
      return await commitBlocks(this.#home.connection, this.#blob, { ids, metadata, signal });
    } catch (error) {
      if (!(error instanceof AzureRefusal) || !COMPLETED_OR_GONE.includes(error.code)) throw error;
      throw this.gone('it is completed, or has expired', error);
    }
  }

  /** The parts to commit must match what the store has, not only the caller's receipts. */
  #assertSame(parts: readonly PartReceipt[], found: readonly PartReceipt[]): void {
    const sizes = new Map(found.map(({ etag, sizeBytes }) => [etag, sizeBytes]));
    for (const { index, sizeBytes, etag } of parts) {
      const block = parseBlockName(etag);
      if (block?.uploadId !== this.#uploadId || block.kind !== 'part' || block.index !== index)
        throw objectError('InvalidArgument', this.subject, `has no part ${index} that is called ${etag}`);
      const foundBytes = sizeBytes === 0 ? 0 : sizes.get(etag);
      if (foundBytes === undefined)
        throw objectError('InvalidArgument', this.subject, `cannot be completed: part ${index} is missing`);
      if (foundBytes !== sizeBytes) {
        const what = `has a part ${index} of ${foundBytes} bytes in the store; expected ${sizeBytes}`;
        throw objectError('Corrupt', this.subject, what);
      }
    }
  }
}

const COMPLETED_OR_GONE: readonly string[] = ['BlobAlreadyExists', 'ConditionNotMet', 'InvalidBlockList'];

function base64(name: string): string {
  return Buffer.from(name).toString('base64');
}
