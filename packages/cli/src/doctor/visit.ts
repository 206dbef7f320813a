import {
  type Clock,
  type ObjectStore,
  type Random,
  toCheckpointError,
  type Upload,
} from '@holdfast/core/contract';
import { type Removal, removeBelow } from './removal.ts';

export interface VisitOptions {
  /** Opens a new client of the store, as another process would. */
  readonly open: () => Promise<ObjectStore>;
  readonly clock: Clock;
  readonly random: Random;
  /** A unique prefix that ends in a slash. Everything happens below it. */
  readonly prefix: string;
}

/** One examination of a store: its clients, all that it creates, and the removal of that. */
export class Visit {
  readonly clock: Clock;
  readonly random: Random;
  readonly prefix: string;
  readonly #open: () => Promise<ObjectStore>;
  readonly #stores: Promise<ObjectStore>[] = [];
  /** For each key, the number of creates that may have taken effect. */
  readonly #keys = new Map<string, number>();
  readonly #uploads: Upload[] = [];
  #repeatCount = 0;

  constructor({ open, clock, random, prefix }: VisitOptions) {
    this.clock = clock;
    this.random = random;
    this.prefix = prefix;
    this.#open = open;
  }

  /** Requests repeated because of temporary errors. */
  get repeatCount(): number {
    return this.#repeatCount;
  }

  /** Opened on first use. */
  store(number: number): Promise<ObjectStore> {
    this.#stores[number] ??= this.#open();
    return this.#stores[number];
  }

  noteRepeat(): void {
    this.#repeatCount += 1;
  }

  noteKey(key: string): void {
    this.#keys.set(key, (this.#keys.get(key) ?? 0) + 1);
  }

  forgetKey(key: string): void {
    const count = (this.#keys.get(key) ?? 0) - 1;
    if (count > 0) this.#keys.set(key, count);
    else this.#keys.delete(key);
  }

  noteUpload(begun: Promise<Upload>): void {
    void begun.then(
      (upload) => this.#uploads.push(upload),
      () => undefined, // The check that began it handles the error.
    );
  }

  /** Number of keys under which an object may have been created. */
  get keyCount(): number {
    return this.#keys.size;
  }

  /** Removes all that the visit has put into the store. Never rejects. */
  async remove(signal: AbortSignal): Promise<Removal> {
    if (this.#keys.size === 0) return { leftCount: 0, error: null };
    try {
      const store = await this.store(0);
      // If an upload cannot be aborted, still remove the rest.
      await Promise.allSettled(this.#uploads.map((upload) => upload.abort({ signal })));
      const { clock, random, prefix } = this;
      const onRepeat = () => this.noteRepeat();
      return await removeBelow(store, [...this.#keys.keys()], { clock, random, prefix, signal, onRepeat });
    } catch (error) {
      return { leftCount: this.#keys.size, error: toCheckpointError(error) };
    }
  }

  /** Closes the clients. Never rejects: their work is done. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#stores.map(async (store) => (await store).close()));
  }
}
