import { CloudStore, type ObjectPlace } from '@holdfast/cloud-http';
import {
  assertObjectKey,
  type CallOptions,
  type CopyOptions,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type OpenUpload,
  type StoreCapabilities,
  type StoreFact,
  type Upload,
} from '@holdfast/core/contract';
import { blobName } from './blob-name.ts';
import type { AzureConnection } from './client.ts';
import type { AzureConfig } from './config.ts';
import { type CopyEnd, copyBlob } from './copy.ts';
import { storeError } from './errors.ts';
import { inspectContainer } from './inspect.ts';
import { type ListedStore, listDirectoryNames, listPages } from './listing.ts';
import { AzureObjects } from './objects.ts';
import { listUploads } from './open-uploads.ts';
import { type AzureUploadHome, beginUpload, uploadOf } from './upload.ts';

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
  takesSharedMemory: true,
};

export class AzureStore extends CloudStore {
  readonly #config: AzureConfig;
  readonly #connection: AzureConnection;
  readonly #uploads: AzureUploadHome;

  constructor(config: AzureConfig, connection: AzureConnection) {
    const { uri, root } = config;
    super({
      uri,
      capabilities: CAPABILITIES,
      objects: new AzureObjects(config, connection),
      connection,
      pathOf: (key) => blobName({ store: uri, root }, key),
      toStoreError: (error, { action, key }) => storeError(error, action, { store: uri, key, config }),
    });
    this.#config = config;
    this.#connection = connection;
    this.#uploads = { config, connection, capabilities: CAPABILITIES, calls: this.calls };
  }

  list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    return listPages(this.#listed(options.signal), prefix, options);
  }

  listDirectories(
    prefix: string,
    { signal }: CallOptions = {},
  ): AsyncGenerator<readonly string[], void, void> {
    return listDirectoryNames(this.#listed(signal), prefix, signal);
  }

  #listed(signal: AbortSignal | undefined): ListedStore {
    return {
      store: this.uri,
      root: this.#config.root,
      connection: this.#connection,
      run: (work) => this.calls.run({ action: 'list', signal }, work),
    };
  }

  listUploads(prefix: string, { signal }: CallOptions = {}): AsyncGenerator<OpenUpload, void, void> {
    return listUploads(this.#uploads, (key) => this.placeOf(key), prefix, signal);
  }

  async copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null> {
    if (!(source instanceof AzureStore) || !this.#reaches(source)) return null;
    return this.calls.run({ action: 'copy to', key, signal: options.signal }, () => {
      assertObjectKey(sourceKey, source.uri);
      return copyBlob(source.#endOf(sourceKey), this.#endOf(key), options);
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
    return inspectContainer(this.#connection, this.#config, signal);
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
    return { store: this.uri, key, config, connection, blob: this.placeOf(key).path };
  }
}
