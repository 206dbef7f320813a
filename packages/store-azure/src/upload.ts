/**
 * Uploads as blocks. Azure has no uploads: uncommitted blocks belong to the name of a blob. They
 * expire a week after the last of them, or when a list of blocks is committed. So each upload has
 * an id in the names of its blocks. It begins with a block that marks its start. If it is aborted,
 * another block marks that.
 */

import { randomUUID } from 'node:crypto';
import {
  assertComplete,
  assertPart,
  assertPartSize,
  base64Crc,
  dateMs,
  decodeToken,
  encodeToken,
  isTokenPartSize,
  objectError,
  plainEtag,
  type StoreCalls,
  type StoreSubject,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import type {
  CallOptions,
  CheckpointError,
  CompleteOptions,
  ObjectInfo,
  PartOptions,
  PartReceipt,
  StoreCapabilities,
  Upload,
} from '@holdfast/core/contract';
import { blockName, parseBlockName } from './block-names.ts';
import { type UploadBlock, uncommittedBlocks } from './blocks.ts';
import { md5Header } from './checksum.ts';
import type { AzureConnection } from './client.ts';
import type { AzureConfig } from './config.ts';
import { AzureRefusal, foreignSuccess } from './errors.ts';
import { blockListXml } from './xml.ts';

/** State that uploads share with their store. */
export interface UploadParts {
  readonly config: AzureConfig;
  readonly connection: AzureConnection;
  readonly capabilities: StoreCapabilities;
  readonly calls: StoreCalls;
  /** Blob name of this key. */
  readonly nameOf: (key: string) => string;
}

export interface Token {
  readonly key: string;
  /** 32 hexadecimal digits. */
  readonly uploadId: string;
  readonly partSizeBytes: number;
}

/** Content of a mark: a block must not be empty. */
const MARK = new TextEncoder().encode('-');

type Mark = { readonly kind: 'begun'; readonly beganAtMs: number } | { readonly kind: 'aborted' };

export async function beginUpload(
  store: UploadParts,
  key: string,
  partSizeBytes: number,
  signal: AbortSignal | undefined,
): Promise<Upload> {
  assertPartSize({ store: store.config.uri, key }, store.capabilities, partSizeBytes);
  const uploadId = randomUUID().replaceAll('-', '');
  const upload = new AzureUpload(store, { key, uploadId, partSizeBytes });
  await upload.mark({ kind: 'begun', beganAtMs: Date.now() }, signal);
  return upload;
}

export async function resumeUpload(
  store: UploadParts,
  text: string,
  signal: AbortSignal | undefined,
): Promise<Upload> {
  const subject = { store: store.config.uri };
  const token = decodeToken<Token>(
    subject,
    text,
    ({ key, uploadId, partSizeBytes }) =>
      typeof key === 'string' &&
      typeof uploadId === 'string' &&
      /^[0-9a-f]{32}$/.test(uploadId) &&
      isTokenPartSize(store.capabilities, partSizeBytes),
  );
  const upload = new AzureUpload(store, token);
  await upload.listParts({ signal }); // Fails if the upload is gone.
  return upload;
}

class AzureUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #store: UploadParts;
  readonly #subject: StoreSubject;
  readonly #blob: string;
  readonly #uploadId: string;
  #isAborted = false;

  constructor(store: UploadParts, token: Token) {
    this.key = token.key;
    this.token = encodeToken(token);
    this.partSizeBytes = token.partSizeBytes;
    this.#store = store;
    this.#subject = { store: store.config.uri, key: token.key };
    this.#blob = store.nameOf(token.key);
    this.#uploadId = token.uploadId;
  }

  /** Uploads a block that marks a state and is not a part. */
  async mark(mark: Mark, signal: AbortSignal | undefined): Promise<void> {
    await this.#putBlock(blockName({ uploadId: this.#uploadId, ...mark }), MARK, { signal });
  }

  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    return this.#run('send a part of', options.signal, async () => {
      this.#assertAlive();
      const { maxParts } = this.#store.capabilities;
      assertPart(this.#subject, { partSizeBytes: this.partSizeBytes, maxParts }, index, bytes.byteLength);
      const { crc32c } = options;
      const name = blockName({ uploadId: this.#uploadId, kind: 'part', index, crc32c });
      // Azure rejects empty blocks, and an empty part adds nothing.
      if (bytes.byteLength > 0) await this.#putBlock(name, bytes, options);
      return { index, sizeBytes: bytes.byteLength, crc32c, etag: name };
    });
  }

  listParts({ signal }: CallOptions = {}): Promise<PartReceipt[]> {
    return this.#run('list the parts of', signal, async () => {
      const parts = new Map((await this.#parts(signal)).map((part) => [part.index, part]));
      return [...parts.values()].sort((a, b) => a.index - b.index);
    });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#run('complete', options.signal, async () => {
      this.#assertAlive();
      assertComplete(this.#subject, this.partSizeBytes, parts, options);
      this.#assertSame(parts, await this.#parts(options.signal));
      const { headers } = await this.#commit(parts, options);
      return {
        key: this.key,
        sizeBytes: options.sizeBytes,
        etag: plainEtag(headers['etag']),
        createdAtMs: dateMs(headers['last-modified'] ?? headers['date']),
      };
    });
  }

  abort({ signal }: CallOptions = {}): Promise<void> {
    return this.#run('abort an upload to', signal, async () => {
      this.#isAborted = true;
      const blocks = await this.#blocks(signal);
      // For other processes the upload is aborted from here on. Its blocks expire after a week: any
      // way to free them sooner would be visible under the key.
      if (blocks.some(({ block }) => block.kind === 'begun')) await this.mark({ kind: 'aborted' }, signal);
    });
  }

  /**
   * Lists all versions of a part that was sent with different bytes. `NotFound`: completed, aborted
   * or expired.
   */
  async #parts(signal: AbortSignal | undefined): Promise<PartReceipt[]> {
    this.#assertAlive();
    const blocks = await this.#blocks(signal);
    const kinds = new Set(blocks.map(({ block }) => block.kind));
    if (kinds.has('aborted')) throw this.#gone('it was aborted');
    if (!kinds.has('begun')) throw this.#gone('it is completed, or has expired');
    return blocks.flatMap(({ name, block, sizeBytes }) =>
      block.kind === 'part' ? [{ index: block.index, sizeBytes, crc32c: block.crc32c, etag: name }] : [],
    );
  }

  /** Blocks of this upload only. */
  async #blocks(signal: AbortSignal | undefined): Promise<UploadBlock[]> {
    const blocks = await uncommittedBlocks(this.#store.connection, this.#blob, signal);
    return blocks.filter(({ block }) => block.uploadId === this.#uploadId);
  }

  async #putBlock(
    name: string,
    body: Uint8Array,
    { onBytes, signal }: Pick<PartOptions, 'onBytes' | 'signal'>,
  ): Promise<void> {
    await this.#store.connection.send({
      operation: 'putPart',
      method: 'PUT',
      blob: this.#blob,
      query: { comp: 'block', blockid: base64(name) },
      headers: md5Header(this.#store.config, body),
      body,
      isRepeatable: true,
      onBytes,
      signal,
    });
  }

  /** If a blob exists already, this upload made it: no other upload has its key. */
  async #commit(
    parts: readonly PartReceipt[],
    { crc32c, signal }: CompleteOptions,
  ): Promise<TransportAnswer> {
    const ids = parts.filter(({ sizeBytes }) => sizeBytes > 0).map(({ etag }) => base64(etag));
    try {
      const answer = await this.#store.connection.send({
        operation: 'complete',
        method: 'PUT',
        blob: this.#blob,
        query: { comp: 'blocklist' },
        headers: {
          'content-type': 'application/xml',
          'if-none-match': '*',
          'x-ms-meta-crc32c': base64Crc(crc32c),
        },
        body: blockListXml(ids),
        signal,
      });
      if (answer.headers['etag'] === undefined) throw foreignSuccess(answer.status, answer.headers);
      return answer;
    } catch (error) {
      if (!(error instanceof AzureRefusal) || !COMPLETED_OR_GONE.includes(error.code)) throw error;
      throw this.#gone('it is completed, or has expired', error);
    }
  }

  /** The parts to commit must match what the store has, not only the caller's receipts. */
  #assertSame(parts: readonly PartReceipt[], found: readonly PartReceipt[]): void {
    const sizes = new Map(found.map(({ etag, sizeBytes }) => [etag, sizeBytes]));
    for (const { index, sizeBytes, etag } of parts) {
      const block = parseBlockName(etag);
      if (block?.uploadId !== this.#uploadId || block.kind !== 'part' || block.index !== index)
        throw objectError('InvalidArgument', this.#subject, `has no part ${index} that is called ${etag}`);
      const foundBytes = sizeBytes === 0 ? 0 : sizes.get(etag);
      if (foundBytes === undefined)
        throw objectError('InvalidArgument', this.#subject, `cannot be completed: part ${index} is missing`);
      if (foundBytes !== sizeBytes) {
        const what = `has a part ${index} of ${foundBytes} bytes in the store; expected ${sizeBytes}`;
        throw objectError('Corrupt', this.#subject, what);
      }
    }
  }

  #run<T>(action: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
    return this.#store.calls.run({ action, key: this.key, signal }, work);
  }

  #assertAlive(): void {
    if (this.#isAborted) throw this.#gone('it was aborted');
  }

  #gone(why: string, cause?: unknown): CheckpointError {
    return objectError('NotFound', this.#subject, `has no such upload: ${why}`, cause);
  }
}

const COMPLETED_OR_GONE: readonly string[] = ['BlobAlreadyExists', 'ConditionNotMet', 'InvalidBlockList'];

function base64(name: string): string {
  return Buffer.from(name).toString('base64');
}
