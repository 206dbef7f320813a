import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  ListObjectsV2Command,
  type ListObjectsV2Output,
} from '@aws-sdk/client-s3';
import {
  assertCreateSize,
  assertOffset,
  assertUntouched,
  base64Crc,
  brokenAnswer,
  conceal,
  crcOfBase64,
  dateMs,
  deleteEach,
  pathInBucket,
  plainEtag,
  refuseLarger,
  replaced,
  StoreCalls,
} from '@holdfast/cloud-http';
import {
  assertObjectKey,
  type CallOptions,
  type CheckpointError,
  type CopyOptions,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
  isObjectKey,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type OpenUpload,
  type ReadOptions,
  type StoreCapabilities,
  type StoredObject,
  type StoreFact,
  type Upload,
  type UploadOptions,
} from '@holdfast/core/contract';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { copyObject } from './copy.ts';
import { foreignSuccess, itemRefusal, S3Refusal, storeError } from './errors.ts';
import { inspectBucket } from './inspect.ts';
import { listUploads } from './open-uploads.ts';
import { beginUpload, resumeUpload, type UploadParts } from './upload.ts';

const MIB = 1024 * 1024;

const CAPABILITIES: StoreCapabilities = {
  // One request instead of three, while a retry is still cheap.
  maxCreateBytes: 16 * MIB,
  minPartBytes: 5 * MIB,
  maxPartBytes: 5 * 1024 * MIB,
  maxParts: 10_000,
  maxDeleteKeys: 1000,
  maxListKeys: 1000,
  verifiesChecksums: true,
  resumesUploads: true,
  alignmentBytes: 1,
  // A request to S3 takes tens of milliseconds, whatever its size.
  preferredConcurrency: 64,
  // S3 serves some 90 MB/s per connection: this fills 10 Gbit/s.
  preferredPartConcurrency: 16,
};

/** Answers of stores that have no batch delete, or that require a digest the SDK does not send. */
const NO_BATCH_DELETE = [
  'NotImplemented',
  'MethodNotAllowed',
  'MissingContentMD5',
  'InvalidRequest',
  'MalformedXML',
];

/** Objects of one bucket below one prefix. */
export class S3Store implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;

  readonly #config: S3Config;
  readonly #connection: S3Connection;
  readonly #calls: StoreCalls;
  readonly #uploads: UploadParts;
  #hasBatchDelete = true;

  constructor(config: S3Config, connection: S3Connection) {
    this.uri = config.uri;
    this.capabilities = { ...CAPABILITIES, verifiesChecksums: config.checksum !== 'none' };
    this.#config = config;
    this.#connection = connection;
    const { profile, customerKey } = config;
    const subject = { store: config.uri, profile, hasCustomerKey: customerKey !== undefined };
    this.#calls = new StoreCalls(config.uri, (error, { action, key }) =>
      storeError(error, action, { ...subject, key }),
    );
    this.#uploads = {
      config,
      connection,
      capabilities: this.capabilities,
      checksum: config.checksum,
      checksumsCopies: config.checksum !== 'none',
      calls: this.#calls,
    };
  }

  create(key: string, bytes: Uint8Array, options: CreateOptions = {}): Promise<ObjectInfo> {
    const { signal } = options;
    return this.#calls.run({ action: 'create', key, signal }, async () => {
      const subject = { store: this.uri, key };
      assertCreateSize(subject, bytes.byteLength, this.capabilities.maxCreateBytes);
      const { crc32c } = options;
      const hasChecksum = crc32c !== undefined && this.capabilities.verifiesChecksums;
      const { status, headers } = await this.#connection.send({
        operation: 'create',
        method: 'PUT',
        key: this.#pathOf(key),
        headers: { 'if-none-match': '*', ...(hasChecksum && { 'x-amz-checksum-crc32c': base64Crc(crc32c) }) },
        body: bytes,
        onBytes: options.onBytes,
        signal,
      });
      if (headers.etag === undefined) throw foreignSuccess(status, headers);
      return {
        key,
        sizeBytes: bytes.byteLength,
        etag: plainEtag(headers.etag),
        createdAtMs: dateMs(headers.date),
      };
    });
  }

  head(key: string, options: CallOptions = {}): Promise<ObjectInfo> {
    const { signal } = options;
    return this.#calls.run({ action: 'look at', key, signal }, async () => {
      const { status, headers } = await this.#connection.send({
        operation: 'read',
        method: 'HEAD',
        key: this.#pathOf(key),
        headers: this.capabilities.verifiesChecksums ? { 'x-amz-checksum-mode': 'ENABLED' } : {},
        isRepeatable: true,
        signal,
      });
      const sizeBytes = headers['content-length'];
      if (sizeBytes === undefined) throw foreignSuccess(status, headers);
      return { ...infoOf(key, headers, Number(sizeBytes)), crc32c: wholeCrcOf(headers) };
    });
  }

  get(key: string, options: GetOptions): Promise<StoredObject> {
    const { signal } = options;
    return this.#calls.run({ action: 'read', key, signal }, async () => {
      const { status, headers, body } = await this.#connection
        .send({
          operation: 'read',
          method: 'GET',
          key: this.#pathOf(key),
          isRepeatable: true,
          bodyBytesMax: options.maxBytes,
          signal,
        })
        .catch(refuseLarger({ store: this.uri, key }, options.maxBytes));
      assertUntouched(status, headers);
      return { ...infoOf(key, headers, body.byteLength), bytes: body };
    });
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options: ReadOptions = {}): Promise<number> {
    const { signal } = options;
    return this.#calls.run({ action: 'read', key, signal }, async () => {
      const subject = { store: this.uri, key };
      assertOffset(subject, offsetBytes);
      if (buffer.byteLength === 0) return 0;
      const etag = options.etag === undefined ? {} : { 'if-match': `"${options.etag}"` };
      try {
        const { headers, bytesInto } = await this.#connection.send({
          operation: 'read',
          method: 'GET',
          key: this.#pathOf(key),
          headers: { range: `bytes=${offsetBytes}-${offsetBytes + buffer.byteLength - 1}`, ...etag },
          into: { buffer, startBytes: offsetBytes },
          isRepeatable: true,
          onBytes: options.onBytes,
          signal,
        });
        // Some stores ignore the condition.
        const found = plainEtag(headers.etag ?? options.etag);
        if (options.etag !== undefined && found !== options.etag) throw replaced(subject, options.etag);
        return bytesInto ?? 0;
      } catch (error) {
        if (!(error instanceof S3Refusal)) throw error;
        if (error.status === 416) return 0; // At or past the end.
        if (error.status !== 412) throw error;
        throw replaced(subject, options.etag, error);
      }
    });
  }

  beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    const { signal } = options;
    return this.#calls.run({ action: 'begin an upload to', key, signal }, () =>
      beginUpload(this.#uploads, { key, path: this.#pathOf(key) }, options.partSizeBytes, signal),
    );
  }

  resumeUpload(token: string, options: CallOptions = {}): Promise<Upload> {
    const { signal } = options;
    return this.#calls.run({ action: 'resume an upload to', signal }, () =>
      resumeUpload(this.#uploads, (key) => this.#pathOf(key), token, signal),
    );
  }

  listUploads(prefix: string, { signal }: CallOptions = {}): AsyncGenerator<OpenUpload, void, void> {
    return listUploads(this.#uploads, prefix, signal);
  }

  async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    const { signal } = options;
    const { root } = this.#config;
    let continuation: string | undefined;
    do {
      const position =
        continuation === undefined
          ? options.startAfter !== undefined && { StartAfter: root + options.startAfter }
          : { ContinuationToken: continuation };
      const { output, storeTimeMs } = await this.#calls.run({ action: 'list', signal }, () =>
        this.#listPage({ Prefix: root + prefix, ...position }, signal),
      );
      const objects = (output.Contents ?? [])
        .map((entry) => this.#listed(entry))
        .filter((info) => info !== null);
      if (objects.length > 0 || continuation === undefined) yield { objects, storeTimeMs };
      continuation = output.IsTruncated ? output.NextContinuationToken : undefined;
    } while (continuation !== undefined);
  }

  deleteMany(keys: readonly string[], options: CallOptions = {}): Promise<DeleteResult[]> {
    const { signal } = options;
    return this.#calls.run({ action: 'delete from', signal }, async () => {
      const paths = keys.map((key) => {
        assertObjectKey(key, this.uri);
        return this.#pathOf(key);
      });
      const { maxDeleteKeys } = this.capabilities;
      const results: DeleteResult[] = [];
      for (let start = 0; start < keys.length; start += maxDeleteKeys) {
        const end = start + maxDeleteKeys;
        results.push(...(await this.#delete(keys.slice(start, end), paths.slice(start, end), signal)));
      }
      return results;
    });
  }

  async copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null> {
    if (!(source instanceof S3Store) || !this.#reaches(source)) return null;
    return this.#calls.run({ action: 'copy', key, signal: options.signal }, () => {
      assertObjectKey(sourceKey, source.uri);
      const from = { bucket: source.#config.bucket, path: source.#pathOf(sourceKey) };
      return copyObject(this.#uploads, from, { key, path: this.#pathOf(key) }, options);
    });
  }

  inspect(options: CallOptions = {}): Promise<readonly StoreFact[]> {
    const { signal } = options;
    return this.#calls.run({ action: 'look at the settings of', signal }, () =>
      inspectBucket(this.#connection, this.#config, signal),
    );
  }

  close(): Promise<void> {
    return this.#calls.close(() => this.#connection.close());
  }

  async #listPage(
    input: { Prefix: string; StartAfter?: string; ContinuationToken?: string },
    signal: AbortSignal | undefined,
  ): Promise<{ output: ListObjectsV2Output; storeTimeMs: number }> {
    const { output, headers } = await this.#connection.command(signal, (sdk, options) =>
      sdk.send(new ListObjectsV2Command({ Bucket: this.#config.bucket, ...input }), options),
    );
    const { Contents = [], KeyCount = 0, IsTruncated, NextContinuationToken: next } = output;
    if (KeyCount > Contents.length) throw brokenAnswer('it has fewer objects than it claims');
    if (IsTruncated === undefined) throw brokenAnswer('it does not say whether it is the last page');
    if (IsTruncated && (next === undefined || next === input.ContinuationToken))
      throw brokenAnswer('it is not the last page, but does not name the next one');
    if (Contents.some(({ Key }) => Key?.startsWith(input.Prefix) !== true))
      throw brokenAnswer('it has a name outside the prefix that was asked for');
    return { output, storeTimeMs: dateMs(headers.date) };
  }

  /** Null for foreign objects: a folder marker, or a name outside the grammar of keys. */
  #listed(entry: NonNullable<ListObjectsV2Output['Contents']>[number]): ObjectInfo | null {
    const key = (entry.Key ?? '').slice(this.#config.root.length);
    if (!isObjectKey(key)) return null;
    return {
      key,
      sizeBytes: entry.Size ?? 0,
      etag: plainEtag(entry.ETag),
      createdAtMs: entry.LastModified?.getTime() ?? 0,
    };
  }

  async #delete(
    keys: readonly string[],
    paths: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<DeleteResult[]> {
    if (this.#hasBatchDelete) {
      try {
        return await this.#deleteBatch(keys, paths, signal);
      } catch (error) {
        if (!(error instanceof S3Refusal) || !NO_BATCH_DELETE.includes(error.code)) throw error;
        this.#hasBatchDelete = false;
      }
    }
    return deleteEach(
      keys,
      signal,
      (key) => this.#deleteOne(this.#pathOf(key), signal),
      (error, key) => this.#deleteError(error, key),
    );
  }

  async #deleteBatch(
    keys: readonly string[],
    paths: readonly string[],
    signal: AbortSignal | undefined,
  ): Promise<DeleteResult[]> {
    const { output } = await this.#connection.command(signal, (sdk, options) =>
      sdk.send(
        new DeleteObjectsCommand({
          Bucket: this.#config.bucket,
          Delete: { Quiet: true, Objects: paths.map((Key) => ({ Key })) },
        }),
        options,
      ),
    );
    const failures = new Map(output.Errors?.map((failure) => [failure.Key, failure]));
    return keys.map((key, index) => {
      const failure = failures.get(paths[index]);
      if (failure === undefined || failure.Code === 'NoSuchKey') return { key };
      const [code = '', message = ''] = [failure.Code, failure.Message].map((text = '') =>
        conceal(text, this.#connection.secrets),
      );
      return { key, error: this.#deleteError(itemRefusal(code, message), key) };
    });
  }

  async #deleteOne(Key: string, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#connection.command(signal, (sdk, options) =>
        sdk.send(new DeleteObjectCommand({ Bucket: this.#config.bucket, Key }), options),
      );
    } catch (error) {
      if (!(error instanceof S3Refusal && error.code === 'NoSuchKey')) throw error;
    }
  }

  #deleteError(error: unknown, key: string): CheckpointError {
    return storeError(error, 'delete', { store: this.uri, key });
  }

  /**
   * Tells whether a copy from `source` is possible: same server and credentials. Objects with
   * customer-provided keys are not copied, because the store would need the key twice.
   */
  #reaches(source: S3Store): boolean {
    const [own, other] = [this.#config, source.#config];
    const isAlike = (['endpoint', 'profile', 'requestPayer'] as const).every(
      (name) => own[name] === other[name],
    );
    const hasCustomerKey = own.customerKey !== undefined || other.customerKey !== undefined;
    return isAlike && !hasCustomerKey && own.credentials?.accessKeyId === other.credentials?.accessKeyId;
  }

  /** The key in the bucket. */
  #pathOf(key: string): string {
    return pathInBucket({ store: this.uri, root: this.#config.root, provider: 'S3' }, key);
  }
}

function infoOf(key: string, headers: Readonly<Record<string, string>>, sizeBytes: number): ObjectInfo {
  return { key, sizeBytes, etag: plainEtag(headers.etag), createdAtMs: dateMs(headers['last-modified']) };
}

/** Undefined if it is only a checksum of the parts' checksums. */
function wholeCrcOf(headers: Readonly<Record<string, string>>): number | undefined {
  const isWhole = headers['x-amz-checksum-type'] !== 'COMPOSITE';
  return isWhole ? crcOfBase64(headers['x-amz-checksum-crc32c']) : undefined;
}
