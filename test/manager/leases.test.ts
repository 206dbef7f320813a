import { CheckpointError } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { crc32c, ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

/** A run whose store has a separate clock, days away from the machine's. */
async function savedRun() {
  const clock = new ManualClock({ nowMs: Date.UTC(2031, 4, 1) });
  const bucket = new MemoryBucket({ crc32c, clock });
  const manager = open(bucket, { process: { host: 'eval-7', pid: 42 } });
  for (const version of [1, 2]) await manager.save({ version, buffers: { a: bytes(100, version) } });
  return { clock, bucket, manager };
}

const leaseKeys = (bucket: MemoryBucket) => bucket.keys().filter((key) => key.startsWith('leases/'));

describe('a lease', () => {
  test('tells what it protects and until when, by the clock of the store', async () => {
    const { clock, bucket, manager } = await savedRun();
    const lease = await manager.admin.lease({ version: 1, ttlMs: 2 * HOUR_MS, reader: 'eval' });
    expect(lease).toMatchObject({
      id: expect.stringMatching(/^1\.1\.1\/eval-[0-9a-f]{16}$/),
      version: 1n,
      checkpoint: { lineage: 1, epoch: 1, version: 1n },
      reader: 'eval',
      host: 'eval-7',
      pid: 42,
      createdAtMs: clock.nowMs(),
      expiresAtMs: clock.nowMs() + 2 * HOUR_MS,
      isExpired: false,
    });
    expect(leaseKeys(bucket)).toEqual([lease.key]);
    expect(await manager.admin.leases()).toEqual([lease]);
  });

  test('a reader that dies holds on until its time is over in the store, not longer', async () => {
    const { clock, manager } = await savedRun();
    await manager.admin.lease({ version: 1, ttlMs: HOUR_MS });
    await clock.advance(HOUR_MS - 1);
    expect(await manager.admin.leases()).toMatchObject([{ ageMs: HOUR_MS - 1, isExpired: false }]);
    await clock.advance(1);
    expect(await manager.admin.leases()).toMatchObject([{ ageMs: HOUR_MS, isExpired: true }]);
  });

  test('another one before it ends is how it is renewed; each ends by itself', async () => {
    const { clock, manager } = await savedRun();
    await manager.admin.lease({ ttlMs: HOUR_MS });
    await clock.advance(HOUR_MS / 2);
    const second = await manager.admin.lease({ ttlMs: HOUR_MS });
    await clock.advance(HOUR_MS / 2);
    const leases = await manager.admin.leases({ version: 2 });
    expect(leases.filter(({ isExpired }) => !isExpired).map(({ id }) => id)).toEqual([second.id]);
    expect(leases).toHaveLength(2);
    expect(await manager.admin.leases({ version: 1 })).toEqual([]);
  });

  test('a leased version is not removed before its lease has ended', async () => {
    const { manager } = await savedRun();
    const { id } = await manager.admin.lease({ version: 1, ttlMs: 3_600_000 });
    const collect = () => manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
    await collect();
    expect(await collect()).toMatchObject({ removed: [], postponed: [{ version: 1n }] });
    await manager.admin.releaseLease(id);
    expect((await collect()).removed).toEqual([1n]);
  });

  test('released it is gone; releasing again does nothing and says so', async () => {
    const { bucket, manager } = await savedRun();
    const { id } = await manager.admin.lease({ ttlMs: HOUR_MS });
    expect([await manager.admin.releaseLease(id), await manager.admin.releaseLease(id)]).toEqual([
      true,
      false,
    ]);
    expect(leaseKeys(bucket)).toEqual([]);
  });

  test('versions that begin alike are not mixed up', async () => {
    const { manager } = await savedRun();
    await manager.save({ version: 10, buffers: { a: bytes(1) } });
    await manager.admin.lease({ version: 10, ttlMs: HOUR_MS });
    expect(await manager.admin.leases({ version: 1 })).toEqual([]);
    expect(await manager.admin.leases({ version: 10 })).toHaveLength(1);
  });

  test('those of restores under way are listed as well', async () => {
    const { manager } = await savedRun();
    const stream = (await manager.latest())?.openInputStream('a') as ReadableStream<Uint8Array>;
    const reader = stream.getReader();
    await reader.read();
    expect(await manager.admin.leases()).toMatchObject([{ version: 2n, host: 'eval-7', isExpired: false }]);
    await reader.cancel();
    expect(await manager.admin.leases()).toEqual([]);
  });

  test('a record that cannot be read counts until it is released', async () => {
    const { clock, bucket, manager } = await savedRun();
    const { id, key } = await manager.admin.lease({ version: 1, ttlMs: HOUR_MS });
    bucket.damage(key, (data) => data.with(100, (data[100] as number) ^ 1));
    await clock.advance(90 * DAY_MS);
    expect(await manager.admin.leases()).toMatchObject([{ id, expiresAtMs: null, isExpired: false }]);
    expect(await manager.admin.releaseLease(id)).toBe(true);
  });

  test('a lost reply makes no second lease', async () => {
    const { bucket } = await savedRun();
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    store.create = async (...args) => {
      await create(...args);
      throw new CheckpointError('Unavailable', 'the reply was lost');
    };
    await using manager = open(bucket, { store });
    await manager.admin.lease({ ttlMs: HOUR_MS });
    expect(leaseKeys(bucket)).toHaveLength(1);
  });
});

describe('what is no lease is said, and none is left', () => {
  test.each([
    ['below a second', { ttlMs: 999 }, 'InvalidArgument: ttlMs is 999; it takes a whole number from 1000'],
    ['above 30 days', { ttlMs: 30 * DAY_MS + 1 }, `to ${30 * DAY_MS}`],
    ['no number', { ttlMs: Number.NaN }, 'ttlMs is NaN'],
    ['a reader with a slash', { ttlMs: 1000, reader: 'a/b' }, 'InvalidArgument: reader "a/b"'],
    ['a version that is not there', { ttlMs: 1000, version: 7 }, 'NotFound: there is no version 7'],
  ])('%s', async (_, options, fragment) => {
    const { bucket, manager } = await savedRun();
    expect(await failure(manager.admin.lease(options))).toContain(fragment);
    expect(leaseKeys(bucket)).toEqual([]);
  });

  test('an empty run, an invalid lease id, a version below 0', async () => {
    await using empty = open(newBucket());
    expect(await failure(empty.admin.lease({ ttlMs: 1000 }))).toContain('NotFound');
    expect(await empty.admin.leases()).toEqual([]);
    expect(await failure(empty.admin.releaseLease('../run'))).toContain(
      'InvalidArgument: "../run" is not a lease id',
    );
    expect(await failure(empty.admin.leases({ version: -1 }))).toContain('InvalidArgument: version -1');
  });

  test.each(['Denied', 'ReadOnly'] as const)('a store that cannot be written: %s', async (code) => {
    const { bucket } = await savedRun();
    const store = new MemoryStore(bucket);
    store.create = () => Promise.reject(new CheckpointError(code, 'no'));
    await using manager = open(bucket, { store });
    expect(await failure(manager.admin.lease({ ttlMs: 1000 }))).toBe(`${code}: no`);
  });

  test('a checkpoint that is taken out of use while the lease is taken: NotFound, and the lease is dropped', async () => {
    const { bucket, manager: other } = await savedRun();
    const key = bucket.keys().find((each) => each.startsWith('version_1/') && each.endsWith('/a')) as string;
    bucket.damage(key, (data) => data.with(1, (data[1] as number) ^ 1));
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    store.create = async (...args) => {
      const created = await create(...args);
      await other.admin.verify({ version: 1, quarantine: true });
      return created;
    };
    await using manager = open(bucket, { store });
    expect(await failure(manager.admin.lease({ version: 1, ttlMs: HOUR_MS }))).toContain(
      'NotFound: version 1 is quarantined',
    );
    expect(leaseKeys(bucket)).toEqual([]);
  });

  test('a lease that the store will not delete is an error of releasing it', async () => {
    const { bucket, manager: taker } = await savedRun();
    const { id } = await taker.admin.lease({ ttlMs: HOUR_MS });
    const store = new MemoryStore(bucket);
    store.deleteMany = async (keys) =>
      keys.map((key) => ({ key, error: new CheckpointError('Denied', 'no') }));
    await using manager = open(bucket, { store });
    expect(await failure(manager.admin.releaseLease(id))).toBe('Denied: no');
  });

  test('a release that is stopped has no token, and its context says what to do', async () => {
    const { bucket, manager: taker } = await savedRun();
    const { id } = await taker.admin.lease({ ttlMs: HOUR_MS });
    const store = new MemoryStore(bucket);
    store.deleteMany = async () => {
      throw new CheckpointError('Aborted', 'stopped in flight');
    };
    await using manager = open(bucket, { store });
    const error = await manager.admin.releaseLease(id).catch((thrown) => thrown);
    expect(error).toMatchObject({
      code: 'OutcomeUnknown',
      advice: expect.stringContaining('If there is no token, `context.advice`'),
      context: { advice: [expect.stringContaining('release it again')] },
    });
    expect(error.context.token).toBeUndefined();
    expect(await taker.admin.releaseLease(id)).toBe(true);
  });
});
