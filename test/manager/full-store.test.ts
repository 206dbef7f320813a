/** A full store or quota: collection has to write before it may delete. */

import { CheckpointError, type CreateOptions } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure } from './memory-run.ts';
import { HOUR_MS, runOf, statesOf, type TimedRun, verdictsOf } from './retention-run.ts';

const AT_ONCE = { policy: { keepLast: 1, graceMs: 0 }, force: true };

/**
 * The store takes `roomBytes` more than the run has now. Deletions free room. `reserveBytes` can be
 * released once.
 */
class FullStore extends MemoryStore {
  readonly #run: TimedRun;
  #limitBytes: number;
  #reserveBytes: number;
  givenUpCount = 0;

  constructor(run: TimedRun, { roomBytes = 0, reserveBytes = 0 }) {
    super(run.bucket);
    this.#run = run;
    this.#limitBytes = this.#usedBytes() + roomBytes;
    this.#reserveBytes = reserveBytes;
  }

  #usedBytes(): number {
    const { bucket } = this.#run;
    return bucket.keys().reduce((sum, key) => sum + (bucket.find(key)?.bytes.byteLength ?? 0), 0);
  }

  override async create(key: string, object: Uint8Array, options?: CreateOptions) {
    if (this.#usedBytes() + object.byteLength > this.#limitBytes)
      throw new CheckpointError('StorageFull', `no room for ${key}`);
    return super.create(key, object, options);
  }

  async makeRoom(): Promise<boolean> {
    this.givenUpCount += 1;
    const hasSome = this.#reserveBytes > 0;
    this.#limitBytes += this.#reserveBytes;
    this.#reserveBytes = 0;
    return hasSome;
  }
}

/**
 * Leaves the objects of a save that failed on the full disk. They cannot be committed once the next
 * attempt has begun.
 */
async function leaveGarbage(run: TimedRun, sizeBytes: number): Promise<void> {
  const dying = new (class extends MemoryStore {
    override async create(key: string, object: Uint8Array, options?: CreateOptions) {
      if (key.includes('/receipts/')) throw new CheckpointError('StorageFull', 'no room for a receipt');
      return super.create(key, object, options);
    }
  })(run.bucket);
  await using manager = run.open({ store: dying, attempt: 'dies' });
  const error = await failure(manager.save({ version: 99, buffers: { a: bytes(sizeBytes, 9) } }));
  expect(error).toContain('StorageFull');
  await using next = run.open({ attempt: 'next' });
  await next.save({ version: 100, buffers: { a: bytes(1000, 100) } });
}

describe('collection on a full store', () => {
  test('begins with what is garbage already, which needs no decision, and tells all that was deleted', async () => {
    const run = await runOf([1, 2, 3]);
    await leaveGarbage(run, 50_000);
    const store = new FullStore(run, {});
    await using manager = run.open({ store });
    const { retired, removed, postponed, swept } = await manager.admin.collect(AT_ONCE);
    expect([retired, removed, postponed]).toEqual([[1n, 2n], [1n, 2n], []]);
    expect(swept.freedBytes).toBeGreaterThan(50_000 + 2000);
    expect([await statesOf(manager), store.givenUpCount]).toEqual([['100 live', '3 live'], 0]);
  });

  test('goes on with what the store has kept back, where there is no garbage', async () => {
    const run = await runOf([1, 2, 3]);
    const store = new FullStore(run, { reserveBytes: 10_000 });
    await using manager = run.open({ store });
    const { retired, removed, swept } = await manager.admin.collect(AT_ONCE);
    expect([retired, removed, swept.objectCount]).toEqual([[1n, 2n], [1n, 2n], 6]);
    expect([await statesOf(manager), store.givenUpCount]).toEqual([['3 live'], 1]);
  });

  test('leaves old leases where there is no room to ask how old they are', async () => {
    const run = await runOf([1, 2]);
    await using reader = run.open();
    await reader.admin.lease({ version: 2, ttlMs: 60_000 });
    await run.clock.advance(24 * HOUR_MS);
    const settled = { policy: { keepLast: 2 } };
    await using full = run.open({ store: new FullStore(run, {}) });
    expect((await full.admin.collect(settled)).swept.leaseCount).toBe(0);
    await using manager = run.open();
    expect((await manager.admin.collect(settled)).swept.leaseCount).toBe(1);
  });

  test('that is full again between its decisions tells of each once', async () => {
    const run = await runOf([1, 2, 3]);
    // The room suffices for the retirement, but not for the removal.
    const store = new FullStore(run, { roomBytes: 2500, reserveBytes: 10_000 });
    await using manager = run.open({ store });
    const { retired, removed } = await manager.admin.collect(AT_ONCE);
    expect([retired, removed, store.givenUpCount]).toEqual([[1n, 2n], [1n, 2n], 1]);
  });

  test('is StorageFull where there is no room to be had: nothing is lost', async () => {
    const run = await runOf([1, 2, 3]);
    for (const reserveBytes of [0, 10]) {
      await using manager = run.open({ store: new FullStore(run, { reserveBytes }) });
      expect(await failure(manager.admin.collect(AT_ONCE))).toContain('StorageFull');
      expect(await statesOf(manager)).toEqual(['3 live', '2 live', '1 live']);
    }
    await using manager = run.open();
    expect(verdictsOf(await manager.admin.planRetention(AT_ONCE))).toEqual([
      '3 keep',
      '2 retire',
      '1 retire',
    ]);
    for (const version of [1, 2, 3]) {
      const to = { a: new Uint8Array(1000) };
      await manager.restore({ version, to });
      expect(to.a).toEqual(bytes(1000, version));
    }
  });
});
