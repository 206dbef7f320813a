/**
 * A sweep deletes garbage by the rules of docs/format.md. Objects that are live, or can become
 * live, stay, whatever happens to the sweep.
 */

import { CheckpointError, type ObjectStore, systemClock } from '@holdfast/core';
import { decodeRecord, encodeRecord } from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, type FaultName, type FaultPlan, ManualClock, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { keysOf, LARGE_BYTES, processOn, runWithGarbage } from './sweep-run.ts';

const HOUR_MS = 60 * 60_000;
const DAY_MS = 24 * HOUR_MS;
const DELETED = ({ operation }: { operation: string }) => operation === 'deleteMany';

async function sweepOnce(bucket: MemoryBucket, options?: Parameters<typeof processOn>[1]) {
  const { manager, store, clock } = processOn(bucket, options);
  try {
    const { swept } = await manager.admin.collect();
    return { swept, store, clock };
  } finally {
    await manager.close();
  }
}

async function restored(bucket: MemoryBucket, version: number) {
  await using manager = open(bucket);
  const files = (await (await manager.get(version))?.details())?.files ?? [];
  const to = Object.fromEntries(files.map(({ name, sizeBytes }) => [name, new Uint8Array(sizeBytes)]));
  await manager.restore({ version, to });
  return to;
}

const VERSION_1 = {
  'w0/large': bytes(LARGE_BYTES, 1),
  'w0/small': bytes(10, 1),
  'w1/large': bytes(LARGE_BYTES, 1),
  'w1/small': bytes(10, 1),
};

describe('I10: what a dead attempt has left', () => {
  test('stays as long as it could be finished, and is gone after one sweep once its epoch has passed', async () => {
    const bucket = await runWithGarbage();
    const before = bucket.keys();
    expect(keysOf(bucket, 'version_2/').length).toBeGreaterThan(3);
    expect(bucket.openUploads()).toHaveLength(1);

    const { swept: first } = await sweepOnce(bucket);
    expect(first).toMatchObject({ objectCount: 0, uploadCount: 0, heldCount: 0 });
    expect(bucket.keys()).toEqual(before);

    await using next = processOn(bucket, { attempt: 'job-1' }).manager;
    await next.join();
    const gone = keysOf(bucket, 'version_2/', 'writers/1.1/', 'uploads/');
    const goneBytes = gone
      .filter((key) => !key.startsWith('uploads/'))
      .map((key) => bucket.find(key)?.bytes.length ?? 0);
    const { swept } = await sweepOnce(bucket);
    expect(keysOf(bucket, 'version_2/', 'writers/1.1/', 'uploads/')).toEqual([]);
    expect(bucket.openUploads()).toEqual([]);
    expect(swept).toMatchObject({
      objectCount: gone.length,
      freedBytes: goneBytes.reduce((sum, each) => sum + each, 0),
      uploadCount: 1,
      uploadBytes: LARGE_BYTES,
      heldCount: 0,
    });
    expect(await restored(bucket, 1)).toEqual(VERSION_1);
    expect((await sweepOnce(bucket)).swept.objectCount).toBe(0);
  });

  test('goes while a writer of the present epoch is sending: nothing of it is touched, and it commits', async () => {
    const bucket = await runWithGarbage();
    const swept: number[] = [];
    const { manager } = processOn(bucket, {
      attempt: 'job-1',
      clock: systemClock, // the other clock cannot see a sweep
      change: (store) => {
        const create = store.create.bind(store);
        store.create = async (...args) => {
          const info = await create(...args);
          if (args[0].startsWith('version_2/1.2/')) swept.push((await sweepOnce(bucket)).swept.objectCount);
          return info;
        };
      },
    });
    await manager.save({ version: 2, buffers: { a: bytes(10, 7), b: bytes(20, 8) } });
    await manager.close();
    expect(swept[0]).toBeGreaterThan(5);
    expect(keysOf(bucket, 'version_2/1.1/', 'writers/1.1/', 'uploads/')).toEqual([]);
    expect(await restored(bucket, 2)).toEqual({ a: bytes(10, 7), b: bytes(20, 8) });
    expect(await restored(bucket, 1)).toEqual(VERSION_1);
  });

  test('an upload without a record is found where the store lists uploads; one of the present epoch stays', async () => {
    const bucket = await runWithGarbage();
    await using next = processOn(bucket, { attempt: 'job-1' }).manager;
    await next.join();
    const store = new MemoryStore(bucket);
    const begin = async (key: string) => {
      const upload = await store.beginUpload(key, { partSizeBytes: 100 });
      await upload.putPart(0, bytes(100), { crc32c: bucket.crc32c?.(bytes(100)) ?? 0 });
    };
    await begin('version_9/1.1/0.0-ab/w');
    await begin('version_9/1.2/0.0-ab/w');
    const { swept } = await sweepOnce(bucket);
    expect(swept).toMatchObject({ uploadCount: 2, uploadBytes: LARGE_BYTES + 100 });
    expect(bucket.openUploads().map(({ key }) => key)).toEqual(['version_9/1.2/0.0-ab/w']);
  });

  test('a record without an upload is deleted; one that cannot be read stays and is told', async () => {
    const bucket = await runWithGarbage();
    for (const { token } of bucket.openUploads()) bucket.endUpload(token);
    bucket.insert('uploads/damaged.json', bytes(10));
    await using next = processOn(bucket, { attempt: 'job-1' }).manager;
    await next.join();
    const { swept } = await sweepOnce(bucket);
    expect(keysOf(bucket, 'uploads/')).toEqual(['uploads/damaged.json']);
    expect(swept).toMatchObject({ uploadCount: 0, uploadBytes: 0, heldCount: 1 });
    expect(swept.held[0]).toMatchObject({
      key: 'uploads/damaged.json',
      reason: expect.stringContaining('Corrupt'),
    });
  });
});

async function abandonedRun() {
  const bucket = await runWithGarbage();
  const { manager } = processOn(bucket, { attempt: 'job-1' });
  await manager.join();
  await manager.close();
  return bucket;
}

describe('the order of a sweep', () => {
  test('lists, then reads the catalog, then deletes payloads, receipts, manifests and claims, in batches across checkpoints', async () => {
    const bucket = await abandonedRun();
    bucket.insert(`version_3/1.1/manifest-${'0'.repeat(16)}.json`, bytes(5));
    const deleted: string[][] = [];
    const { store } = await sweepOnce(bucket, {
      maxDeleteKeys: 2,
      change: (below) => {
        const deleteMany = below.deleteMany.bind(below);
        below.deleteMany = (keys, options) => {
          deleted.push([...keys]);
          return deleteMany(keys, options);
        };
      },
    });
    const lists = store.calls.filter(({ operation }) => operation === 'list').map(({ key }) => key);
    const own = lists.slice(lists.indexOf('version_'));
    expect(own).toEqual(['version_', 'writers/', 'uploads/', 'leases/', 'pages/', 'catalog/']);
    const kinds = deleted.map(([key = '']) =>
      /\/receipts\//.test(key) ? 'receipt' : (/manifest|writers|uploads/.exec(key)?.[0] ?? 'payload'),
    );
    expect(kinds).toEqual(['payload', 'payload', 'receipt', 'manifest', 'writers', 'uploads']);
    expect(Math.max(...deleted.map((keys) => keys.length))).toBe(2);
  });

  test('10,000 objects of 100 checkpoints take ten delete requests, a second apart at the default pace', async () => {
    const bucket = await abandonedRun();
    for (let version = 0; version < 100; version++)
      for (let file = 0; file < 100; file++)
        bucket.insert(`version_${version}/1.1/0.0-ab/f${file}`, bytes(1));
    const { store, clock, swept } = await sweepOnce(bucket);
    const payloadRequests = store.calls.filter((call) => DELETED(call) && call.key.includes('/0.0-'));
    expect(swept.objectCount).toBeGreaterThan(10_000);
    expect(store.calls.filter(DELETED).length).toBeLessThanOrEqual(20);
    expect(payloadRequests).toHaveLength(11);
    expect(clock.monotonicMs()).toBeGreaterThanOrEqual(10_000);
    expect(clock.monotonicMs()).toBeLessThan(11_500);
  });

  test('deletesPerSecondMax below a batch makes the batches smaller', async () => {
    const bucket = await abandonedRun();
    const count = keysOf(bucket, 'version_2/', 'writers/1.1/', 'uploads/').length;
    const { clock, store } = await sweepOnce(bucket, { settings: { deletesPerSecondMax: 1 } });
    expect(store.calls.filter(DELETED)).toHaveLength(count);
    expect(clock.monotonicMs()).toBeGreaterThanOrEqual((count - 1) * 1000);
  });

  test('a takeover between listing and catalog is no sign of an old catalog, and its writer keeps what it sends', async () => {
    const bucket = await abandonedRun();
    const late = processOn(bucket, { attempt: 'job-2' });
    let isDone = false;
    await sweepOnce(bucket, {
      change: (store) => {
        const list = store.list.bind(store);
        store.list = (prefix, options) => {
          if (prefix !== 'leases/' || isDone) return list(prefix, options);
          isDone = true;
          return (async function* () {
            await late.manager.save({ version: 5, buffers: { a: bytes(10, 5) } });
            yield* list(prefix, options);
          })();
        };
      },
    });
    await late.manager.close();
    expect(isDone).toBe(true);
    expect(await restored(bucket, 5)).toEqual({ a: bytes(10, 5) });
  });

  test('a manifest that was read is not read again by the next sweep of the same manager', async () => {
    const bucket = await abandonedRun();
    const { manager, store } = processOn(bucket);
    const gets = () =>
      store.calls.filter(({ operation, key }) => operation === 'get' && key.includes('manifest-')).length;
    await manager.admin.collect();
    expect(gets()).toBe(1);
    await manager.admin.collect();
    expect(gets()).toBe(1);
    await manager.close();
  });
});

describe('a sweep that may not go on deletes nothing', () => {
  async function expectUntouched(bucket: MemoryBucket, code: string, words: RegExp) {
    const before = bucket.keys();
    const uploads = bucket.openUploads().length;
    const message = await failure(sweepOnce(bucket));
    expect(message).toMatch(new RegExp(`^${code}: `));
    expect(message).toMatch(words);
    expect([bucket.keys(), bucket.openUploads().length]).toEqual([before, uploads]);
  }

  test('a manifest that is damaged: Corrupt names it', async () => {
    const bucket = await abandonedRun();
    const [key = ''] = keysOf(bucket, 'version_1/').filter((each) => each.includes('manifest'));
    bucket.damage(key, (data) => data.fill(0, 100, 101));
    await expectUntouched(bucket, 'Corrupt', /nothing is deleted.*version_1\/1\.1\/manifest-/);
  });

  test('unless its checkpoint is quarantined: then all that was sent for it stays, and the rest goes', async () => {
    const bucket = await runWithGarbage();
    const { manager } = processOn(bucket, { attempt: 'job-1' });
    await manager.join();
    const [key = ''] = keysOf(bucket, 'version_1/').filter((each) => each.includes('manifest'));
    bucket.remove(key);
    expect(await failure(manager.admin.collect())).toContain('Corrupt');
    const { recorded } = await manager.admin.verify({ version: 1, quarantine: true });
    expect(recorded).toBe('quarantined');
    const kept = keysOf(bucket, 'version_1/');
    expect((await manager.admin.collect()).swept.objectCount).toBeGreaterThan(3);
    expect([keysOf(bucket, 'version_1/'), keysOf(bucket, 'version_2/')]).toEqual([kept, []]);
    await manager.close();
  });

  test('so is one that a rollback left behind', async () => {
    const bucket = newBucket();
    const { manager } = processOn(bucket, { attempt: undefined, writer: undefined });
    for (const version of [1, 2]) await manager.save({ version, buffers: { a: bytes(10, version) } });
    await manager.admin.rollback({ to: 1, reason: 'diverged' });
    const [key = ''] = keysOf(bucket, 'version_2/').filter((each) => each.includes('manifest'));
    bucket.remove(key);
    const message = await failure(manager.admin.collect());
    expect(message).toContain('version 2@1: ');
    expect((await manager.admin.verify({ version: 2, quarantine: true })).recorded).toBe('quarantined');
    await manager.admin.collect();
    await manager.close();
  });

  test('a manifest that is missing: Corrupt names it', async () => {
    const bucket = await abandonedRun();
    const [key = ''] = keysOf(bucket, 'version_1/').filter((each) => each.includes('manifest'));
    bucket.remove(key);
    await expectUntouched(bucket, 'Corrupt', /manifest-[0-9a-f]+\.json is missing/);
  });

  test('an object of an epoch that the catalog has not come to: StoreRegressed names it', async () => {
    const bucket = await abandonedRun();
    bucket.insert('version_1/1.3/0.0-ab/w', bytes(1));
    await expectUntouched(bucket, 'StoreRegressed', /version_1\/1\.3\/0\.0-ab\/w is of lineage 1, epoch 3/);
  });

  test('a record of an upload of such an epoch: StoreRegressed names it', async () => {
    const bucket = await abandonedRun();
    const [key = ''] = keysOf(bucket, 'uploads/');
    const record = decodeRecord('upload', bucket.find(key)?.bytes ?? bytes(0), { key });
    const { bytes: newer } = encodeRecord('upload', { ...record, id: { lineage: 1, epoch: 9, version: 2n } });
    bucket.insert('uploads/newer.json', newer);
    await expectUntouched(bucket, 'StoreRegressed', /uploads\/newer\.json is of lineage 1, epoch 9/);
  });

  test('an older catalog that was restored: StoreRegressed', async () => {
    const bucket = await abandonedRun();
    await using next = processOn(bucket, { attempt: 'job-2' }).manager;
    await next.save({ version: 8, buffers: { a: bytes(1) } });
    for (const key of keysOf(bucket, 'catalog/').slice(-2)) bucket.remove(key);
    await expectUntouched(bucket, 'StoreRegressed', /only at lineage 1, epoch 2/);
    // A new attempt that took over would begin epoch 3 again. A sweep would then delete version 8.
    await using after = processOn(bucket, { attempt: 'job-3' }).manager;
    const before = bucket.keys();
    expect(await failure(after.save({ version: 9, buffers: { a: bytes(1) } }))).toMatch(
      /^StoreRegressed: .* has the claim writers\/1\.3\/0\.0\.json, but .* only at lineage 1, epoch 2/,
    );
    expect(bucket.keys()).toEqual(before);
  });

  test.each(['Denied', 'ReadOnly'] as const)('a store that answers %s to every delete', async (code) => {
    const bucket = await abandonedRun();
    const before = bucket.keys();
    const refused = failure(
      sweepOnce(bucket, { plan: (call) => (DELETED(call) ? refuse(code) : undefined) }),
    );
    expect(await refused).toMatch(new RegExp(`^${code}: `));
    expect(bucket.keys()).toEqual(before);
  });

  test('a store that answers Denied for each key', async () => {
    const bucket = await abandonedRun();
    const before = [bucket.keys(), bucket.openUploads().length];
    const message = await failure(sweepOnce(bucket, { change: (store) => hold(store, () => true) }));
    expect(message).toMatch(/^Denied: the store refused the deletion of all \d+ objects to collect: held/);
    expect([bucket.keys(), bucket.openUploads().length]).toEqual(before);
  });
});

/** Keys that the store will not delete. */
function hold(store: ObjectStore, isHeld: (key: string) => boolean) {
  const deleteMany = store.deleteMany.bind(store);
  store.deleteMany = async (keys, options) => {
    await deleteMany(
      keys.filter((key) => !isHeld(key)),
      options,
    );
    return keys.map((key) => (isHeld(key) ? { key, error: new CheckpointError('Denied', 'held') } : { key }));
  };
}

test('what the store will not delete is held and told by its reason, and the rest goes; what it costs further is noted', async () => {
  const bucket = await abandonedRun();
  const fact = (id: string, title: string, meaning?: string) => ({
    ...{ id, title, seen: 'on' },
    ...(meaning !== undefined && { concern: { meaning, advice: 'none' } }),
  });
  const isHeld = (key: string) => key.startsWith('version_2/') && key.includes('small');
  const { swept } = await sweepOnce(bucket, {
    change: (store) => hold(store, isHeld),
    inspect: async () => [
      fact('versioning', 'versioning', 'what is removed is billed'),
      fact('soft-delete', 'soft delete'),
      fact('access', 'access', 'can be read without credentials'),
    ],
  });
  expect(swept).toMatchObject({ heldCount: 2, notes: ['versioning (on): what is removed is billed'] });
  expect(swept.held).toEqual(keysOf(bucket, 'version_2/').map((key) => ({ key, reason: 'Denied: held' })));
  expect(keysOf(bucket, 'version_2/').every(isHeld)).toBe(true);
  expect(swept.objectCount).toBeGreaterThan(0);
  const failing = await sweepOnce(await abandonedRun(), {
    inspect: () => Promise.reject(new Error('no such call')),
  });
  expect(failing.swept.notes).toEqual([]);
});

test('settings of the store that never answer, or are asked for in vain before a stop, hold up no collection', async () => {
  const never = () => new Promise<never>(() => undefined);
  const settings = { stallTimeoutMs: 50 };
  const { swept } = await sweepOnce(await abandonedRun(), { inspect: never, settings });
  expect([swept.notes, swept.objectCount > 0]).toEqual([[], true]);
  const stop = new AbortController();
  const stopping = () => {
    stop.abort(new CheckpointError('Aborted', 'enough'));
    return never();
  };
  await using stopped = processOn(await abandonedRun(), { inspect: stopping }).manager;
  const result = await stopped.admin.collect({ signal: stop.signal });
  expect([result.swept.notes, result.swept.objectCount > 0]).toEqual([[], true]);
});

test('a key that cannot be deleted for a while is asked for again; in the end it is held', async () => {
  const bucket = await abandonedRun();
  let refused = 0;
  const busy = (times: number) => (store: Parameters<typeof hold>[0]) => {
    const deleteMany = store.deleteMany.bind(store);
    store.deleteMany = async (keys, options) => {
      const [first = '', ...rest] = keys;
      if (!first.startsWith('version_2/') || refused++ >= times) return deleteMany(keys, options);
      const error = new CheckpointError('Throttled', 'slow down');
      return [{ key: first, error }, ...(await deleteMany(rest, options))];
    };
  };
  const settings = { retryCountMax: 3, retryDelayMsMax: 10 };
  expect((await sweepOnce(bucket, { change: busy(2), settings })).swept.heldCount).toBe(0);
  expect([refused > 2, keysOf(bucket, 'version_2/')]).toEqual([true, []]);
  refused = 0;
  const { swept } = await sweepOnce(await abandonedRun(), { change: busy(1000), settings });
  expect(swept.held[0]?.reason).toBe('Throttled: slow down');
});

test('leases go when they expired long ago by the clock of the store, whatever that of the sweeper says', async () => {
  const storeClock = new ManualClock();
  const bucket = newBucket();
  bucket.clock = storeClock;
  await using writer = open(bucket, { clock: storeClock });
  await writer.save({ version: 1, buffers: { a: bytes(10) } });
  await writer.admin.lease({ version: 1, ttlMs: HOUR_MS });
  await writer.admin.lease({ version: 1, ttlMs: 10 * DAY_MS });
  bucket.insert(`leases/1.1.1/r-${'a'.repeat(16)}.json`, bytes(10));
  const isLate = new ManualClock({ nowMs: storeClock.nowMs() + 1000 * DAY_MS, autoAdvance: true });
  expect((await sweepOnce(bucket, { clock: isLate })).swept.leaseCount).toBe(0);
  await storeClock.advance(DAY_MS - 1000);
  expect((await sweepOnce(bucket)).swept.leaseCount).toBe(0);
  await storeClock.advance(1000);
  expect((await sweepOnce(bucket)).swept.leaseCount).toBe(1);
  await storeClock.advance(99 * DAY_MS);
  expect((await sweepOnce(bucket)).swept.leaseCount).toBe(1);
  // An unreadable record counts as one that holds objects.
  expect(keysOf(bucket, 'leases/')).toEqual([`leases/1.1.1/r-${'a'.repeat(16)}.json`]);
});

test('what is retiring or rolled back holds on to its objects as what is live does', async () => {
  const bucket = newBucket();
  const { manager } = processOn(bucket, { clock: systemClock, retention: { keepLast: 2, graceMs: HOUR_MS } });
  for (const version of [1, 2, 3, 4]) await manager.save({ version, buffers: { a: bytes(50_000, version) } });
  await manager.admin.rollback({ to: 3, reason: 'a test' });
  const before = keysOf(bucket, 'version_');
  await manager.admin.collect({ force: true });
  const states = (await manager.list()).map(({ version, state }) => `${version} ${state}`);
  expect(states).toEqual(['4 retiring', '3 live', '2 live', '1 retiring']);
  expect(keysOf(bucket, 'version_')).toEqual(before);
  await manager.close();
});

test('an object that a later checkpoint refers to stays when its own checkpoint is removed, and goes with the last', async () => {
  const bucket = newBucket();
  const { manager } = processOn(bucket, { retention: { keepLast: 1, graceMs: 0 } });
  const same = bytes(100_000, 3);
  // Those from 2 on refer to the file of 1: that of 0 is not hashed.
  for (const version of [0, 1, 2, 3])
    await manager.save({ version, buffers: { same, other: bytes(50_000, version) } });
  await manager.admin.collect({ force: true });
  expect((await manager.list()).map(({ version }) => version)).toEqual([3n]);
  expect(keysOf(bucket, 'version_0/', 'version_1/', 'version_2/')).toEqual([
    expect.stringMatching(/^version_1\/.*\/same$/),
  ]);
  expect(await restored(bucket, 3)).toEqual({ same, other: bytes(50_000, 3) });
  await manager.save({ version: 4, buffers: { other: bytes(50_000, 4) } });
  await manager.admin.collect({ force: true });
  expect(keysOf(bucket, 'version_1/', 'version_2/', 'version_3/')).toEqual([]);
  await manager.close();
});

describe('I1, I8, I10: whatever happens to a call of a sweep', () => {
  /** Plays a sweep for each of its calls, with a fault at that call. The faults rotate. */
  async function atEveryCall(
    names: readonly FaultName[],
    check: (bucket: MemoryBucket, plan: FaultPlan) => Promise<void>,
  ) {
    const { store } = await sweepOnce(await abandonedRun());
    expect(store.calls.length).toBeGreaterThan(15);
    for (let number = 0; number < store.calls.length; number++) {
      const fault = FAULTS[names[number % names.length] as FaultName];
      const bucket = await abandonedRun();
      await check(bucket, (call) => (call.number === number ? fault : undefined));
      expect(keysOf(bucket, 'version_2/', 'writers/1.1/', 'uploads/')).toEqual([]);
      expect([bucket.openUploads(), bucket.violations]).toEqual([[], []]);
    }
  }

  test('it dies: what is live can be read, and the next sweep finishes', async () => {
    await atEveryCall(['stopBefore', 'stopAfter', 'stopInFlight'], async (bucket, plan) => {
      await sweepOnce(bucket, { plan }).catch(() => undefined); // it is dead
      expect(await restored(bucket, 1)).toEqual(VERSION_1);
      await sweepOnce(bucket);
    });
  });

  test('a request or a reply is lost, or comes twice: it succeeds all the same', async () => {
    await atEveryCall(['loseRequest', 'loseReply', 'duplicateLate', 'stall'], async (bucket, plan) => {
      await sweepOnce(bucket, { plan });
    });
  });
});
