/**
 * A run whose catalog was lost, in its final state in the store. It is compared with the answers
 * that processes got. It reads the raw records, as history.ts does. It checks less, because an old
 * writer may leave entries that no process accepts.
 */

import type { MemoryBucket } from '@holdfast/core/store';
import { wholeCheckpoints } from '../crash/raw-pages.ts';
import { violated } from './invariant-error.ts';

interface RawId {
  readonly version?: string;
}

interface RawEntry {
  readonly runId: string;
  readonly seq: string;
  readonly transaction: { readonly kind: string; readonly checkpoints?: readonly RawId[] };
  readonly state: { readonly checkpoints?: readonly { readonly id: RawId; readonly state?: string }[] };
}

const versionOf = (id: RawId) => Number(id.version ?? 0);

export class LostRun {
  readonly #bucket: MemoryBucket;
  /** Every entry that ever existed, by key and run. */
  readonly #entries = new Map<string, RawEntry>();
  /** By version: the author of its files. */
  readonly #committed = new Map<number, { readonly process: string; readonly mark: string }>();
  readonly #rebuilt: { readonly process: string; readonly runId: string }[] = [];

  constructor(bucket: MemoryBucket) {
    this.#bucket = bucket;
  }

  /** Call after every entry. */
  look(): void {
    for (const key of this.#catalogKeys()) {
      const entry = this.#read(key);
      this.#entries.set(`${key} ${entry.runId}`, entry);
    }
  }

  /** Records that this process got the commit of these files acknowledged under this version. */
  tellCommitted(process: string, version: number, mark: string): void {
    const before = this.#committed.get(version);
    if (before && before.mark !== mark)
      violated('I4', `${process} and ${before.process} were both told that their ${version} is committed`);
    this.#committed.set(version, { process, mark });
  }

  tellRebuilt(process: string, runId: string): void {
    const before = this.#rebuilt.find((other) => other.runId !== runId);
    if (before)
      violated('I0', `${process} and ${before.process} were both told that their catalog is the one`);
    this.#rebuilt.push({ process, runId });
  }

  get isRebuilt(): boolean {
    return this.#rebuilt.length > 0;
  }

  get commitCount(): number {
    return this.#committed.size;
  }

  /**
   * Author of the files that a process was told the version holds. `undefined`: no process was told
   * of it.
   */
  markOf(version: number): string | undefined {
    return this.#committed.get(version)?.mark;
  }

  /** True once a rebuild has begun. */
  get isMarked(): boolean {
    const key = this.#catalogKeys()[0];
    return key !== undefined && /\/0*1\.json$/.test(key) && this.#read(key).transaction.kind === 'rebuild';
  }

  get hasEntries(): boolean {
    return this.#catalogKeys().length > 0;
  }

  /** All objects of the catalog vanish from the store's answers. */
  loseCatalog(): void {
    for (const key of this.#catalogKeys()) this.#bucket.remove(key);
  }

  /**
   * Versions that readers are offered. Every acknowledged version must be in the newest entry or
   * have been removed by a decision of its run.
   */
  checkNewest(): number[] {
    const key = this.#catalogKeys().at(-1) ?? violated('I0', 'there is no catalog');
    const { runId, state } = this.#read(key);
    for (const each of this.#rebuilt) {
      if (each.runId !== runId) violated('I0', `the catalog that ${each.process} had made was replaced`);
    }
    const textOf = (page: string) => (this.#bucket.find(page) ? this.#textOf(page) : undefined);
    const all = wholeCheckpoints(state, textOf);
    const listed = new Set(all.map(({ id }) => versionOf(id)));
    const removed = this.#removedIn(runId);
    for (const [version, { process }] of this.#committed) {
      if (listed.has(version) || removed.has(version)) continue;
      violated('I7', `${process} was told that ${version} is committed, and ${key} does not list it`);
    }
    return all.filter((each) => each.state === 'LIVE').map(({ id }) => versionOf(id));
  }

  #removedIn(runId: string): Set<number> {
    const removals = [...this.#entries.values()].filter(
      (entry) => entry.runId === runId && entry.transaction.kind === 'remove',
    );
    return new Set(removals.flatMap(({ transaction }) => transaction.checkpoints?.map(versionOf) ?? []));
  }

  #catalogKeys(): string[] {
    return this.#bucket.keys().filter((key) => key.startsWith('catalog/'));
  }

  #read(key: string): RawEntry {
    return JSON.parse(this.#textOf(key)) as RawEntry;
  }

  #textOf(key: string): string {
    return new TextDecoder().decode(this.#bucket.find(key)?.bytes ?? violated('I1', `${key} is missing`));
  }
}
