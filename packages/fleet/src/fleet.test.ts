import { crc32c, createCheckpointManager } from '@holdfast/core';
import { CheckpointError, type ObjectStore } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore, ObservedStore, StoreBelow } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { type FleetOptions, fleetOf, type RunSummary } from './index.ts';

const newBucket = () => new MemoryBucket({ crc32c });

/** A store that writes below a prefix. */
function writable(bucket: MemoryBucket, run: string): ObjectStore {
  const store = new MemoryStore(bucket);
  const below = new StoreBelow(store, { prefix: `${run}/`, uri: run });
  below.create = ((key: string, ...rest: [Uint8Array]) => store.create(`${run}/${key}`, ...rest)) as never;
  below.beginUpload = ((key: string, ...rest: [never]) =>
    store.beginUpload(`${run}/${key}`, ...rest)) as never;
  return below;
}

async function save(bucket: MemoryBucket, run: string, ...versions: number[]): Promise<void> {
  await using manager = createCheckpointManager({ store: writable(bucket, run) });
  for (const version of versions) await manager.save({ version, buffers: { a: new Uint8Array(100) } });
}

async function found(store: ObjectStore, options: FleetOptions = {}): Promise<Map<string, RunSummary>> {
  const runs = new Map<string, RunSummary>();
  for await (const run of fleetOf([{ uri: 'memory://fleet', store }], options)) {
    expect(JSON.parse(JSON.stringify(run))).toEqual(run);
    runs.set(run.name, run);
  }
  return runs;
}

describe('fleetOf', () => {
  test('gives every run at any depth, with its facts', async () => {
    const bucket = newBucket();
    await save(bucket, 'gpt', 1, 2);
    await save(bucket, 'team/vision/resnet', 7);
    await new MemoryStore(bucket).create('notes/today.txt', new Uint8Array(3));
    const runs = await found(new MemoryStore(bucket));
    expect([...runs.keys()].sort()).toEqual(['gpt', 'team/vision/resnet']);
    expect(runs.get('gpt')).toMatchObject({
      uri: 'memory://fleet/gpt',
      state: 'ok',
      problem: null,
      latest: { version: '2', sizeBytes: 100, fileCount: 1 },
      writerCount: 1,
      retainedCount: 2,
      retiringCount: 0,
      storedBytes: 200,
      referencedBytes: 0,
      epoch: 1,
      recentAttemptCount: 1,
      recentFenceCount: 0,
      verifiedVersion: null,
      savesInProgress: null,
    });
  });

  test('a damaged and a forbidden run do not affect the others', async () => {
    const bucket = newBucket();
    for (const run of ['a', 'b', 'c', 'd']) await save(bucket, run, 1);
    const key = bucket.keys().findLast((each) => each.startsWith('b/catalog/')) as string;
    bucket.damage(key, (bytes) => bytes.fill(0, 30, 40));
    for (const each of bucket.keys()) if (each.startsWith('d/catalog/')) bucket.remove(each);
    const store = new MemoryStore(bucket);
    const list = store.list.bind(store);
    store.list = (prefix, options) => {
      if (prefix.startsWith('c/')) throw new CheckpointError('Denied', 'not for you');
      return list(prefix, options);
    };
    const runs = await found(store);
    expect([...runs].sort().map(([name, { state, problem }]) => [name, state, problem?.code])).toEqual([
      ['a', 'ok', undefined],
      ['b', 'damaged', 'Corrupt'],
      ['c', 'denied', 'Denied'],
      ['d', 'damaged', 'StoreRegressed'],
    ]);
    expect(runs.get('c')).toMatchObject({ latest: null, asOfMs: null, storedBytes: null });
  });

  test('costs two list requests and a read or two for each run, and reads nothing inside it', async () => {
    const bucket = newBucket();
    for (const run of ['a', 'b', 'c']) await save(bucket, run, 1, 2, 3);
    const calls: string[] = [];
    const store = new ObservedStore(new MemoryStore(bucket), {
      clock: {
        nowMs: Date.now,
        monotonicMs: () => performance.now(),
        sleep: () => Promise.resolve(),
      } as never,
      onCall: ({ operation, key }) => calls.push(`${operation} ${key}`),
    });
    await found(store);
    for (const run of ['a', 'b', 'c'])
      expect(calls.filter((call) => call.includes(` ${run}/`))).toEqual([
        `list ${run}/catalog/`,
        expect.stringMatching(`^get ${run}/catalog/`),
      ]);
  });
});
