import { crc32c, createCheckpointManager } from '@holdfast/core';
import { CheckpointError, systemClock } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { FleetView } from './index.ts';

/** A bucket with the run `r` below `team/`: the objects of a run, moved there. */
async function withRun() {
  const own = new MemoryBucket({ crc32c });
  await using manager = createCheckpointManager({ store: new MemoryStore(own) });
  await manager.save({ version: 3, buffers: { a: new Uint8Array(10) } });
  const bucket = new MemoryBucket({ crc32c });
  const source = new MemoryStore(own);
  const insert = async (key: string) => {
    const { bytes } = await source.get(key, { maxBytes: 1e6 });
    bucket.insert(`team/r/${key}`, bytes);
  };
  for (const key of own.keys()) await insert(key);
  return bucket;
}

function viewOf(bucket: MemoryBucket) {
  const store = new MemoryStore(bucket);
  const refused = new Set<string>();
  const [list, listDirectories] = [store.list.bind(store), store.listDirectories.bind(store)];
  const check = (prefix: string) => {
    if ([...refused].some((each) => prefix.startsWith(each))) throw new CheckpointError('Denied', 'no');
  };
  store.list = (prefix, options) => {
    check(prefix);
    return list(prefix, options);
  };
  store.listDirectories = (prefix, options) => {
    check(prefix);
    return listDirectories(prefix, options);
  };
  let nowMs = 1000;
  const clock = { ...systemClock, nowMs: () => nowMs++ };
  return { view: new FleetView({ uri: 'memory://v', store }, { clock }), refused };
}

test('a run that cannot be read any more keeps its last known facts, with their time', async () => {
  const { view, refused } = viewOf(await withRun());
  await view.refresh();
  const [before] = view.runs;
  expect(before).toMatchObject({ state: 'ok', latest: { version: '3' } });
  for (const prefix of ['team/r/', 'team/']) {
    refused.add(prefix);
    await view.refresh();
    const run = view.runs.find(({ name }) => name === 'team/r');
    expect(run).toMatchObject({
      state: 'denied',
      problem: { code: 'Denied' },
      latest: { version: '3' },
      asOfMs: before?.asOfMs,
    });
  }
  refused.clear();
  await view.refresh();
  expect(view.runs.map(({ name, state }) => [name, state])).toEqual([['team/r', 'ok']]);
});

test('a run that is gone is dropped', async () => {
  const bucket = await withRun();
  const { view } = viewOf(bucket);
  await view.refresh();
  expect(view.runs).toHaveLength(1);
  for (const key of bucket.keys()) bucket.remove(key);
  await view.refresh();
  expect(view.runs).toEqual([]);
  expect(view.problem).toBeNull();
});

test('a place that cannot be listed is a search that failed, and no run; its runs stay', async () => {
  const { view, refused } = viewOf(await withRun());
  refused.add('');
  await view.refresh();
  expect(view.problem).toEqual({ code: 'Denied', message: 'no' });
  expect([view.runs, view.refreshedAtMs]).toEqual([[], null]);
  refused.clear();
  await view.refresh();
  expect([view.problem, view.refreshedAtMs]).toEqual([null, expect.any(Number)]);
  const { refreshedAtMs } = view;
  refused.add('');
  await view.refresh();
  expect([view.problem?.code, view.refreshedAtMs]).toEqual(['Denied', refreshedAtMs]);
  expect(view.runs.map(({ name, state, latest }) => [name, state, latest?.version])).toEqual([
    ['team/r', 'denied', '3'],
  ]);
});

test('a place that is a run keeps its facts when it cannot be read; a damaged one is no failed search', async () => {
  const bucket = new MemoryBucket({ crc32c });
  await using manager = createCheckpointManager({ store: new MemoryStore(bucket) });
  await manager.save({ version: 3, buffers: { a: new Uint8Array(10) } });
  const { view, refused } = viewOf(bucket);
  await view.refresh();
  refused.add('');
  await view.refresh();
  expect(view.problem?.code).toBe('Denied');
  expect(view.runs).toMatchObject([{ name: '', state: 'denied', latest: { version: '3' } }]);
  refused.clear();
  const newest = bucket.keys().findLast((key) => key.startsWith('catalog/')) as string;
  bucket.damage(newest, (bytes) => bytes.fill(0, 30, 40));
  const { view: later } = viewOf(bucket);
  await later.refresh();
  expect(later.problem).toBeNull();
  expect(later.runs).toMatchObject([{ name: '', state: 'damaged', problem: { code: 'Corrupt' } }]);
});

test('a bucket that does not exist is no damaged run', async () => {
  const store = new MemoryStore(new MemoryBucket({ crc32c }));
  store.list = () => {
    throw new CheckpointError('NotFound', 'names a bucket that does not exist');
  };
  const view = new FleetView({ uri: 'memory://v', store });
  await view.refresh();
  expect([view.problem?.code, view.runs]).toEqual(['NotFound', []]);
});

test('a search that fails as a whole is told, and the runs stay', async () => {
  const view = new FleetView('ftp://nowhere');
  await view.refresh();
  expect(view.problem).toMatchObject({ code: 'InvalidConfig' });
  expect(view.refreshedAtMs).toBeNull();
  await expect(view.refresh(AbortSignal.abort())).rejects.toMatchObject({ code: 'Aborted' });
});
