import { CheckpointError, type RunManager } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { runOf } from './retention-run.ts';

async function savedRun(versions: readonly number[]) {
  const bucket = newBucket();
  const manager = open(bucket);
  for (const version of versions) await manager.save({ version, buffers: { a: bytes(100, version) } });
  return { bucket, manager };
}

const latestOf = async (manager: RunManager) => (await manager.latest())?.version;

/** Flips a bit in the file of one version, and lets verify quarantine the version. */
async function quarantine(bucket: ReturnType<typeof newBucket>, manager: RunManager, version: number) {
  const key = bucket.keys().find((each) => each.startsWith(`version_${version}/`) && each.endsWith('/a'));
  bucket.damage(key as string, (data) => data.with(5, (data[5] as number) ^ 1));
  await manager.admin.verify({ version, quarantine: true });
}

describe('rollback', () => {
  test('the version gone back to is the latest, those above are left behind and stay in the list', async () => {
    const { bucket, manager } = await savedRun([1, 2, 3]);
    const result = await manager.admin.rollback({ to: 1, reason: 'loss went up' });
    expect(result).toMatchObject({ version: 1n, lineage: 2, leftBehind: [2n, 3n] });
    expect(await latestOf(manager)).toBe(1n);
    expect((await manager.list()).map(({ version, isLeftBehind }) => [version, isLeftBehind])).toEqual([
      [3n, true],
      [2n, true],
      [1n, false],
    ]);
    expect(await manager.get(3)).toBeNull();
    const to = { a: new Uint8Array(100) };
    expect(await manager.restore({ to })).toMatchObject({ version: 1n });
    expect(Buffer.compare(to.a, bytes(100, 1))).toBe(0);
    const [entry] = await manager.admin.log();
    expect(entry).toMatchObject({ kind: 'rollback', reason: 'loss went up', lineage: 2 });
    expect(entry?.checkpoints.map(({ version }) => version)).toEqual([1n]);
    await manager.close();
    await using restarted = open(bucket);
    await restarted.save({ version: 2, buffers: { a: bytes(100, 22) } });
    expect(await restarted.restore({ to })).toMatchObject({ version: 2n });
    expect(Buffer.compare(to.a, bytes(100, 22))).toBe(0);
  });

  test('the overview knows when the last one was made, also after later decisions', async () => {
    const { bucket, manager } = await savedRun([1, 2, 3]);
    expect((await manager.admin.overview({ findRollback: true })).rolledBackByMs).toBeNull();
    await manager.admin.rollback({ to: 1, reason: 'loss went up' });
    await manager.close();
    await using restarted = open(bucket);
    const overviewOf = (options: { findRollback?: boolean }) => restarted.admin.overview(options);
    const { rolledBackByMs: first, storeTimeMs } = await overviewOf({ findRollback: true });
    expect(first).toBeLessThanOrEqual(storeTimeMs);
    for (let version = 2; version < 100; version += 1)
      await restarted.save({ version, buffers: { a: bytes(10, version) } });
    expect((await overviewOf({ findRollback: true })).rolledBackByMs).toBe(first);
    expect((await overviewOf({})).rolledBackByMs).toBeNull();
  });

  test('a writer that was running is fenced, and has no effect any more', async () => {
    const { bucket, manager: writer } = await savedRun([1, 2]);
    await using person = open(bucket);
    await person.admin.rollback({ to: 1, reason: 'the data was wrong' });
    expect(await failure(writer.save({ version: 3, buffers: { a: bytes(10) } }))).toContain('Fenced');
    expect(await latestOf(person)).toBe(1n);
  });

  test('a writer that was running is fenced, also when it saves a version that was left behind', async () => {
    const bucket = newBucket();
    await using writer = open(bucket, { attempt: 'job' });
    for (const version of [1, 2]) await writer.save({ version, buffers: { a: bytes(10, version) } });
    await using person = open(bucket);
    await person.admin.rollback({ to: 1, reason: 'diverged' });
    const again = writer.save({ version: 2, buffers: { a: bytes(10, 9) } });
    expect(await failure(again)).toMatch(/^Fenced: the run was rolled back/);
  });

  test('back to the latest: nothing is left behind, and its writers are fenced all the same', async () => {
    const { bucket, manager: writer } = await savedRun([1]);
    await using person = open(bucket);
    expect(await person.admin.rollback({ to: 1, reason: 'stop them' })).toMatchObject({
      lineage: 2,
      leftBehind: [],
    });
    expect(await failure(writer.save({ version: 2, buffers: { a: bytes(10) } }))).toContain('Fenced');
  });

  test('after a quarantine of the newest, its version can be written again', async () => {
    const { bucket, manager } = await savedRun([1, 2]);
    await quarantine(bucket, manager, 2);
    await manager.admin.rollback({ to: 1, reason: 'write version 2 again' });
    await using restarted = open(bucket);
    await restarted.save({ version: 2, buffers: { a: bytes(100, 9) } });
    expect(await latestOf(restarted)).toBe(2n);
  });

  test('a version committed between plan and decision is left behind too, and told', async () => {
    const { bucket, manager: writer } = await savedRun([1, 2]);
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    let isFirst = true;
    store.create = async (key, ...rest) => {
      if (isFirst && key.startsWith('catalog/')) {
        isFirst = false;
        await writer.save({ version: 3, buffers: { a: bytes(10) } });
      }
      return create(key, ...rest);
    };
    await using person = open(bucket, { store });
    expect((await person.admin.rollback({ to: 1, reason: 'x' })).leftBehind).toEqual([2n, 3n]);
  });

  test('another rollback that came first is a Conflict, and nothing is added to it', async () => {
    const { bucket, manager: other } = await savedRun([1, 2, 3]);
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    let isFirst = true;
    store.create = async (key, ...rest) => {
      if (isFirst && key.startsWith('catalog/')) {
        isFirst = false;
        await other.admin.rollback({ to: 2, reason: 'first' });
      }
      return create(key, ...rest);
    };
    await using person = open(bucket, { store });
    expect(await failure(person.admin.rollback({ to: 1, reason: 'second' }))).toBe(
      'Conflict: another rollback came first; nothing was changed',
    );
    expect(await latestOf(other)).toBe(2n);
  });

  test('a store that falls silent in between leaves it unknown, and says how to find out', async () => {
    const { bucket, manager } = await savedRun([1, 2]);
    const store = new MemoryStore(bucket);
    const down = () => Promise.reject(new CheckpointError('Unavailable', 'no answer'));
    const create = store.create.bind(store);
    store.create = async (key, ...rest) => {
      await create(key, ...rest);
      store.list = () => {
        throw new CheckpointError('Unavailable', 'no answer');
      };
      store.get = down;
      return down();
    };
    const settings = { recordTimeoutMs: 200, retryDelayMsBase: 1, retryDelayMsMax: 5 };
    await using person = open(bucket, { store, settings });
    await expect(person.admin.rollback({ to: 1, reason: 'x' })).rejects.toMatchObject({
      code: 'OutcomeUnknown',
      message: 'it is not known whether the rollback took effect',
      context: { token: expect.stringMatching(/^hf1-/) },
    });
    expect((await manager.admin.log())[0]?.kind).toBe('rollback');
  });
});

describe('rollback: what cannot be done is said, and nothing is changed', () => {
  test.each([
    ['none', undefined, 'undefined'],
    ['empty', '', '0 characters'],
    ['of spaces', '  ', '2 characters'],
    ['too long', 'x'.repeat(1001), '1001 characters'],
  ])('a reason that is %s', async (_, reason, found) => {
    const { bucket, manager } = await savedRun([1]);
    const before = bucket.keys();
    const message = await failure(manager.admin.rollback({ to: 1, reason: reason as string }));
    expect(message).toContain('InvalidArgument: a rollback needs a reason of 1 to 1000 characters');
    expect(message).toContain(found);
    expect(bucket.keys()).toEqual(before);
  });

  test('no run, a version that never was, one that is quarantined, one left behind', async () => {
    await using empty = open(newBucket());
    expect(await failure(empty.admin.rollback({ to: 1, reason: 'x' }))).toBe(
      'NotFound: there is no run at memory://unnamed',
    );
    const { bucket, manager } = await savedRun([1, 2, 3]);
    const refused = (to: number) => failure(manager.admin.rollback({ to, reason: 'x' }));
    expect(await refused(7)).toBe(
      'NotFound: there is no version 7: the newest of 3 that can be restored is 3',
    );
    await quarantine(bucket, manager, 2);
    expect(await refused(2)).toMatch(/^Conflict: version 2 is quarantined: verify: /);
    await manager.admin.rollback({ to: 1, reason: 'x' });
    const before = bucket.keys();
    expect(await refused(3)).toBe('NotFound: version 3 was left behind by an earlier rollback');
    expect(bucket.keys()).toEqual(before);
  });

  test('one that is retired is a Conflict until it is taken back; one that was removed is NotFound', async () => {
    const { manager } = await savedRun([1, 2, 3]);
    const refused = (to: number) => failure(manager.admin.rollback({ to, reason: 'x' }));
    const rules = { keepLast: 1, graceMs: 3_600_000 };
    await manager.admin.collect({ policy: rules, force: true });
    expect(await refused(1)).toBe('Conflict: version 1 is retired: undelete it first');
    expect(await failure(manager.admin.lease({ version: 1, ttlMs: 1000 }))).toContain(
      'NotFound: version 1 is retired',
    );
    expect(await failure(manager.admin.diff(1, 3))).toContain('NotFound: version 1 is retired');
    await manager.admin.undelete(2);
    await manager.admin.pin(2, 'kept');
    await manager.admin.collect({ policy: { ...rules, graceMs: 0 }, force: true });
    expect((await manager.list()).map(({ version }) => version)).toEqual([3n, 2n]);
    expect(await refused(1)).toBe('NotFound: version 1 was removed');
    expect(await manager.admin.rollback({ to: 2, reason: 'x' })).toMatchObject({
      version: 2n,
      leftBehind: [3n],
    });
    const reasons = (await manager.admin.log()).map(({ kind, reason }) => [kind, reason !== '']);
    expect(
      reasons.filter(([kind]) => ['retire', 'remove', 'unretire', 'pin'].includes(String(kind))),
    ).toEqual([
      ['remove', true],
      ['pin', true],
      ['unretire', true],
      ['retire', true],
    ]);
  });
});

test('I7: a process that a rollback has left behind saves a version that was removed since: Conflict, for nothing was sent', async () => {
  const bucket = newBucket();
  await using left = open(bucket, { attempt: 'job' });
  for (const version of [1, 2, 3]) await left.save({ version, buffers: { a: bytes(10, version) } });
  await using person = open(bucket);
  await person.admin.rollback({ to: 1, reason: 'loss' });
  await person.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
  expect(await failure(left.save({ version: 3, buffers: { a: bytes(10, 9) } }))).toMatch(
    /^Conflict: version 3@1 was committed and removed/,
  );
});

test('a damaged manifest of what was left behind stops collection, and is named with its lineage', async () => {
  const run = await runOf([1, 2]);
  await using person = run.open();
  await person.admin.rollback({ to: 1, reason: 'loss' });
  await using later = run.open({ attempt: 'later' });
  await later.save({ version: 2, buffers: { a: bytes(10, 9) } });
  const key = run.bucket.keys().find((each) => /^version_2\/1\..*manifest-/.test(each)) as string;
  run.bucket.damage(key, () => bytes(10));
  const error = await later.admin.collect().catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code: 'Corrupt', context: { checkpoint: '2@1', stopped: 'collection' } });
  expect(String(error)).toContain('version 2@1: ');
  expect(await later.admin.verify({ version: 2 })).toMatchObject({ id: { lineage: 2 }, problems: [] });
  const left = { version: 2, lineage: 1 };
  expect(await later.admin.verify({ version: left, quarantine: true })).toMatchObject({
    recorded: 'quarantined',
  });
  await later.admin.collect();
});
