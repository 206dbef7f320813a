import {
  assertCreateSize,
  assertOffset,
  assertUntouched,
  base64Crc,
  crcOfBase64,
  dateMs,
  deleteEach,
  objectError,
  plainEtag,
  refuseLarger,
  replaced,
  rootOf,
  StoreCalls,
} from '@holdfast/cloud-http';
import {
  assertObjectKey,
  type CallOptions,
  type CopyOptions,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
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
import { blobName } from './blob-name.ts';
import { md5Header } from './checksum.ts';
import type { AzureConnection } from './client.ts';
import type { AzureConfig } from './config.ts';
import { type CopyEnd, copyBlob } from './copy.ts';
import { AzureRefusal, foreignSuccess, storeError } from './errors.ts';
import { inspectContainer } from './inspect.ts';
import { listPages } from './listing.ts';
import { listUploads } from './open-uploads.ts';
import { beginUpload, resumeUpload, type UploadParts } from './upload.ts';

const MIB = 1024 * 1024;

const CAPABILITIES: StoreCapabilities = {
  // One request instead of three, while a retry is still cheap.
  maxCreateBytes: 16 * MIB,
  minPartBytes: MIB,
  maxPartBytes: 4000 * MIB,
  maxParts: 50_000,
  maxDeleteKeys: 256,
  maxListKeys: 5000,
  // Azure has no CRC32C.
  verifiesChecksums: false,
  resumesUploads: true,
  alignmentBytes: 1,
  // A request takes tens of milliseconds, whatever its size.
  preferredConcurrency: 64,
  // A connection carries some 60 MB/s or more: this fills 10 Gbit/s.
  preferredPartConcurrency: 16,
};

/** Blobs of one container below one prefix. */
export class AzureStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities = CAPABILITIES;

  readonly #config: AzureConfig;
  readonly #connection: AzureConnection;
  readonly #calls: StoreCalls;
  readonly #uploads: UploadParts;

  constructor(config: AzureConfig, connection: AzureConnection) {
    this.uri = config.uri;
    this.#config = config;
    this.#connection = connection;
    this.#calls = new StoreCalls(config.uri, (error, { action, key }) =>
      storeError(error, action, { store: config.uri, key, config }),
    );
    this.#uploads = {
      config,
      connection,
      capabilities: CAPABILITIES,
      calls: this.#calls,
      nameOf: (key) => this.#nameOf(key),
    };
  }

  create(key: string, bytes: Uint8Array, options: CreateOptions = {}): Promise<ObjectInfo> {
    const { crc32c, onBytes, signal } = options;
    return this.#calls.run({ action: 'create', key, signal }, async () => {
      assertCreateSize({ store: this.uri, key }, bytes.byteLength, CAPABILITIES.maxCreateBytes);
      const { status, headers } = await this.#connection.send({
        operation: 'create',
        method: 'PUT',
        blob: this.#nameOf(key),
        headers: {
          'if-none-match': '*',
          ...(crc32c !== undefined && { 'x-ms-meta-crc32c': base64Crc(crc32c) }),
          ...md5Header(this.#config, bytes),
        },
        body: bytes,
        onBytes,
        signal,
      });
      if (headers['etag'] === undefined) throw foreignSuccess(status, headers);
      return infoOf(key, headers, bytes.byteLength);
    });
  }

  head(key: string, options: CallOptions = {}): Promise<ObjectInfo> {
    const { signal } = options;
    return this.#calls.run({ action: 'look at', key, signal }, () => this.#look(key, signal));
  }

  get(key: string, options: GetOptions): Promise<StoredObject> {
    const { maxBytes, signal } = options;
    return this.#calls.run({ action: 'read', key, signal }, async () => {
      const { status, headers, body } = await this.#connection
        .send({
          operation: 'read',
          method: 'GET',
          blob: this.#nameOf(key),
          isRepeatable: true,
          bodyBytesMax: maxBytes,
          signal,
        })
        .catch(refuseLarger({ store: this.uri, key }, maxBytes));
      assertUntouched(status, headers);
      this.#assertNoDirectory(key, headers);
      return { ...infoOf(key, headers, body.byteLength), bytes: body };
    });
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options: ReadOptions = {}): Promise<number> {
    const { etag, onBytes, signal } = options;
    return this.#calls.run({ action: 'read', key, signal }, async () => {
      const subject = { store: this.uri, key };
      assertOffset(subject, offsetBytes);
      if (buffer.byteLength === 0) return 0;
      try {
        const { headers, bytesInto } = await this.#connection.send({
          operation: 'read',
          method: 'GET',
          blob: this.#nameOf(key),
          headers: {
            'x-ms-range': `bytes=${offsetBytes}-${offsetBytes + buffer.byteLength - 1}`,
            ...(etag !== undefined && { 'if-match': `"${etag}"` }),
          },
          into: { buffer, startBytes: offsetBytes },
          isRepeatable: true,
          onBytes,
          signal,
        });
        // Some proxies ignore the condition.
        if (etag !== undefined && plainEtag(headers['etag'] ?? etag) !== etag) throw replaced(subject, etag);
        return bytesInto ?? 0;
      } catch (error) {
        const isRefused = error instanceof AzureRefusal;
        if (isRefused && error.status === 412) throw replaced(subject, etag, error);
        const isAtEnd = isRefused && error.status === 416;
        if (isAtEnd && offsetBytes > 0) return 0;
        // The blob is empty, or a directory. Azurite (3.36) answers for an empty blob with 206 and
        // no range.
        const mayBeEmpty = isAtEnd || rootOf(error).code === 'RANGE_MISMATCH';
        if (mayBeEmpty && (await this.#look(key, signal)).sizeBytes === 0) return 0;
        throw error;
      }
    });
  }

  beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    const { partSizeBytes, signal } = options;
    return this.#calls.run({ action: 'begin an upload to', key, signal }, () =>
      beginUpload(this.#uploads, key, partSizeBytes, signal),
    );
  }

  resumeUpload(token: string, options: CallOptions = {}): Promise<Upload> {
    const { signal } = options;
    return this.#calls.run({ action: 'resume an upload to', signal }, () =>
      resumeUpload(this.#uploads, token, signal),
    );
  }

  listUploads(prefix: string, { signal }: CallOptions = {}): AsyncGenerator<OpenUpload, void, void> {
    return listUploads(this.#uploads, prefix, signal);
  }

  list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    const { signal } = options;
    return listPages(
      {
        store: this.uri,
        root: this.#config.root,
        connection: this.#connection,
        run: (work) => this.#calls.run({ action: 'list', signal }, work),
      },
      prefix,
      options,
    );
  }

  deleteMany(keys: readonly string[], options: CallOptions = {}): Promise<DeleteResult[]> {
    const { signal } = options;
    return this.#calls.run({ action: 'delete from', signal }, async () => {
      for (const key of keys) assertObjectKey(key, this.uri);
      const names = new Map(keys.map((key) => [key, this.#nameOf(key)]));
      return deleteEach(
        keys,
        signal,
        (key) => this.#delete(names.get(key) ?? '', signal),
        (error, key) => storeError(error, 'delete', { store: this.uri, key, config: this.#config }),
      );
    });
  }

  async copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null> {
    const other = source instanceof AzureStore && this.#reaches(source) ? source : undefined;
    if (other === undefined) return null;
    const { signal } = options;
    return this.#calls.run({ action: 'copy to', key, signal }, () => {
      assertObjectKey(sourceKey, other.uri);
      return copyBlob(other.#endOf(sourceKey), this.#endOf(key), options);
    });
  }

  inspect({ signal }: CallOptions = {}): Promise<readonly StoreFact[]> {
    return this.#calls.run({ action: 'inspect', signal }, () =>
      inspectContainer(this.#connection, this.#config, signal),
    );
  }

  async close(): Promise<void> {
    await this.#calls.close(() => this.#connection.close());
  }

  /**
   * Tells whether a copy from `source` is possible: the same account, and no customer-provided key,
   * which the store would need as well.
   */
  #reaches(source: AzureStore): boolean {
    const other = source.#config;
    const { endpoint, customerKey } = this.#config;
    return other.endpoint === endpoint && (customerKey ?? other.customerKey) === undefined;
  }

  #endOf(key: string): CopyEnd {
    const [config, connection] = [this.#config, this.#connection];
    return { store: this.uri, key, config, connection, blob: this.#nameOf(key) };
  }

  async #delete(blob: string, signal: AbortSignal | undefined): Promise<void> {
    try {
      await this.#connection.send({
        operation: 'other',
        method: 'DELETE',
        blob,
        headers: { 'x-ms-delete-snapshots': 'include' },
        isRepeatable: true,
        signal,
      });
    } catch (error) {
      if (!(error instanceof AzureRefusal && error.code === 'BlobNotFound')) throw error;
    }
  }

  async #look(key: string, signal: AbortSignal | undefined): Promise<ObjectInfo> {
    const { status, headers } = await this.#connection.send({
      operation: 'read',
      method: 'HEAD',
      blob: this.#nameOf(key),
      isRepeatable: true,
      signal,
    });
    const sizeBytes = headers['content-length'];
    if (sizeBytes === undefined) throw foreignSuccess(status, headers);
    this.#assertNoDirectory(key, headers);
    const crc32c = crcOfBase64(headers['x-ms-meta-crc32c']);
    return { ...infoOf(key, headers, Number(sizeBytes)), crc32c };
  }

  /** The name in the container. */
  #nameOf(key: string): string {
    return blobName({ store: this.uri, root: this.#config.root }, key);
  }

  /** Accounts with a hierarchical namespace show directories as if they were blobs. */
  #assertNoDirectory(key: string, headers: Readonly<Record<string, string>>): void {
    const isDirectory =
      headers['x-ms-resource-type'] === 'directory' || headers['x-ms-meta-hdi_isfolder'] === 'true';
    if (isDirectory) throw objectError('NotFound', { store: this.uri, key }, 'does not exist');
  }
}

function infoOf(key: string, headers: Readonly<Record<string, string>>, sizeBytes: number): ObjectInfo {
  return {
    key,
    sizeBytes,
    etag: plainEtag(headers['etag']),
    createdAtMs: dateMs(headers['last-modified'] ?? headers['date']),
  };
}
