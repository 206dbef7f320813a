import {
  assertCreateSize,
  assertOffset,
  assertPartSize,
  assertUntouched,
  deleteEach,
  HttpRefusal,
  pathInBucket,
  refuseLarger,
  replaced,
  StoreCalls,
  type StoreSubject,
  type TransportAnswer,
} from '@holdfast/cloud-http';
import {
  assertObjectKey,
  type CallOptions,
  type CopyOptions,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
  isObjectKey,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type ReadOptions,
  type StoreCapabilities,
  type StoredObject,
  type StoreFact,
  type Upload,
  type UploadOptions,
} from '@holdfast/core/contract';
import type { GcsConnection } from './client.ts';
import type { GcsConfig, UploadStrategy } from './config.ts';
import { copyObject } from './copy.ts';
import { gcsError } from './errors.ts';
import { inspectBucket } from './inspect.ts';
import { GcsObjects, type ReadRequest } from './objects.ts';
import { beginUpload, listUploads, resumeUpload } from './upload.ts';
import type { UploadHome } from './upload-home.ts';
import { infoOf, infoOfRead } from './values.ts';
import { assertWritten } from './written.ts';

const MIB = 1024 * 1024;

const CAPABILITIES: StoreCapabilities = {
  // One request instead of four. Its body is copied, so it counts twice in memory.
  maxCreateBytes: 16 * MIB,
  minPartBytes: 5 * MIB,
  maxPartBytes: 5 * 1024 * MIB,
  maxParts: 10_000,
  maxDeleteKeys: 100,
  maxListKeys: 1000,
  verifiesChecksums: true,
  resumesUploads: true,
  alignmentBytes: 1,
  // A request takes tens of milliseconds, whatever its size.
  preferredConcurrency: 64,
  // GCS serves 50 to 100 MB/s per connection: this fills 10 Gbit/s.
  preferredPartConcurrency: 16,
};

const BY_STRATEGY: Readonly<Record<UploadStrategy, Partial<StoreCapabilities>>> = {
  multipart: {},
  // Objects have no minimum size.
  compose: { minPartBytes: 1 },
  // Parts are kept in memory, where the store cannot verify them.
  single: {
    minPartBytes: 1,
    maxPartBytes: 8 * MIB,
    maxParts: 16,
    verifiesChecksums: false,
    resumesUploads: false,
  },
};

/** Objects of one bucket below one prefix. */
export class GcsStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly listUploads?: NonNullable<ObjectStore['listUploads']>;

  readonly #config: GcsConfig;
  readonly #connection: GcsConnection;
  readonly #objects: GcsObjects;
  readonly #calls: StoreCalls;
  readonly #uploads: UploadHome;

  constructor(config: GcsConfig, connection: GcsConnection) {
    this.uri = config.uri;
    this.capabilities = { ...CAPABILITIES, ...BY_STRATEGY[config.uploads] };
    this.#config = config;
    this.#connection = connection;
    this.#objects = new GcsObjects(config, connection);
    this.#calls = new StoreCalls(config.uri, (error, { action, key }) =>
      gcsError(error, action, { store: config.uri, key, isAnonymous: !config.auth }),
    );
    const { capabilities } = this;
    this.#uploads = { config, connection, objects: this.#objects, capabilities, calls: this.#calls };
    if (capabilities.resumesUploads)
      this.listUploads = (prefix, { signal } = {}) => listUploads(this.#uploads, prefix, signal);
  }

  create(key: string, bytes: Uint8Array, options: CreateOptions = {}): Promise<ObjectInfo> {
    return this.#calls.run({ action: 'create', key, signal: options.signal }, async () => {
      const sizeBytes = bytes.byteLength;
      assertCreateSize(this.#subject(key), sizeBytes, this.capabilities.maxCreateBytes);
      const crc32c = this.capabilities.verifiesChecksums ? options.crc32c : undefined;
      const object = await this.#objects.create(this.#pathOf(key), bytes, { ...options, crc32c });
      assertWritten(this.#subject(key), object, { sizeBytes, crc32c });
      return infoOf(key, object);
    });
  }

  head(key: string, options: CallOptions = {}): Promise<ObjectInfo> {
    return this.#calls.run({ action: 'look at', key, signal: options.signal }, async () => {
      const object = await this.#objects.metadata(this.#pathOf(key), options);
      return { ...infoOf(key, object), crc32c: object.crc32c };
    });
  }

  get(key: string, { maxBytes, signal }: GetOptions): Promise<StoredObject> {
    return this.#calls.run({ action: 'read', key, signal }, async () => {
      const path = this.#pathOf(key);
      const answer = await this.#read(path, { bodyBytesMax: maxBytes, signal }).catch(
        refuseLarger(this.#subject(key), maxBytes),
      );
      assertUntouched(answer.status, answer.headers);
      return { ...infoOfRead(key, answer, answer.body.byteLength), bytes: answer.body };
    });
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options: ReadOptions = {}): Promise<number> {
    const { etag, signal, onBytes } = options;
    return this.#calls.run({ action: 'read', key, signal }, async () => {
      assertOffset(this.#subject(key), offsetBytes);
      if (buffer.byteLength === 0) return 0;
      const path = this.#pathOf(key);
      try {
        const { headers, bytesInto } = await this.#read(path, {
          generation: etag,
          range: { first: offsetBytes, last: offsetBytes + buffer.byteLength - 1 },
          into: { buffer, startBytes: offsetBytes },
          onBytes,
          signal,
        });
        // Some servers ignore the condition.
        const found = headers['x-goog-generation'] ?? etag;
        if (etag !== undefined && found !== etag) throw replaced(this.#subject(key), etag);
        return bytesInto ?? 0;
      } catch (error) {
        if (!(error instanceof HttpRefusal)) throw error;
        if (error.status === 416) return 0; // At or past the end.
        if (error.status === 412) throw replaced(this.#subject(key), etag, error);
        throw error;
      }
    });
  }

  beginUpload(key: string, { partSizeBytes, signal }: UploadOptions): Promise<Upload> {
    return this.#calls.run({ action: 'begin an upload to', key, signal }, async () => {
      assertPartSize(this.#subject(key), this.capabilities, partSizeBytes);
      return beginUpload(this.#uploads, { key, path: this.#pathOf(key) }, partSizeBytes, signal);
    });
  }

  resumeUpload(token: string, { signal }: CallOptions = {}): Promise<Upload> {
    return this.#calls.run({ action: 'resume an upload to', signal }, () =>
      resumeUpload(this.#uploads, (key) => this.#pathOf(key), token, signal),
    );
  }

  async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    const { startAfter, signal } = options;
    const { root } = this.#config;
    const startOffset = startAfter === undefined ? undefined : root + startAfter;
    let pageToken: string | undefined;
    let lastKey = startAfter;
    let isFirst = true;
    do {
      const query = { prefix: root + prefix, startOffset, pageToken };
      const page = await this.#calls.run({ action: 'list', signal }, () =>
        this.#objects.page(query, { signal }),
      );
      const objects: ObjectInfo[] = [];
      for (const object of page.objects) {
        const key = object.name.slice(root.length);
        // The offset is inclusive, an emulator repeats a name where pages meet, and other programs
        // may have put objects here.
        if (key === lastKey || !isObjectKey(key)) continue;
        lastKey = key;
        objects.push(infoOf(key, object));
      }
      if (objects.length > 0 || isFirst) yield { objects, storeTimeMs: page.storeTimeMs };
      isFirst = false;
      pageToken = page.nextPageToken;
    } while (pageToken !== undefined);
  }

  deleteMany(keys: readonly string[], { signal }: CallOptions = {}): Promise<DeleteResult[]> {
    return this.#calls.run({ action: 'delete from', signal }, async () => {
      for (const key of keys) assertObjectKey(key, this.uri);
      return deleteEach(
        keys,
        signal,
        (key) => this.#objects.remove(this.#pathOf(key), { signal }),
        (error, key) => gcsError(error, 'delete', { store: this.uri, key }),
      );
    });
  }

  async copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null> {
    const other = source instanceof GcsStore ? source : undefined;
    if (other === undefined || !this.#reaches(other)) return null;
    return this.#calls.run({ action: 'copy', key, signal: options.signal }, () => {
      assertObjectKey(sourceKey, other.uri);
      const from = {
        store: other.uri,
        key: sourceKey,
        bucket: other.#config.bucket,
        name: other.#pathOf(sourceKey),
        headers: other.#connection.settings.copySource,
      };
      return copyObject(this.#objects, from, { key, name: this.#pathOf(key), store: this.uri }, options);
    });
  }

  inspect({ signal }: CallOptions = {}): Promise<readonly StoreFact[]> {
    return this.#calls.run({ action: 'inspect', signal }, () =>
      inspectBucket(this.#objects, this.#config, signal),
    );
  }

  close(): Promise<void> {
    return this.#calls.close(() => this.#connection.close());
  }

  /**
   * An emulator reports a missing object in plain text, which any server could send. The metadata
   * request then reports it in the form of GCS.
   */
  async #read(path: string, request: ReadRequest): Promise<TransportAnswer> {
    try {
      return await this.#objects.read(path, request);
    } catch (error) {
      if (!(error instanceof HttpRefusal) || error.status !== 404 || !error.isForeign) throw error;
      await this.#objects.metadata(path, request);
      return this.#objects.read(path, request); // The object has appeared meanwhile.
    }
  }

  /** True if it is the same server, with the same credentials. */
  #reaches(other: GcsStore): boolean {
    const { endpoint, auth } = this.#config;
    return endpoint === other.#config.endpoint && auth === other.#config.auth;
  }

  #subject(key: string): StoreSubject {
    return { store: this.uri, key };
  }

  /** The key in the bucket. */
  #pathOf(key: string): string {
    return pathInBucket({ store: this.uri, root: this.#config.root, provider: 'GCS' }, key);
  }
}
