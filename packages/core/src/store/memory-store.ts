import {
  assertObjectKey,
  type CallOptions,
  CheckpointError,
  type CopyOptions,
  type CreateOptions,
  checkOptions,
  type DeleteResult,
  flag,
  type GetOptions,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type OpenUpload,
  optional,
  plainObject,
  type ReadOptions,
  rule,
  type StoreCapabilities,
  type StoredObject,
  throwIfAborted,
  type Upload,
  type UploadOptions,
} from '../contract/index.ts';
import { MemoryBucket, type MemoryObject } from './memory-bucket.ts';
import { MemoryUpload } from './memory-upload.ts';

const MIB = 1024 * 1024;

const DEFAULT_CAPABILITIES: Omit<StoreCapabilities, 'verifiesChecksums'> = {
  maxCreateBytes: 16 * MIB,
  minPartBytes: 1,
  maxPartBytes: 1024 * MIB,
  maxParts: 10_000,
  maxDeleteKeys: 1000,
  maxListKeys: 1000,
  resumesUploads: true,
  alignmentBytes: 1,
  preferredConcurrency: 8,
  preferredPartConcurrency: 8,
  takesSharedMemory: true,
};

export interface MemoryStoreOptions {
  /** Overrides the defaults: with small limits, a small test can exceed them. */
  capabilities?: Partial<StoreCapabilities> | undefined;
  /** Copies objects of other memory stores by itself. Default: it does not. */
  copiesObjects?: boolean | undefined;
}

const aBucket = rule((value) => value instanceof MemoryBucket, 'a MemoryBucket');

/**
 * The reference store: one client of a bucket in memory. A call takes effect at once, when it is
 * made; bytes are copied on the way in and out. Nothing outlives the process, so nothing in it is
 * durable.
 */
export class MemoryStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly bucket: MemoryBucket;
  readonly copyFrom?: NonNullable<ObjectStore['copyFrom']>;
  readonly listUploads?: NonNullable<ObjectStore['listUploads']>;
  #isClosed = false;

  constructor(bucket: MemoryBucket = new MemoryBucket(), options: MemoryStoreOptions = {}) {
    aBucket('bucket', bucket);
    checkOptions(options, { capabilities: optional(plainObject), copiesObjects: optional(flag) });
    this.bucket = bucket;
    this.uri = `memory://${bucket.name}`;
    const verifiesChecksums = bucket.crc32c !== undefined;
    this.capabilities = { ...DEFAULT_CAPABILITIES, verifiesChecksums, ...options.capabilities };
    if (options.copiesObjects) this.copyFrom = (...args) => this.#copyFrom(...args);
    if (this.capabilities.resumesUploads) this.listUploads = (...args) => this.#listUploads(...args);
    if (this.capabilities.verifiesChecksums && !verifiesChecksums) {
      throw new CheckpointError(
        'InvalidConfig',
        `${this.uri} cannot verify checksums: its bucket was made without crc32c`,
      );
    }
  }

  async create(key: string, bytes: Uint8Array, options: CreateOptions = {}): Promise<ObjectInfo> {
    this.#begin(key, options);
    const { maxCreateBytes } = this.capabilities;
    if (bytes.byteLength > maxCreateBytes) {
      throw this.#error(
        'InvalidArgument',
        key,
        `has ${bytes.byteLength} bytes; one create takes at most ${maxCreateBytes}`,
      );
    }
    if (options.crc32c !== undefined) this.#assertChecksum(key, bytes, options.crc32c);
    const info = this.bucket.insert(key, bytes.slice());
    if (info === undefined) throw this.#error('AlreadyExists', key, 'already exists');
    return info;
  }

  async head(key: string, options: CallOptions = {}): Promise<ObjectInfo> {
    this.#begin(key, options);
    const object = this.#object(key);
    return { ...infoOf(key, object), crc32c: this.bucket.crc32c?.(object.bytes) };
  }

  async get(key: string, options: GetOptions): Promise<StoredObject> {
    this.#begin(key, options);
    const object = this.#object(key);
    if (object.bytes.byteLength > options.maxBytes) {
      throw this.#error(
        'Corrupt',
        key,
        `has ${object.bytes.byteLength} bytes; at most ${options.maxBytes} were expected`,
      );
    }
    return { ...infoOf(key, object), bytes: object.bytes.slice() };
  }

  async readInto(
    key: string,
    offsetBytes: number,
    buffer: Uint8Array,
    options: ReadOptions = {},
  ): Promise<number> {
    this.#begin(key, options);
    if (!Number.isSafeInteger(offsetBytes) || offsetBytes < 0) {
      throw this.#error(
        'InvalidArgument',
        key,
        `cannot be read at offset ${offsetBytes}; offsets are whole numbers from 0 on`,
      );
    }
    const object = this.#object(key);
    if (options.etag !== undefined && options.etag !== object.etag) {
      throw this.#error(
        'Corrupt',
        key,
        `was replaced by another object: its etag is ${object.etag}, expected ${options.etag}`,
      );
    }
    const range = object.bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength);
    buffer.set(range);
    return range.byteLength;
  }

  async beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    this.#begin(key, options);
    const { minPartBytes, maxPartBytes } = this.capabilities;
    const { partSizeBytes } = options;
    if (
      !Number.isSafeInteger(partSizeBytes) ||
      partSizeBytes < minPartBytes ||
      partSizeBytes > maxPartBytes
    ) {
      const message = `cannot have parts of ${partSizeBytes} bytes; a part has from ${minPartBytes} to ${maxPartBytes}`;
      throw this.#error('InvalidArgument', key, message);
    }
    return this.#upload(this.bucket.startUpload(key, partSizeBytes));
  }

  async resumeUpload(token: string, options: CallOptions = {}): Promise<Upload> {
    this.#assertOpen();
    throwIfAborted(options.signal);
    if (!this.capabilities.resumesUploads)
      throw new CheckpointError('Unsupported', `${this.uri} cannot resume uploads`);
    const state = this.bucket.findUpload(token);
    if (state === undefined)
      throw new CheckpointError('NotFound', `${this.uri} has no such upload: it is completed or aborted`);
    return this.#upload(state);
  }

  async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    let startAfter = options.startAfter;
    for (;;) {
      this.#assertOpen();
      throwIfAborted(options.signal);
      const page = this.bucket.page(prefix, startAfter, this.capabilities.maxListKeys);
      yield { objects: page.objects, storeTimeMs: this.bucket.clock.nowMs() };
      if (page.isLast) return;
      startAfter = page.objects.at(-1)?.key;
    }
  }

  async *listDirectories(
    prefix: string,
    options: CallOptions = {},
  ): AsyncGenerator<readonly string[], void, void> {
    this.#assertOpen();
    throwIfAborted(options.signal);
    const names = this.bucket.directories(prefix);
    for (let at = 0; at < names.length; at += this.capabilities.maxListKeys)
      yield names.slice(at, at + this.capabilities.maxListKeys);
  }

  async deleteMany(keys: readonly string[], options: CallOptions = {}): Promise<DeleteResult[]> {
    this.#assertOpen();
    throwIfAborted(options.signal);
    for (const key of keys) assertObjectKey(key);
    return keys.map((key) => {
      this.bucket.remove(key);
      return { key };
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
  }

  async #copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null> {
    this.#begin(key, options);
    if (!(source instanceof MemoryStore)) return null;
    source.#begin(sourceKey, options);
    const { bytes } = source.#object(sourceKey);
    const info = this.bucket.insert(key, bytes.slice());
    if (info === undefined) throw this.#error('AlreadyExists', key, 'already exists');
    options.onProgress?.(bytes.byteLength);
    return { ...info, crc32c: this.bucket.crc32c?.(bytes) };
  }

  async *#listUploads(prefix: string, options: CallOptions = {}): AsyncGenerator<OpenUpload, void, void> {
    this.#assertOpen();
    throwIfAborted(options.signal);
    for (const { key, token, beganAtMs, parts } of this.bucket.openUploads()) {
      const sizeBytes = [...parts.values()].reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
      if (key.startsWith(prefix)) yield { key, token, beganAtMs, sizeBytes };
    }
  }

  #upload(state: ReturnType<MemoryBucket['startUpload']>): Upload {
    return new MemoryUpload({
      bucket: this.bucket,
      state,
      maxParts: this.capabilities.maxParts,
      begin: (options) => this.#begin(state.key, options),
      assertChecksum: (bytes, crc32c) => this.#assertChecksum(state.key, bytes, crc32c),
      error: (code, message) => this.#error(code, state.key, message),
    });
  }

  #begin(key: string, options: CallOptions): void {
    this.#assertOpen();
    throwIfAborted(options.signal);
    assertObjectKey(key);
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new CheckpointError('InvalidArgument', `${this.uri} is closed`);
  }

  #assertChecksum(key: string, bytes: Uint8Array, expected: number): void {
    const { crc32c } = this.bucket;
    if (!this.capabilities.verifiesChecksums || crc32c === undefined) return;
    const found = crc32c(bytes);
    if (found !== expected)
      throw this.#error('Corrupt', key, `was sent with CRC-32C ${expected}, but its bytes have ${found}`);
  }

  #object(key: string): MemoryObject {
    const object = this.bucket.find(key);
    if (object === undefined) throw this.#error('NotFound', key, 'does not exist');
    return object;
  }

  #error(
    code: 'AlreadyExists' | 'Corrupt' | 'InvalidArgument' | 'NotFound',
    key: string,
    message: string,
  ): CheckpointError {
    return new CheckpointError(code, `object ${key} in ${this.uri} ${message}`, {
      context: { store: this.uri, key },
    });
  }
}

function infoOf(key: string, object: MemoryObject): ObjectInfo {
  return { key, sizeBytes: object.bytes.byteLength, etag: object.etag, createdAtMs: object.createdAtMs };
}
