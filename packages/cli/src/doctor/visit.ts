import {
  type Clock,
  type ObjectStore,
  type Random,
  toCheckpointError,
  type Upload,
} from '@holdfast/core/contract';
import { type Removal, removeBelow } from './removal.ts';

export interface VisitOptions {
  /** A new client of the store, as another process would open it. */
  readonly open: () => Promise<ObjectStore>;
  readonly clock: Clock;
  readonly random: Random;
  /** Never used before; ends in a slash. Everything happens below it. */
  readonly prefix: string;
}

/** One look at a store: its clients, everything it puts there, and the removal of that. */
export class Visit {
  readonly clock: Clock;
  readonly random: Random;
  readonly prefix: string;
  readonly #open: () => Promise<ObjectStore>;
  readonly #stores: Promise<ObjectStore>[] = [];
  /** With how many creates of each may have had an effect. */
  readonly #keys = new Map<string, number>();
  readonly #uploads: Upload[] = [];
  #repeatCount = 0;

  constructor({ open, clock, random, prefix }: VisitOptions) {
    this.clock = clock;
    this.random = random;
    this.prefix = prefix;
    this.#open = open;
  }

  /** Requests that were repeated because of temporary errors. */
  get repeatCount(): number {
    return this.#repeatCount;
  }

  /** Opened when it is first asked for. */
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

  noteUpload(upload: Upload): void {
    this.#uploads.push(upload);
  }

  /** Keys under which something was to be created. */
  get keyCount(): number {
    return this.#keys.size;
  }

  /** Takes away all that the visit has put into the store. Never rejects. */
  async remove(signal: AbortSignal): Promise<Removal> {
    if (this.#keys.size === 0) return { leftCount: 0, error: null };
    try {
      const store = await this.store(0);
      // An upload that cannot be aborted is no reason to keep the rest.
      await Promise.allSettled(this.#uploads.map((upload) => upload.abort({ signal })));
      const { clock, random, prefix } = this;
      const onRepeat = () => this.noteRepeat();
      return await removeBelow(store, [...this.#keys.keys()], { clock, random, prefix, signal, onRepeat });
    } catch (error) {
      return { leftCount: this.#keys.size, error: toCheckpointError(error) };
    }
  }

  /** Closes the clients. Never rejects: what they were opened for is done. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#stores.map(async (store) => (await store).close()));
  }
}
