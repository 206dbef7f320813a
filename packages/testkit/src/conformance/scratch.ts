import {
  atATime,
  type Clock,
  type ObjectInfo,
  type ObjectStore,
  type Random,
  type StoreCapabilities,
  systemClock,
  systemRandom,
  type Upload,
  type UploadOptions,
} from '@holdfast/core/contract';
import { crc32c } from '../crc32c.ts';
import type { SeededRandom } from '../seeded-random.ts';
import type { Ground } from '../trials/ground.ts';
import { PatientClient } from '../trials/patient-client.ts';

const KIB = 1024;
const CREATES_AT_A_TIME = 32;

export interface CheckContext {
  /** A client of the store. The check does not close it. */
  readonly store: ObjectStore;
  /** Opens another client of the same objects, as another process would. The check closes it. */
  open(): Promise<ObjectStore>;
  readonly random: Random;
  /** Prefix of everything that the check does; ends in a slash. Default: the root of the store. */
  readonly prefix?: string | undefined;
  /**
   * Called when an upload begins. If the check is stopped before it ends the upload, the caller
   * still has to abort it.
   */
  readonly onUpload?: ((upload: Promise<Upload>) => void) | undefined;
  /**
   * The longest key that the store accepts: 1,024 bytes less its own prefix. Default: found by
   * trying.
   */
  readonly keyBytesMax?: number | undefined;
  /** Rounds of a race, each with 32 committers. Default 10. */
  readonly raceRounds?: number | undefined;
}

/** Working area of one check: its own prefix, and all that it has to clean up. */
export class Scratch implements Ground {
  readonly clock: Clock = systemClock;
  readonly store: ObjectStore;
  readonly random: SeededRandom;
  /** Ends in a slash. */
  readonly prefix: string;
  readonly raceRounds: number;
  readonly keyBytesMax: number | undefined;
  readonly #context: CheckContext;
  readonly #clients: ObjectStore[] = [];
  /** By the number of the process that each represents. */
  readonly #processes: Promise<PatientClient>[] = [];
  readonly #uploads: Promise<Upload>[] = [];

  constructor(context: CheckContext, random: SeededRandom) {
    this.#context = context;
    this.store = context.store;
    this.random = random;
    this.raceRounds = context.raceRounds ?? 10;
    this.keyBytesMax = context.keyBytesMax;
    // Not derived from the seed: a replayed check must not find leftovers of the first one.
    this.prefix = `${context.prefix ?? ''}conformance-${systemRandom.hex(16)}/`;
  }

  get capabilities(): StoreCapabilities {
    return this.store.capabilities;
  }

  /** A part size that the store accepts: 64 KiB if possible. */
  get partSizeBytes(): number {
    const { minPartBytes, maxPartBytes } = this.capabilities;
    return Math.min(maxPartBytes, Math.max(minPartBytes, 64 * KIB));
  }

  key(name: string): string {
    return this.prefix + name;
  }

  /** Opens a second client, which is closed at the end. */
  async open(): Promise<ObjectStore> {
    const store = await this.#context.open();
    this.#clients.push(store);
    return store;
  }

  client(number = 0): Promise<PatientClient> {
    this.#processes[number] ??= this.#newClient(number, 1);
    return this.#processes[number];
  }

  /** The same place, with clients that repeat: many calls at once make a provider busy. */
  get patient(): Ground {
    const clients: Promise<PatientClient>[] = [];
    const client = (number = 0) => {
      clients[number] ??= this.#newClient(number);
      return clients[number];
    };
    return { clock: this.clock, key: (name) => this.key(name), bytes: (count) => this.bytes(count), client };
  }

  async #newClient(number: number, triesMax?: number): Promise<PatientClient> {
    return new PatientClient(number === 0 ? this.store : await this.open(), {
      triesMax,
      clock: this.clock,
      random: systemRandom,
      onRepeat: () => undefined,
      crc32c,
      onUpload: (upload) => this.#note(upload),
    });
  }

  bytes(count: number): Uint8Array {
    return this.random.bytes(count);
  }

  /** Random bytes; fewer than `count` if one create accepts no more. */
  creatableBytes(count: number): Uint8Array {
    return this.random.bytes(Math.min(count, this.capabilities.maxCreateBytes));
  }

  create(name: string, bytes: Uint8Array = this.creatableBytes(16)): Promise<ObjectInfo> {
    return this.store.create(this.key(name), bytes, { crc32c: crc32c(bytes) });
  }

  /** Creates objects of one byte each, several at a time. */
  async createAll(names: readonly string[]): Promise<void> {
    const one = Uint8Array.of(1);
    await atATime(names, CREATES_AT_A_TIME, (name) => this.create(name, one));
  }

  async beginUpload(name: string, options: Partial<UploadOptions> = {}): Promise<Upload> {
    const { partSizeBytes } = this;
    const upload = this.store.beginUpload(this.key(name), { partSizeBytes, ...options });
    this.#note(upload);
    return upload;
  }

  #note(upload: Promise<Upload>): void {
    this.#context.onUpload?.(upload);
    this.#uploads.push(upload);
  }

  /**
   * Begins an upload with a client that the check closes itself, so `remove` does not abort the
   * upload.
   */
  async beginUploadAt(
    store: ObjectStore,
    name: string,
    options: Partial<UploadOptions> = {},
  ): Promise<Upload> {
    const { partSizeBytes } = this;
    const upload = store.beginUpload(this.key(name), { partSizeBytes, ...options });
    this.#context.onUpload?.(upload);
    return upload;
  }

  /** Keys below the scratch prefix in a listing, without the prefix, page by page. */
  async listPages(
    prefix = '',
    options: { startAfter?: string; store?: ObjectStore } = {},
  ): Promise<string[][]> {
    const { store = this.store, startAfter } = options;
    const after = startAfter === undefined ? undefined : this.key(startAfter);
    const pages: string[][] = [];
    for await (const page of store.list(this.key(prefix), { startAfter: after })) {
      pages.push(page.objects.map((object) => this.nameOf(object.key)));
    }
    return pages;
  }

  async listNames(
    prefix = '',
    options: { startAfter?: string; store?: ObjectStore } = {},
  ): Promise<string[]> {
    return (await this.listPages(prefix, options)).flat();
  }

  /** Aborts uploads, deletes objects, closes second clients. */
  async remove(): Promise<void> {
    const begun = await Promise.allSettled(this.#uploads);
    await Promise.all(begun.map((each) => (each.status === 'fulfilled' ? each.value.abort() : undefined)));
    const keys: string[] = [];
    for await (const page of this.store.list(this.prefix))
      keys.push(...page.objects.map((object) => object.key));
    const results = await this.store.deleteMany(keys);
    await Promise.all(this.#clients.map((client) => client.close()));
    const failed = results.find((result) => result.error !== undefined);
    if (failed?.error) throw failed.error;
  }

  nameOf(key: string): string {
    return key.startsWith(this.prefix) ? key.slice(this.prefix.length) : `(outside the prefix: ${key})`;
  }
}
