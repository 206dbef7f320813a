import {
  type Clock,
  callback,
  checkOptions,
  compareUtf8,
  having,
  type ObjectInfo,
  optional,
  type Rules,
  systemClock,
  text,
} from '../contract/index.ts';

export interface MemoryBucketOptions {
  /** The store's URI is `memory://{name}`. Default: `unnamed`. */
  name?: string | undefined;
  /** CRC-32C of bytes; without it the bucket's stores verify no checksums. */
  crc32c?: ((bytes: Uint8Array) => number) | undefined;
  /** The store's own clock. */
  clock?: Pick<Clock, 'nowMs'> | undefined;
  /**
   * Whether a deleted key may be created again. Default: no, because the engine never reuses a key
   * on purpose. A simulation permits the cases that the protocol survives: a duplicated request
   * (same bytes), and a catalog number that was pruned.
   */
  mayReuseKey?: ((reuse: KeyReuse) => boolean) | undefined;
}

const OPTIONS: Rules<MemoryBucketOptions> = {
  name: optional(text),
  crc32c: optional(callback),
  clock: optional(having('nowMs')),
  mayReuseKey: optional(callback),
};

export interface KeyReuse {
  readonly key: string;
  /** The new object has the bytes of the deleted one. */
  readonly hasSameBytes: boolean;
}

/**
 * The engine violated a rule for keys. This is a bug: it is no `CheckpointError`, and no code
 * handles it.
 */
export class KeyAssertionError extends Error {
  override readonly name = 'KeyAssertionError';
}

export interface MemoryObject {
  readonly bytes: Uint8Array;
  readonly etag: string;
  readonly createdAtMs: number;
}

export interface MemoryPart {
  readonly bytes: Uint8Array;
  readonly etag: string;
  readonly crc32c: number;
}

export interface MemoryUploadState {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly beganAtMs: number;
  readonly parts: Map<number, MemoryPart>;
}

/**
 * The objects of a memory store. Several `MemoryStore`s, one per simulated process, share one
 * bucket.
 *
 * It asserts the engine's promises: no key is created again after it was deleted, and no key is a
 * proper prefix of another at a '/'. A violation throws `KeyAssertionError` and is kept in
 * `violations`, so a test sees it even if the error was swallowed.
 */
export class MemoryBucket {
  readonly name: string;
  readonly crc32c: ((bytes: Uint8Array) => number) | undefined;
  /** May be replaced at any time. */
  clock: Pick<Clock, 'nowMs'>;
  readonly violations: string[] = [];

  readonly #mayReuseKey: MemoryBucketOptions['mayReuseKey'];
  readonly #objects = new Map<string, MemoryObject>();
  readonly #sortedKeys: string[] = [];
  /** Directories of all keys that ever existed. */
  readonly #directories = new Set<string>();
  /** Deleted keys, with a fingerprint of their content. */
  readonly #deleted = new Map<string, string>();
  readonly #uploads = new Map<string, MemoryUploadState>();
  #count = 0;

  constructor(options: MemoryBucketOptions = {}) {
    checkOptions(options, OPTIONS);
    this.name = options.name ?? 'unnamed';
    this.crc32c = options.crc32c;
    this.clock = options.clock ?? systemClock;
    this.#mayReuseKey = options.mayReuseKey;
  }

  /** Keys of all objects, in the order of a listing. */
  keys(): readonly string[] {
    return [...this.#sortedKeys];
  }

  find(key: string): MemoryObject | undefined {
    return this.#objects.get(key);
  }

  /** Keeps `bytes` itself, not a copy. `undefined`: an object with this key exists. */
  insert(key: string, bytes: Uint8Array): ObjectInfo | undefined {
    if (this.#objects.has(key)) return undefined;
    this.#assertNewKey(key, bytes);
    const object = { bytes, etag: this.nextEtag(), createdAtMs: this.clock.nowMs() };
    this.#objects.set(key, object);
    this.#deleted.delete(key);
    for (const directory of parentsOf(key)) this.#directories.add(directory);
    this.#sortedKeys.splice(this.#firstAtOrAfter(key), 0, key);
    return { key, sizeBytes: bytes.byteLength, etag: object.etag, createdAtMs: object.createdAtMs };
  }

  /** Does nothing if there is no such object. */
  remove(key: string): void {
    const object = this.#objects.get(key);
    if (object === undefined) return;
    this.#objects.delete(key);
    this.#deleted.set(key, this.#mayReuseKey ? fingerprint(object.bytes) : '');
    this.#sortedKeys.splice(this.#firstAtOrAfter(key), 1);
  }

  /** Simulates bit rot: other bytes under the same key, etag and time. The key must exist. */
  damage(key: string, change: (bytes: Uint8Array) => Uint8Array): void {
    const object = this.#objects.get(key);
    if (object === undefined) throw new Error(`there is no object ${key} to damage`);
    this.#objects.set(key, { ...object, bytes: change(object.bytes.slice()) });
  }

  /** At most `limit` objects in order, from the first one after `startAfter`. */
  page(
    prefix: string,
    startAfter: string | undefined,
    limit: number,
  ): { objects: ObjectInfo[]; isLast: boolean } {
    let index = this.#firstAtOrAfter(prefix);
    if (startAfter !== undefined && compareUtf8(startAfter, prefix) >= 0) {
      index = this.#firstAtOrAfter(startAfter);
      if (this.#sortedKeys[index] === startAfter) index++;
    }
    const objects: ObjectInfo[] = [];
    for (; objects.length < limit; index++) {
      const info = this.#infoAt(index, prefix);
      if (info === undefined) return { objects, isLast: true };
      objects.push(info);
    }
    return { objects, isLast: this.#infoAt(index, prefix) === undefined };
  }

  /** What comes before the next '/' in the keys below `prefix`, in order. */
  directories(prefix: string): string[] {
    const names = new Set<string>();
    for (let index = this.#firstAtOrAfter(prefix); ; index++) {
      const key = this.#sortedKeys[index];
      if (!key?.startsWith(prefix)) return [...names];
      const end = key.indexOf('/', prefix.length);
      if (end > prefix.length) names.add(key.slice(prefix.length, end));
    }
  }

  startUpload(key: string, partSizeBytes: number): MemoryUploadState {
    this.#count++;
    const token = `${this.name}-upload-${this.#count}`;
    const state = { key, token, partSizeBytes, beganAtMs: this.clock.nowMs(), parts: new Map() };
    this.#uploads.set(state.token, state);
    return state;
  }

  findUpload(token: string): MemoryUploadState | undefined {
    return this.#uploads.get(token);
  }

  /** Does nothing if there is no such upload. */
  endUpload(token: string): void {
    this.#uploads.delete(token);
  }

  /** Uploads that were begun and neither completed nor aborted. */
  openUploads(): readonly MemoryUploadState[] {
    return [...this.#uploads.values()];
  }

  nextEtag(): string {
    this.#count++;
    return `"${this.#count}"`;
  }

  #infoAt(index: number, prefix: string): ObjectInfo | undefined {
    const key = this.#sortedKeys[index];
    const object = key === undefined ? undefined : this.#objects.get(key);
    if (key === undefined || object === undefined || !key.startsWith(prefix)) return undefined;
    return { key, sizeBytes: object.bytes.byteLength, etag: object.etag, createdAtMs: object.createdAtMs };
  }

  /**
   * Index of the first key that equals `key` or comes after it. Keys with one prefix follow each
   * other from there.
   */
  #firstAtOrAfter(key: string): number {
    let low = 0;
    let high = this.#sortedKeys.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (compareUtf8(this.#sortedKeys[middle] as string, key) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #assertNewKey(key: string, bytes: Uint8Array): void {
    const before = this.#deleted.get(key);
    if (before !== undefined) {
      const hasSameBytes = this.#mayReuseKey !== undefined && before === fingerprint(bytes);
      if (this.#mayReuseKey?.({ key, hasSameBytes }) !== true) {
        this.#violated(`key ${key} is created again after it was deleted; a key is used once`);
      }
    }
    if (this.#directories.has(key)) this.#violated(`key ${key} is a prefix, at a '/', of another key`);
    const parent = parentsOf(key).find(
      (directory) => this.#objects.has(directory) || this.#deleted.has(directory),
    );
    if (parent !== undefined) this.#violated(`key ${parent} is a prefix, at a '/', of key ${key}`);
  }

  #violated(message: string): never {
    this.violations.push(message);
    throw new KeyAssertionError(message);
  }
}

const buckets = new Map<string, MemoryBucket>();

/**
 * The bucket of `memory://{name}`, one per name and process. Options only apply to the call that
 * creates it.
 */
export function memoryBucket(name: string, options: Omit<MemoryBucketOptions, 'name'> = {}): MemoryBucket {
  let bucket = buckets.get(name);
  if (bucket === undefined) {
    bucket = new MemoryBucket({ ...options, name });
    buckets.set(name, bucket);
  }
  return bucket;
}

function parentsOf(key: string): string[] {
  const parents: string[] = [];
  for (let end = key.indexOf('/'); end !== -1; end = key.indexOf('/', end + 1))
    parents.push(key.slice(0, end));
  return parents;
}

/** Two FNV-1a hashes and the size: a collision could only affect a test's assertion. */
function fingerprint(bytes: Uint8Array): string {
  let a = 0x811c9dc5;
  let b = 0x01000193;
  for (const byte of bytes) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b ^ byte, 0x85ebca6b);
  }
  return `${bytes.byteLength}-${a >>> 0}-${b >>> 0}`;
}
