import {
  type CheckpointError,
  type Clock,
  type ObjectStore,
  type Random,
  toCheckpointError,
  type Upload,
} from '@holdfast/core/contract';
import { patiently } from './patience.ts';

export interface VisitOptions {
  /** A new client of the store, as another process would open it. */
  readonly open: () => Promise<ObjectStore>;
  readonly clock: Clock;
  readonly random: Random;
  /** Never used before; ends in a slash. Everything happens below it. */
  readonly prefix: string;
}

export interface Removal {
  /** Objects that may still be there. */
  readonly leftCount: number;
  /** Why; `null`: nothing is left. */
  readonly error: CheckpointError | null;
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

  /** Takes away all that the visit has put into the store. What was never created counts as removed. Never rejects. */
  async remove(signal: AbortSignal): Promise<Removal> {
    if (this.#keys.size === 0) return { leftCount: 0, error: null };
    try {
      const store = await this.store(0);
      // An upload that cannot be aborted is no reason to keep the rest.
      await Promise.allSettled(this.#uploads.map((upload) => upload.abort({ signal })));
      const keys = [...new Set([...this.#keys.keys(), ...(await this.#listed(store, signal))])];
      const results = await this.#patiently(signal, () => store.deleteMany(keys, { signal }));
      const failed = results.filter((result) => result.error !== undefined);
      return { leftCount: failed.length, error: failed[0]?.error ?? null };
    } catch (error) {
      return { leftCount: this.#keys.size, error: toCheckpointError(error) };
    }
  }

  #patiently<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
    return patiently({ ...this, signal, onRepeat: () => this.noteRepeat() }, call);
  }

  // Requests that were given up may have landed; without permission to list, the keys that were noted must do.
  async #listed(store: ObjectStore, signal: AbortSignal): Promise<string[]> {
    const keys: string[] = [];
    try {
      for await (const page of store.list(this.prefix, { signal }))
        keys.push(...page.objects.map((object) => object.key));
    } catch {
      // What was listed so far is still worth removing.
    }
    // A store that lists what does not belong there must not make us delete it.
    return keys.filter((key) => key.startsWith(this.prefix));
  }

  /** Closes the clients. Never rejects: what they were opened for is done. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#stores.map(async (store) => (await store).close()));
  }
}
