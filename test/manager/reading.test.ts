import { CheckpointError, type ProgressEvent, type RunManager, systemClock } from '@holdfast/core';
import { catalogKey, encodeRecord } from '@holdfast/core/internal/format/index';
import { EMPTY_STATE } from '@holdfast/core/internal/plan/state';
import { MemoryStore, ObservedStore } from '@holdfast/core/store';
import { FAULTS, FaultyStore } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, readAll } from './memory-run.ts';

describe('bad input is refused before the store is touched', () => {
  const cases: [string, Parameters<RunManager['save']>[0], string][] = [
    ['a version below zero', { version: -1, buffers: { a: bytes(1) } }, 'version -1 cannot be used'],
    [
      'a version that is no integer',
      { version: 1.5, buffers: { a: bytes(1) } },
      'version 1.5 cannot be used',
    ],
    ['no source', { version: 1 }, 'exactly one of'],
    ['two sources', { version: 1, files: {}, buffers: { a: bytes(1) } }, 'exactly one of'],
    ['no file', { version: 1, buffers: {} }, 'no file to save'],
    ['.. in a name', { version: 1, buffers: { '../a': bytes(1) } }, '..'],
    ['an absolute name', { version: 1, buffers: { '/a': bytes(1) } }, '/a'],
    [
      'a name that is a directory of another',
      { version: 1, buffers: { a: bytes(1), 'a/b': bytes(1) } },
      'a/b',
    ],
    [
      'a metric that is no number',
      { version: 1, buffers: { a: bytes(1) }, metrics: { loss: Number.NaN } },
      'finite',
    ],
    [
      'a writer outside its count',
      { version: 1, buffers: { a: bytes(1) }, writer: { index: 4, count: 4 } },
      'no writer 4 of 4',
    ],
    ['a path without local files', { version: 1, files: { a: '/tmp/x' } }, 'without local files'],
  ];
  test.each(cases)('%s', async (_, options, fragment) => {
    const bucket = newBucket();
    await using manager = open(bucket);
    expect(await failure(manager.save(options))).toContain(fragment);
    expect(bucket.keys()).toEqual([]);
  });
});

describe('reading', () => {
  const calls: [string, (run: RunManager, options: { signal: AbortSignal }) => Promise<unknown>][] = [
    ['create', (run, options) => run.create(undefined, options)],
    ['get', (run, options) => run.get(1, options)],
    ['latest', (run, options) => run.latest(options)],
    ['list', (run, options) => run.list(options)],
    ['log', (run, options) => run.admin.log(options)],
    ['begun', (run, options) => run.admin.begun(options)],
  ];
  test.each(calls)('%s: a signal ends it, though the store is silent', async (_, call) => {
    const store = new FaultyStore(new MemoryStore(newBucket()), () => FAULTS.stall);
    await using run = open(newBucket(), { store });
    const controller = new AbortController();
    const calling = failure(call(run, { signal: controller.signal }));
    controller.abort();
    expect(await calling).toContain('Aborted');
  });

  test('an empty run is null and an empty list; restore, commit and verify say NotFound', async () => {
    await using manager = open(newBucket());
    expect([await manager.latest(), await manager.list(), await manager.admin.log()]).toEqual([null, [], []]);
    expect(await failure(manager.restore({ to: { a: bytes(1) } }))).toContain('NotFound');
    expect(await failure(manager.commit())).toContain('NotFound: there is no run');
    expect(await failure(manager.admin.verify())).toContain('NotFound');
  });

  test('damage: restore names file, range, expected and found; fallback takes the newest that verifies and says which it skipped', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(200_000, 1) } });
    await manager.save({ version: 2, buffers: { a: bytes(200_000, 2) } });
    const key = bucket.keys().find((each) => each.startsWith('version_2/') && each.endsWith('/a')) as string;
    bucket.damage(key, (data) => data.with(70_000, (data[70_000] as number) ^ 1));
    const to = { a: new Uint8Array(200_000) };
    const message = await failure(manager.restore({ to }));
    expect(message).toMatch(
      /Corrupt: version 2 is damaged: .*a.*65,536–131,071.*expected.*found.*the next older one is 1/,
    );
    const restored = await manager.restore({ to, onCorrupt: 'fallback' });
    expect(restored).toMatchObject({ version: 1n, skipped: [{ version: 2n }] });
    expect(Buffer.compare(to.a, bytes(200_000, 1))).toBe(0);
    const report = await manager.admin.verify();
    expect(report.problems).toHaveLength(1);
    expect((await manager.admin.verify({ level: 0 })).problems[0]?.message).toContain('checksum');
  });

  test('verify finds a missing object without reading a payload byte', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(100), b: bytes(100) } });
    bucket.remove(bucket.keys().find((key) => key.endsWith('/b')) as string);
    const report = await manager.admin.verify({ level: 0 });
    expect(report).toMatchObject({ bytesRead: 0, problems: [{ name: 'b' }] });
  });

  test('a damaged manifest and a damaged catalog entry are Corrupt', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(100) } });
    const flip = (data: Uint8Array) => data.with(200, (data[200] as number) ^ 4);
    bucket.damage(bucket.keys().find((key) => key.includes('manifest-')) as string, flip);
    expect(await failure(manager.restore({ to: { a: new Uint8Array(100) } }))).toContain(
      'does not match its checksum',
    );
    bucket.damage(bucket.keys().findLast((key) => key.startsWith('catalog/')) as string, flip);
    await using fresh = open(bucket);
    expect(await failure(fresh.latest())).toContain('Corrupt');
  });

  test('a catalog that shows less than before is StoreRegressed', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(100) } });
    bucket.remove(bucket.keys().findLast((key) => key.startsWith('catalog/')) as string);
    expect(await failure(manager.latest())).toContain('StoreRegressed');
  });

  test.each(['Denied', 'ReadOnly', 'StorageFull'] as const)(
    'a store that cannot be written (%s) can be restored from, without a lease and with a warning',
    async (code) => {
      const bucket = newBucket();
      await using writer = open(bucket);
      await writer.save({ version: 1, buffers: { a: bytes(100) } });
      const store = new MemoryStore(bucket);
      store.create = () => Promise.reject(new CheckpointError(code, 'no'));
      const warnings: string[] = [];
      const logger = { log: (level: string, message: string) => level === 'warn' && warnings.push(message) };
      await using reader = open(bucket, { store, logger });
      const to = { a: new Uint8Array(100) };
      await reader.restore({ to });
      expect(Buffer.compare(to.a, bytes(100))).toBe(0);
      expect(warnings.join()).toContain('no read lease');
    },
  );

  test('a restore leaves nothing, not even its lease', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(100) } });
    const before = bucket.keys();
    await manager.restore({ to: { a: new Uint8Array(100) } });
    await readAll((await manager.latest())?.openInputStream('a') as ReadableStream);
    expect(bucket.keys()).toEqual(before);
  });

  test('the log tells who did what, newest first', async () => {
    const bucket = newBucket();
    await using manager = open(bucket, { attempt: 'job-7', process: { host: 'node-3', pid: 42 } });
    await manager.save({ version: 1, buffers: { a: bytes(1) } });
    const log = await manager.admin.log();
    expect(log.map((entry) => entry.kind)).toEqual(['commit', 'takeover']);
    expect(log[0]).toMatchObject({
      attempt: 'job-7',
      process: { host: 'node-3', pid: 42 },
      checkpoints: [{ version: 1n }],
    });
    expect(await failure(manager.admin.log({ limit: 0 }))).toContain('InvalidArgument');
  });

  test('a closed manager stops what is under way and says so: what was delivered, others may commit', async () => {
    const bucket = newBucket();
    const manager = open(bucket, { attempt: 'job', writer: { index: 0, count: 2 } });
    const waiting = Promise.withResolvers<void>();
    const onProgress = ({ type }: ProgressEvent) => type === 'waiting' && waiting.resolve();
    const saving = failure(manager.save({ version: 1, buffers: { a: bytes(1) }, onProgress }));
    await waiting.promise;
    await manager.close();
    expect(await saving).toContain('OutcomeUnknown: it is not known whether version 1 was committed');
    await manager.close();
  });
});

describe('requests', () => {
  test('latest: at most two; commit after the last receipt: at most five beside listings of the version', async () => {
    const bucket = newBucket();
    await using peer = open(bucket, { attempt: 'job', writer: { index: 1, count: 2 } });
    const calls: string[] = [];
    const store = new ObservedStore(new MemoryStore(bucket), {
      clock: systemClock,
      onCall: ({ operation, key }) => calls.push(`${operation} ${key}`),
    });
    await using last = open(bucket, { store, attempt: 'job', writer: { index: 0, count: 2 } });
    const files = (prefix: string) =>
      Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`${prefix}${i}`, bytes(8)]));
    await peer.save({ version: 1, buffers: files('p'), noWait: true });
    await last.save({ version: 1, buffers: files('l') });
    const receipt = calls.findIndex((call) => call.startsWith('create') && call.includes('/receipts/'));
    const after = calls
      .slice(receipt + 1)
      .filter((call) => !call.startsWith('list version_') && !call.startsWith('get version_'));
    expect(after.length, after.join('\n')).toBeLessThanOrEqual(5);

    const countLatest = async () => {
      calls.length = 0;
      await open(bucket, { store }).latest();
      return calls.length;
    };
    // Entries 2 and 3 follow entry 1, whose key may also hold the mark of a rebuild.
    for (const version of [2, 3]) {
      expect(await countLatest(), calls.join('\n')).toBeLessThanOrEqual(3);
      await peer.save({ version, buffers: files('p'), noWait: true });
      await last.save({ version, buffers: files('l') });
    }
    expect(await countLatest(), calls.join('\n')).toBeLessThanOrEqual(2);
  });

  test('latest, list and a save in a run of 1,000 versions with 1,000 writers each: two requests, and a commit as cheap as ever', async () => {
    const bucket = newBucket();
    // Earlier entries are never read.
    for (const seq of [1231, 1232, 1233]) bucket.insert(catalogKey(seq), bytes(1));
    bucket.insert('catalog/00000000000000001234.json', thousandVersions());
    const calls: string[] = [];
    const store = new ObservedStore(new MemoryStore(bucket), {
      clock: systemClock,
      onCall: ({ operation, key }) => calls.push(`${operation} ${key}`),
    });
    await using manager = open(bucket, { store });
    expect((await manager.latest())?.version).toBe(1000n);
    expect(calls, calls.join('\n')).toHaveLength(2);
    expect(await manager.list()).toHaveLength(1000);
    expect((await manager.save({ buffers: { a: bytes(10) } })).version).toBe(1001n);
  });
});

/**
 * A catalog entry as such a run has it. The contents of each checkpoint are in its manifest, so the
 * number of writers does not affect the entry.
 */
function thousandVersions(): Uint8Array {
  const checkpoints = Array.from({ length: 1000 }, (_, index) => ({
    id: { lineage: 1, epoch: 1, version: BigInt(index + 1) },
    manifestKey: `version_${index + 1}/1.1/manifest-0123456789abcdef.json`,
    manifestSha256: new Uint8Array(32).fill(index),
    sizeBytes: 1e12,
    fileCount: 1000,
    metrics: { loss: 1 / (index + 1) },
    state: 'LIVE' as const,
    retiringSeq: 0,
    pins: [],
    verified: false,
    suspect: false,
    reason: '',
    committedAtMs: 1_800_000_000_000 + index,
    bases: [],
    rolledBack: false,
    retiringAtMs: 0,
    graceMs: 0,
    storedBytes: 1e12,
    annotatedMetadata: {},
  }));
  const id = checkpoints[999]?.id as { lineage: number; epoch: number; version: bigint };
  const state = {
    ...EMPTY_STATE,
    epoch: 1,
    attempt: 'job',
    worldSize: 1000,
    latest: id,
    top: 1000n,
    checkpoints,
  };
  return encodeRecord('catalog-entry', {
    format: undefined,
    runId: '0123456789abcdef0123456789abcdef',
    seq: 1234,
    entryId: 'f'.repeat(32),
    parentId: 'e'.repeat(32),
    transaction: {
      id: 'd'.repeat(32),
      kind: 'commit',
      lineage: 1,
      epoch: 1,
      checkpoint: id,
      checkpoints: [],
      reason: '',
      host: 'node-1',
      pid: 1,
      atMs: 1_800_000_001_000,
      attempt: 'job',
    },
    state,
  }).bytes;
}
