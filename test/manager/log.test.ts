/** The history of a run: what it reads, and what it returns. */

import { hasRun, systemClock } from '@holdfast/core/contract';
import { MemoryStore, ObservedStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, SETTINGS } from './memory-run.ts';
import { keysOf } from './sweep-run.ts';

const keyOf = (seq: number) => `catalog/${String(seq).padStart(20, '0')}.json`;

describe('the commit of one checkpoint', () => {
  test('is found whatever lies between, with twice as many reads as the distance has binary digits', async () => {
    const bucket = newBucket();
    const calls: string[] = [];
    const store = new ObservedStore(new MemoryStore(bucket), {
      clock: systemClock,
      onCall: ({ operation, key }) => calls.push(`${operation} ${key}`),
    });
    const settings = { ...SETTINGS, entryCheckpointsMax: 8 };
    await using manager = open(bucket, { store, settings });
    const save = (version: number) => manager.save({ version, buffers: { a: bytes(8, version) } });
    for (let version = 1; version <= 60; version += 1) await save(version);
    await manager.admin.rollback({ to: 40, reason: 'diverged' });
    await using after = open(bucket, { store, settings });
    for (let version = 41; version <= 50; version += 1)
      await after.save({ version, buffers: { a: bytes(8, version) } });
    await after.admin.pin(7, 'paper');

    const log = await after.admin.log({ limit: 1000 });
    const commits = log.filter(({ kind }) => kind === 'commit');
    expect(commits).toHaveLength(70);
    expect(commits.map(({ versionCount }) => versionCount)).toEqual(commits.map((_, index) => 70 - index));
    for (const commit of commits) {
      calls.length = 0;
      const [id] = commit.checkpoints;
      expect(await after.admin.log({ commitOf: id })).toEqual([commit]);
      const distance = (log[0]?.seq ?? 0) - commit.seq + 1;
      expect(calls.length).toBeLessThanOrEqual(2 * Math.ceil(Math.log2(distance + 1)) + 4);
    }
  });

  test('is not there for a checkpoint that came otherwise, or that never was', async () => {
    const source = newBucket();
    await using original = open(source);
    await original.save({ version: 3, buffers: { a: bytes(8) } });
    await using copy = open(newBucket());
    const { id } = await copy.admin.forkFrom(original);
    const [entry] = await copy.admin.log({ commitOf: id });
    expect(entry?.checkpoints[0] ?? id).toEqual(id);
    expect(await original.admin.log({ commitOf: { lineage: 1, epoch: 1, version: 4n } })).toEqual([]);
    expect(await original.admin.log({ commitOf: { lineage: 1, epoch: 9, version: 3n } })).toEqual([]);
    await using empty = open(newBucket());
    expect(await empty.admin.log({ commitOf: id })).toEqual([]);
  });

  test('is unknown once its entry is pruned', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    for (const version of [1, 2, 3]) await manager.save({ version, buffers: { a: bytes(8, version) } });
    const [commit] = (await manager.admin.log()).filter(({ kind }) => kind === 'commit').slice(-1);
    for (let seq = 1; seq <= (commit?.seq ?? 0); seq += 1) bucket.remove(keyOf(seq));
    expect(await manager.admin.log({ commitOf: commit?.checkpoints[0] })).toEqual([]);
  });
});

test('the newest of several damaged entries is named, even if it answers last', async () => {
  const bucket = newBucket();
  await using manager = open(bucket);
  for (const version of [1, 2, 3]) await manager.save({ version, buffers: { a: bytes(8, version) } });
  const newest = (await manager.admin.log())[0]?.seq ?? 0;
  for (const seq of [2, newest]) bucket.damage(keyOf(seq), () => bytes(100));
  const store = new MemoryStore(bucket);
  const get = store.get.bind(store);
  store.get = async (key, options) => {
    if (key === keyOf(newest)) await new Promise((resolve) => setTimeout(resolve, 20));
    return get(key, options);
  };
  await using other = open(bucket, { store });
  expect(await failure(other.admin.log())).toContain(keyOf(newest));
});

describe('whether there is a run', () => {
  test('it begins with its first writer, before the first checkpoint', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    expect(await hasRun(manager)).toBe(false);
    await manager.join();
    expect(await manager.latest()).toBeNull();
    expect(await hasRun(manager)).toBe(true);
  });

  test('a lost catalog is an error, and not an absent run', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(8, 1) } });
    for (const key of keysOf(bucket, 'catalog/')) bucket.remove(key);
    await using after = open(bucket);
    expect(await failure(hasRun(after))).toContain('StoreRegressed');
  });

  test('a signal ends the question', async () => {
    await using manager = open(newBucket());
    expect(await failure(hasRun(manager, { signal: AbortSignal.abort() }))).toContain('Aborted');
  });
});
