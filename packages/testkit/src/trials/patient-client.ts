import {
  isCheckpointError,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type PartReceipt,
  type StoreCapabilities,
  type StoredObject,
  type StoreFact,
  throwIfAborted,
  type Upload,
} from '@holdfast/core/contract';
import { expectThat } from '../conformance/expect.ts';
import { type Patience, patiently } from './patience.ts';
import { isSame } from './read-back.ts';

/** Shared by the clients of one trial. */
export interface Surroundings extends Patience {
  readonly crc32c: (bytes: Uint8Array) => number;
  /** Called with every key before the store is, so that all of them can be removed in the end. */
  readonly onKey?: (key: string) => void;
  /** Called with a key if one create of it failed permanently. */
  readonly onNoKey?: (key: string) => void;
  /** Called when an upload begins. */
  readonly onUpload?: (upload: Promise<Upload>) => void;
}

export type CreateOutcome = 'created' | 'exists';

/**
 * A client of the store that retries after temporary errors. Its calls end with the trial that
 * makes them.
 */
export class PatientClient {
  readonly capabilities: StoreCapabilities;
  readonly #store: ObjectStore;
  readonly #surroundings: Surroundings;

  constructor(store: ObjectStore, surroundings: Surroundings) {
    this.capabilities = store.capabilities;
    this.#store = store;
    this.#surroundings = surroundings;
  }

  checksumOf(bytes: Uint8Array): number {
    return this.#surroundings.crc32c(bytes);
  }

  /**
   * Create-if-absent. `bytes` must be unique: after a lost reply they identify objects this process
   * created. Default of `checksum`: the correct one.
   */
  create(key: string, bytes: Uint8Array, checksum = this.checksumOf(bytes)): Promise<CreateOutcome> {
    return this.#create(key, bytes, checksum, async (repeats) => {
      return repeats > 0 && (await this.#holds(key, bytes)) ? 'created' : 'exists';
    });
  }

  /** Reads again if the bytes differ: they may have been changed on the way. */
  async #holds(key: string, bytes: Uint8Array): Promise<boolean> {
    return isSame(await this.bytesOf(key), bytes) || isSame(await this.bytesOf(key), bytes);
  }

  /** Creates over an existing object; `bytes` may be the object's bytes. */
  createAgain(key: string, bytes: Uint8Array): Promise<CreateOutcome> {
    return this.#create(key, bytes, this.checksumOf(bytes), async () => 'exists');
  }

  #create(
    key: string,
    bytes: Uint8Array,
    checksum: number,
    whenItExists: (repeats: number) => Promise<CreateOutcome>,
  ): Promise<CreateOutcome> {
    const { signal, onKey } = this.#surroundings;
    onKey?.(key);
    return this.#patiently(async (repeats) => {
      try {
        await this.#store.create(key, bytes, { crc32c: checksum, signal });
        return 'created';
      } catch (error) {
        if (isCheckpointError(error, 'AlreadyExists')) return whenItExists(repeats);
        if (repeats === 0 && hadNoEffect(error)) this.#surroundings.onNoKey?.(key);
        throw error;
      }
    });
  }

  /**
   * For an object that was created: if it is missing, the store breaks the contract. The same holds
   * for the next two.
   */
  head(key: string): Promise<ObjectInfo> {
    const { signal } = this.#surroundings;
    return this.#existing(() => this.#store.head(key, { signal }));
  }

  get(key: string): Promise<StoredObject> {
    return this.#existing(() => this.#get(key));
  }

  async bytesOf(key: string): Promise<Uint8Array> {
    return (await this.get(key)).bytes;
  }

  /** Returns fewer than `length` bytes only at the end of the object. */
  async range(key: string, offsetBytes: number, length: number): Promise<Uint8Array> {
    const buffer = new Uint8Array(length);
    return buffer.subarray(0, await this.readInto(key, offsetBytes, buffer));
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array): Promise<number> {
    const { signal } = this.#surroundings;
    return this.#existing(() => this.#store.readInto(key, offsetBytes, buffer, { signal }));
  }

  async #existing<T>(call: () => Promise<T>): Promise<T> {
    const found = await this.#patiently(call).catch(orNull);
    expectThat(found !== null, 'an object that was created is not there');
    return found;
  }

  /** `null`: no such object. */
  find(key: string): Promise<StoredObject | null> {
    return this.#patiently(() => this.#get(key)).catch(orNull);
  }

  #get(key: string): Promise<StoredObject> {
    return this.#store.get(key, { maxBytes: 2 ** 30, signal: this.#surroundings.signal });
  }

  /** `null`: the listing ended without a page. */
  firstPage(prefix: string): Promise<ListPage | null> {
    return this.#patiently(async () => {
      for await (const page of this.#store.list(prefix, { signal: this.#surroundings.signal })) return page;
      return null;
    });
  }

  keys(prefix: string, startAfter?: string): Promise<string[]> {
    return this.#patiently(async () => {
      const keys: string[] = [];
      for await (const page of this.#store.list(prefix, { startAfter, signal: this.#surroundings.signal }))
        keys.push(...page.objects.map((object) => object.key));
      return keys;
    });
  }

  /** Throws the first error of a key. */
  async delete(keys: readonly string[]): Promise<void> {
    const { signal } = this.#surroundings;
    await this.#patiently(async () => {
      const results = await this.#store.deleteMany(keys, { signal });
      const failed = results.find((result) => result.error !== undefined);
      if (failed?.error) throw failed.error;
    });
  }

  /** Without the signal, because an upload whose beginning was aborted could not be ended. */
  async beginUpload(key: string, partSizeBytes: number, sizeBytes?: number): Promise<Upload> {
    const { signal, onKey, onUpload } = this.#surroundings;
    onKey?.(key);
    const begun = this.#patiently(() => {
      throwIfAborted(signal);
      return this.#store.beginUpload(key, { partSizeBytes, sizeBytes });
    });
    onUpload?.(begun);
    const upload = await begun;
    throwIfAborted(signal);
    return upload;
  }

  /** Default of `checksum`: the correct one. */
  putPart(
    upload: Upload,
    index: number,
    bytes: Uint8Array,
    checksum = this.checksumOf(bytes),
  ): Promise<PartReceipt> {
    const { signal } = this.#surroundings;
    return this.#patiently(() => upload.putPart(index, bytes, { crc32c: checksum, signal }));
  }

  // Sent once: if a retry finds no upload, success and failure look alike without reading the
  // object.
  complete(
    upload: Upload,
    parts: readonly PartReceipt[],
    whole: { sizeBytes: number; crc32c: number },
  ): Promise<ObjectInfo> {
    return upload.complete(parts, { ...whole, signal: this.#surroundings.signal });
  }

  /** `bytes`: of the whole object. */
  completeOf(upload: Upload, parts: readonly PartReceipt[], bytes: Uint8Array): Promise<ObjectInfo> {
    const whole = { sizeBytes: bytes.byteLength, crc32c: this.checksumOf(bytes) };
    return this.complete(upload, parts, whole);
  }

  resumeUpload(token: string): Promise<Upload> {
    const { signal } = this.#surroundings;
    return this.#patiently(() => this.#store.resumeUpload(token, { signal }));
  }

  listParts(upload: Upload): Promise<PartReceipt[]> {
    const { signal } = this.#surroundings;
    return this.#patiently(() => upload.listParts({ signal }));
  }

  abort(upload: Upload): Promise<void> {
    const { signal } = this.#surroundings;
    return this.#patiently(() => upload.abort({ signal }));
  }

  /** `null`: this kind of store reports no settings. */
  async inspect(): Promise<readonly StoreFact[] | null> {
    const { signal } = this.#surroundings;
    return this.#patiently(async () => (await this.#store.inspect?.({ signal })) ?? null);
  }

  #patiently<T>(call: (repeats: number) => Promise<T>): Promise<T> {
    return patiently(this.#surroundings, call);
  }
}

/** A permanent error of a write, as the contract defines it. */
function hadNoEffect(error: unknown): boolean {
  return isCheckpointError(error) && error.status === 'permanent' && error.code !== 'Aborted';
}

function orNull(error: unknown): null {
  if (isCheckpointError(error, 'NotFound')) return null;
  throw error;
}
