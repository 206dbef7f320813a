import {
  HttpRefusal,
  type ObjectPlace,
  type ObjectRequests,
  OrderedCloudStore,
  pathInBucket,
  type ReadAnswer,
  type ReadRequest,
} from '@holdfast/cloud-http';
import {
  assertObjectKey,
  type CopyOptions,
  type ObjectInfo,
  type ObjectStore,
  type StoreCapabilities,
  type StoreFact,
  type Upload,
} from '@holdfast/core/contract';
import { infoOf } from './answers.ts';
import type { GcsConnection } from './client.ts';
import type { GcsConfig, UploadStrategy } from './config.ts';
import { copyObject } from './copy.ts';
import { storeError } from './errors.ts';
import { inspectBucket } from './inspect.ts';
import { GcsObjects } from './objects.ts';
import { listUploads } from './open-uploads.ts';
import { beginUpload, uploadOf } from './upload.ts';
import type { GcsUploadHome } from './upload-home.ts';
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
  takesSharedMemory: true,
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

export class GcsStore extends OrderedCloudStore {
  readonly listUploads?: NonNullable<ObjectStore['listUploads']>;

  readonly #config: GcsConfig;
  readonly #connection: GcsConnection;
  readonly #objects: GcsObjects;
  readonly #uploads: GcsUploadHome;

  constructor(config: GcsConfig, connection: GcsConnection) {
    const { uri, root } = config;
    const objects = new GcsObjects(config, connection);
    const capabilities = { ...CAPABILITIES, ...BY_STRATEGY[config.uploads] };
    super({
      uri,
      capabilities,
      objects: requestsOf(objects, { uri, verifiesChecksums: capabilities.verifiesChecksums }),
      connection,
      root,
      page: (request, signal) => objects.bucketPage(request, signal),
      pathOf: (key) => pathInBucket({ store: uri, root, provider: 'GCS' }, key),
      toStoreError: (error, { action, key }) =>
        storeError(error, action, { store: uri, key, isAnonymous: !config.auth }),
    });
    this.#config = config;
    this.#connection = connection;
    this.#objects = objects;
    this.#uploads = { config, connection, objects, capabilities, calls: this.calls };
    if (capabilities.resumesUploads)
      this.listUploads = (prefix, { signal } = {}) => listUploads(this.#uploads, prefix, signal);
  }

  async copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null> {
    if (!(source instanceof GcsStore) || !this.#reaches(source)) return null;
    return this.calls.run({ action: 'copy to', key, signal: options.signal }, () => {
      assertObjectKey(sourceKey, source.uri);
      const from = {
        store: source.uri,
        key: sourceKey,
        bucket: source.#config.bucket,
        name: source.placeOf(sourceKey).path,
        headers: source.#connection.settings.copySource,
      };
      const to = { store: this.uri, key, name: this.placeOf(key).path };
      return copyObject(this.#objects, from, to, options);
    });
  }

  protected begin(
    place: ObjectPlace,
    partSizeBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<Upload> {
    return beginUpload(this.#uploads, place, partSizeBytes, signal);
  }

  protected uploadOf(token: string): Upload {
    return uploadOf(this.#uploads, (key) => this.placeOf(key), token);
  }

  protected factsOf(signal: AbortSignal | undefined): Promise<readonly StoreFact[]> {
    return inspectBucket(this.#objects, this.#config, signal);
  }

  /** True if it is the same server, with the same credentials. */
  #reaches(other: GcsStore): boolean {
    const { endpoint, auth } = this.#config;
    return endpoint === other.#config.endpoint && auth === other.#config.auth;
  }
}

function requestsOf(
  objects: GcsObjects,
  { uri, verifiesChecksums }: { uri: string; verifiesChecksums: boolean },
): ObjectRequests {
  return {
    create: async ({ key, path }, bytes, options) => {
      const crc32c = verifiesChecksums ? options.crc32c : undefined;
      const object = await objects.create(path, bytes, { ...options, crc32c });
      assertWritten({ store: uri, key }, object, { sizeBytes: bytes.byteLength, crc32c });
      return infoOf(object);
    },
    head: async ({ path }, signal) => {
      const object = await objects.metadata(path, { signal });
      return { ...infoOf(object), crc32c: object.crc32c };
    },
    read: ({ path }, request) => read(objects, path, request),
    remove: ({ path }, signal) => objects.remove(path, { signal }),
  };
}

/**
 * An emulator reports a missing object in plain text, which any server could send. The metadata
 * request then reports it in the form of GCS.
 */
async function read(objects: GcsObjects, path: string, request: ReadRequest): Promise<ReadAnswer> {
  try {
    return await objects.read(path, request);
  } catch (error) {
    if (!(error instanceof HttpRefusal) || error.status !== 404 || !error.isForeign) throw error;
    await objects.metadata(path, request);
    return objects.read(path, request); // The object has appeared meanwhile.
  }
}
