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

/** A listing that never answers, until the signal fires. */
async function* silent(signal: AbortSignal | undefined): AsyncGenerator<never, void, void> {
  await new Promise((_, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
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
      verifiedCommittedAtMs: null,
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

  test('a run that does not answer is unreachable after its time, and the others are given before', async () => {
    const bucket = newBucket();
    for (const run of ['a', 'b', 'c']) await save(bucket, run, 1);
    const store = new MemoryStore(bucket);
    const list = store.list.bind(store);
    store.list = (prefix, options) =>
      prefix.startsWith('b/') ? silent(options?.signal) : list(prefix, options);
    const runs = await found(store, { runTimeoutMs: 200 });
    expect([...runs].map(([name, { state }]) => [name, state])).toEqual([
      ['a', 'ok'],
      ['c', 'ok'],
      ['b', 'unreachable'],
    ]);
    expect(runs.get('b')).toMatchObject({ latest: null, asOfMs: null });
  });

  test('a store that answers no more is not asked for each of its runs', async () => {
    const bucket = newBucket();
    for (let run = 10; run < 40; run++) bucket.insert(`r${run}/catalog/x`, new Uint8Array(1));
    const store = new MemoryStore(bucket);
    let asked = 0;
    const list = store.list.bind(store);
    store.list = (prefix, options) => {
      if (!prefix.startsWith('r')) return list(prefix, options);
      asked += 1;
      throw new CheckpointError('Unavailable', 'gone');
    };
    const runs = await found(store, { concurrency: 4, runTimeoutMs: 50 });
    expect(runs.size).toBe(30);
    expect(new Set([...runs.values()].map(({ state }) => state))).toEqual(new Set(['unreachable']));
    const notAsked = [...runs.values()].filter(({ problem }) => problem?.message.startsWith('not asked'));
    expect(notAsked.length).toBeGreaterThan(15);
    expect(asked).toBeGreaterThan(0);
  });

  test('the caller may stop at any time, by its signal or by leaving the loop', async () => {
    const bucket = newBucket();
    await save(bucket, 'a', 1);
    const store = new MemoryStore(bucket);
    store.list = (_, options) => silent(options?.signal);
    await expect(found(store, { signal: AbortSignal.timeout(50) })).rejects.toMatchObject({
      name: expect.stringMatching(/Error/),
    });
    const whole = new MemoryStore(bucket);
    for await (const run of fleetOf([{ uri: 'memory://fleet', store: whole }])) {
      expect(run.name).toBe('a');
      break;
    }
    expect((await whole.head('a/run.json')).key).toBe('a/run.json');
  });

  test.each([
    [{ concurrency: 0 }, 'concurrency'],
    [{ runTimeoutMs: 1.5 }, 'runTimeoutMs'],
    [{ depthMax: 33 }, 'depthMax'],
    [{ histroyMs: 1 }, 'histroyMs'],
  ])('options %j are refused by name', async (options, name) => {
    await expect(found(new MemoryStore(newBucket()), options as FleetOptions)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining(name),
    });
  });

  test('a URI that is not accepted is refused before any run is given', async () => {
    const first = fleetOf(['memory://x', 'ftp://y']).next();
    await expect(first).rejects.toMatchObject({ code: 'InvalidConfig' });
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
