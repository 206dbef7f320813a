import { crc32c, createCheckpointManager } from '@holdfast/core';
import { CheckpointError } from '@holdfast/core/contract';
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
  return { view: new FleetView({ uri: 'memory://v', store }), refused };
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

test('a search that fails as a whole is told, and the runs stay', async () => {
  const view = new FleetView('ftp://nowhere');
  await view.refresh();
  expect(view.problem).toMatchObject({ code: 'InvalidConfig' });
  expect(view.refreshedAtMs).toBeNull();
  await expect(view.refresh(AbortSignal.abort())).rejects.toMatchObject({ code: 'Aborted' });
});
