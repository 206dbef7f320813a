/** Calls of one manager that read the catalog at the same time. */

import { crc32c, createCheckpointManager, type ListOptions, type ObjectStore } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, SETTINGS } from './memory-run.ts';

/** A store whose listings of the catalog are made at once, and arrive when `release` is called. */
class SlowListings {
  readonly store: ObjectStore;
  isHeld = false;
  readonly #held: (() => void)[] = [];

  constructor(store: ObjectStore) {
    const list = (prefix: string, options?: ListOptions) => this.#list(store.list(prefix, options), prefix);
    this.store = new Proxy(store, {
      get: (target, name) => {
        if (name === 'list') return list;
        const value = Reflect.get(target, name, target) as unknown;
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  get heldCount(): number {
    return this.#held.length;
  }

  release(): void {
    this.isHeld = false;
    for (const arrive of this.#held.splice(0)) arrive();
  }

  async *#list(pages: ReturnType<ObjectStore['list']>, prefix: string): ReturnType<ObjectStore['list']> {
    const isHeld = this.isHeld && prefix.includes('catalog');
    for await (const page of pages) {
      if (isHeld) await new Promise<void>((arrive) => this.#held.push(arrive));
      yield page;
    }
  }
}

function opened() {
  const bucket = new MemoryBucket({ crc32c });
  const listings = new SlowListings(new MemoryStore(bucket));
  const manager = createCheckpointManager({ store: listings.store, settings: SETTINGS });
  return { bucket, listings, manager };
}

describe('a listing that was made before another call of the same manager has committed', () => {
  test.each<[string, (manager: ReturnType<typeof opened>['manager']) => Promise<unknown>]>([
    ['latest', (manager) => manager.latest()],
    ['list', (manager) => manager.list()],
    ['annotate', (manager) => manager.admin.annotate(1, { metrics: { loss: 1 } })],
    ['log', (manager) => manager.admin.log()],
    ['save', (manager) => manager.save({ version: 9, buffers: { a: bytes(9) } })],
  ])('is no loss of entries: %s', async (_, call) => {
    const { listings, manager } = opened();
    await manager.save({ version: 1, buffers: { a: bytes(1) } });
    listings.isHeld = true;
    const slow = call(manager);
    await expect.poll(() => listings.heldCount).toBeGreaterThan(0);
    listings.isHeld = false;
    for (const version of [2, 3]) await manager.save({ version, buffers: { a: bytes(version) } });
    listings.release();
    expect(await slow.then(() => 'done')).toBe('done');
    expect((await manager.latest())?.summary?.version).toBe(await newestOf(manager));
    await manager.close();
  });
});

async function newestOf(manager: ReturnType<typeof opened>['manager']) {
  return (await manager.list())[0]?.version;
}

describe('an entry that the store has acknowledged and does not list', () => {
  /** Forgets each entry of the catalog after the first `kept`. */
  function forgetful(bucket: MemoryBucket, kept: number): ObjectStore {
    const store = new MemoryStore(bucket);
    let entries = 0;
    const create: ObjectStore['create'] = async (key, ...rest) => {
      const created = await store.create(key, ...rest);
      if (key.startsWith('catalog/') && ++entries > kept) await store.deleteMany([key]);
      return created;
    };
    return new Proxy(store, {
      get: (target, name) => {
        if (name === 'create') return create;
        const value = Reflect.get(target, name, target) as unknown;
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }

  test.each([
    ['of the takeover', 0, 'StoreRegressed', 'nothing was saved'],
    ['of the commit', 1, 'OutcomeUnknown', 'it is not known whether version 2 was committed'],
  ])('%s: the save fails', async (_, kept, code, says) => {
    const { bucket, manager } = opened();
    await manager.save({ version: 1, buffers: { a: bytes(1) } });
    const other = createCheckpointManager({ store: forgetful(bucket, kept), settings: SETTINGS });
    const error: unknown = await other.save({ version: 2, buffers: { a: bytes(2) } }).catch((e) => e);
    expect(error).toMatchObject({ code, message: expect.stringContaining(says) });
    const { cause } = error as Error;
    expect(`${error} ${cause}`).toContain('has lost acknowledged writes');
    expect((await manager.list()).map(({ version }) => version)).toEqual([1n]);
    await Promise.all([manager.close(), other.close()]);
  });
});
