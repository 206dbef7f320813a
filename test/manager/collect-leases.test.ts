/** Collection and the leases of readers. */

import type { ListOptions } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import {
  HOUR_MS,
  meddledStore,
  runOf,
  statesOf,
  type TimedRun,
  versionsWithObjects,
} from './retention-run.ts';

const NEWEST = { keepLast: 1 };
const AT_ONCE = { keepLast: 1, graceMs: 0 };

describe('leases', () => {
  const lease = { ttlMs: 10 * 60_000, reader: 'evaluation' };

  test('I3: a leased checkpoint is retired but not removed until its lease has ended, by the clock of the store', async () => {
    const run = await runOf([1, 2]);
    await using reader = run.open();
    await reader.admin.lease({ version: 1, ...lease });
    await using manager = run.open();
    const held = await manager.admin.collect({ policy: AT_ONCE });
    expect([held.retired, held.removed]).toEqual([[1n], []]);
    expect(held.postponed).toMatchObject([
      { version: 1n, reason: 'reader evaluation holds a lease that ends at 2026-11-21 14:12:00 UTC' },
    ]);
    await run.clock.advance(10 * 60_000);
    // Clocks of stores are less exact.
    expect((await manager.admin.collect({ policy: AT_ONCE })).removed).toEqual([]);
    await run.clock.advance(60_000);
    expect((await manager.admin.collect({ policy: AT_ONCE })).removed).toEqual([1n]);
  });

  test('a lease of another version holds nothing back, nor does one that was given back', async () => {
    const run = await runOf([1, 2, 10]);
    await using reader = run.open();
    await reader.admin.lease({ version: 10, ...lease });
    const { id } = await reader.admin.lease({ version: 1, ...lease });
    await reader.admin.releaseLease(id);
    await using manager = run.open();
    expect((await manager.admin.collect({ policy: AT_ONCE, force: true })).removed).toEqual([1n, 2n]);
  });

  test('I3: a lease that cannot be read counts as one that holds', async () => {
    const run = await runOf([1, 2]);
    await using reader = run.open();
    const { key } = await reader.admin.lease({ version: 1, ...lease });
    run.bucket.damage(key, (record) => record.fill(0, 10, 20));
    await run.clock.advance(24 * HOUR_MS);
    await using manager = run.open();
    const { removed, postponed } = await manager.admin.collect({ policy: AT_ONCE });
    expect([removed, postponed[0]?.reason]).toEqual([
      [],
      'reader evaluation holds a lease that cannot be read',
    ]);
  });

  /** A proxy before the store sets the time of each listing by its own clock. */
  const storeBehindProxy = ({ bucket }: TimedRun, aheadMs: number) =>
    new (class extends MemoryStore {
      override async *list(prefix: string, options?: ListOptions) {
        for await (const page of super.list(prefix, options))
          yield { ...page, storeTimeMs: page.storeTimeMs + aheadMs };
      }
    })(bucket);

  test('I3: a lease ends by the clock that stamped it, whatever the time of a listing says', async () => {
    const run = await runOf([1, 2]);
    await using reader = run.open();
    await reader.admin.lease({ version: 1, ...lease });
    await using manager = run.open({ store: storeBehindProxy(run, 6 * HOUR_MS) });
    const held = await manager.admin.collect({ policy: AT_ONCE });
    expect([held.removed, held.postponed[0]?.reason]).toEqual([
      [],
      'reader evaluation holds a lease that ends at 2026-11-21 14:12:00 UTC',
    ]);
    await run.clock.advance(11 * 60_000);
    expect((await manager.admin.collect({ policy: AT_ONCE })).removed).toEqual([1n]);
    expect(run.bucket.keys().filter((key) => key.includes('timekeeper'))).toEqual([]);
  });

  test('I3: a sweep deletes no lease that is young by the clock that stamped it', async () => {
    const run = await runOf([1]);
    await using reader = run.open();
    const { key } = await reader.admin.lease({ version: 1, ttlMs: 2.4 * HOUR_MS });
    await run.clock.advance(2 * HOUR_MS);
    // Collection refuses clocks that are more than a day apart.
    await using manager = run.open({ store: storeBehindProxy(run, 23 * HOUR_MS) });
    const policy = { keepLast: 1 };
    expect((await manager.admin.collect({ policy })).swept.leaseCount).toBe(0);
    expect(run.bucket.keys()).toContain(key);
    await run.clock.advance(24 * HOUR_MS);
    expect((await manager.admin.collect({ policy })).swept.leaseCount).toBe(1);
    expect(run.bucket.keys().filter((each) => each.startsWith('leases/'))).toEqual([]);
  });

  test('I3: a renewal is seen although it came after the first listing', async () => {
    const run = await runOf([1, 2]);
    await using reader = run.open();
    const { key: old } = await reader.admin.lease({ version: 1, ...lease });
    const record = run.bucket.find(old)?.bytes as Uint8Array;
    await run.clock.advance(11 * 60_000);
    const renewal = old.replace(/-[0-9a-f]{16}\.json$/, '-0123456789abcdef.json');
    const store = meddledStore(
      run,
      ({ operation, key }) => operation === 'create' && key.includes('timekeeper'),
      async () => void (await new MemoryStore(run.bucket).create(renewal, record)),
    );
    await using manager = run.open({ store });
    expect((await manager.admin.collect({ policy: AT_ONCE })).postponed).toHaveLength(1);
  });

  test('I3: a checkpoint that is retired anew after its leases were listed is not removed', async () => {
    const run = await runOf([1, 2]);
    let hasListed = false;
    const store = meddledStore(
      run,
      ({ operation, key }) => {
        const isDue = !hasListed && operation === 'list' && key === 'leases/';
        hasListed ||= isDue;
        return isDue;
      },
      async () => {
        await using person = run.open();
        await person.admin.undelete(1);
        await person.admin.lease({ version: 1, ...lease });
        await person.admin.collect({ policy: NEWEST });
      },
    );
    await using manager = run.open({ store });
    expect((await manager.admin.collect({ policy: AT_ONCE })).removed).toEqual([]);
    expect(await statesOf(manager)).toEqual(['2 live', '1 retiring']);
    expect(versionsWithObjects(run)).toEqual(['1', '2']);
  });
});
