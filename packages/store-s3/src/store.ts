import { type ObjectPlace, OrderedCloudStore, pathInBucket } from '@holdfast/cloud-http';
import {
  assertObjectKey,
  type CallOptions,
  type CopyOptions,
  type DeleteResult,
  type ObjectInfo,
  type ObjectStore,
  type OpenUpload,
  type StoreCapabilities,
  type StoreFact,
  type Upload,
} from '@holdfast/core/contract';
import type { S3Connection } from './client.ts';
import type { S3Config } from './config.ts';
import { copyObject } from './copy.ts';
import { storeError } from './errors.ts';
import { inspectBucket } from './inspect.ts';
import { S3Objects } from './objects.ts';
import { listUploads } from './open-uploads.ts';
import { beginUpload, type S3UploadHome, uploadOf } from './upload.ts';

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
  takesSharedMemory: true,
};

export class S3Store extends OrderedCloudStore {
  readonly #config: S3Config;
  readonly #connection: S3Connection;
  readonly #objects: S3Objects;
  readonly #uploads: S3UploadHome;

  constructor(config: S3Config, connection: S3Connection) {
    const { uri, root, customerKey } = config;
    const subject = { store: uri, hasCustomerKey: customerKey !== undefined };
    const objects = new S3Objects(config, connection);
    const capabilities = { ...CAPABILITIES, verifiesChecksums: config.checksum !== 'none' };
    super({
      uri,
      capabilities,
      objects,
      connection,
      root,
      page: (request, signal) => objects.page(request, signal),
      pathOf: (key) => pathInBucket({ store: uri, root, provider: 'S3' }, key),
      toStoreError: (error, { action, key }) => storeError(error, action, { ...subject, key }),
    });
    this.#config = config;
    this.#connection = connection;
    this.#objects = objects;
    this.#uploads = {
      config,
      connection,
      capabilities,
      checksum: config.checksum,
      checksumsCopies: config.checksum !== 'none',
      calls: this.calls,
    };
  }

  listUploads(prefix: string, { signal }: CallOptions = {}): AsyncGenerator<OpenUpload, void, void> {
    return listUploads(this.#uploads, prefix, signal);
  }

  async copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null> {
    if (!(source instanceof S3Store) || !this.#reaches(source)) return null;
    return this.calls.run({ action: 'copy to', key, signal: options.signal }, () => {
      assertObjectKey(sourceKey, source.uri);
      const from = { bucket: source.#config.bucket, path: source.placeOf(sourceKey).path };
      return copyObject(this.#uploads, from, this.placeOf(key), options);
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
    return inspectBucket(this.#connection, this.#config, signal);
  }

  protected override async removeAll(
    places: readonly ObjectPlace[],
    signal: AbortSignal | undefined,
  ): Promise<DeleteResult[]> {
    const { maxDeleteKeys } = this.capabilities;
    const results: DeleteResult[] = [];
    for (let start = 0; start < places.length; start += maxDeleteKeys) {
      const batch = places.slice(start, start + maxDeleteKeys);
      const refusals = await this.#objects.removeBatch(batch, signal);
      if (refusals === null) results.push(...(await super.removeAll(batch, signal)));
      else results.push(...batch.map((place) => this.#deleted(place, refusals)));
    }
    return results;
  }

  #deleted({ key, path }: ObjectPlace, refusals: ReadonlyMap<string, Error>): DeleteResult {
    const refusal = refusals.get(path);
    return refusal === undefined ? { key } : { key, error: this.deleteError(refusal, key) };
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
}
