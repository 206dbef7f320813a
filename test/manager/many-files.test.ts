/**
 * Checkpoints whose files do not fit into one record: receipts with file lists, and manifests that
 * refer to receipts.
 */

import { createCheckpointManager, isCheckpointError, type RunManager, systemClock } from '@holdfast/core';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore, ObservedStore, type StoreCall } from '@holdfast/core/store';
import { FAULTS } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { checkInvariants, viewOfBucket } from '../crash/invariants.ts';
import { openMany, partsOf, saveMany } from './many-files.ts';
import { failure, newBucket, open, readAll, SETTINGS } from './memory-run.ts';

const keysOf = (bucket: MemoryBucket, part: string) => bucket.keys().filter((key) => key.includes(part));
const only = (bucket: MemoryBucket, part: string) => keysOf(bucket, part)[0] ?? '';
function read(bucket: MemoryBucket, kind: 'manifest' | 'receipt', key: string) {
  return decodeRecord(kind, bucket.find(key)?.bytes ?? new Uint8Array(0), { key });
}

/** Names and bytes of a checkpoint. */
async function restored(manager: RunManager, version?: number): Promise<Record<string, Uint8Array>> {
  const checkpoint = version === undefined ? await manager.latest() : await manager.get(version);
  const { files = [] } = (await checkpoint?.details()) ?? {};
  const to = Object.fromEntries(files.map(({ name, sizeBytes }) => [name, new Uint8Array(sizeBytes)]));
  await manager.restore({ version: version ?? 'latest', to });
  return to;
}

const all = (writers: number, files: number, seed = 1) =>
  Object.assign({}, ...Array.from({ length: writers }, (_, writer) => partsOf(writer, files, seed)));

describe('a checkpoint of many files', () => {
  test('lies in lists beside the receipts, to which the manifest refers; each says what it holds', async () => {
    const bucket = newBucket();
    await saveMany(bucket, { writers: 2 });
    expect(keysOf(bucket, '/files/').map((key) => key.replace(/-[0-9a-f]{16}/, ''))).toEqual([
      ...Array(3).fill('version_1/1.1/files/0.0.json'),
      ...Array(3).fill('version_1/1.1/files/1.0.json'),
    ]);
    const receipt = read(bucket, 'receipt', 'version_1/1.1/receipts/1.0.json');
    expect(receipt).toMatchObject({ files: [], format: { major: 2 } });
    const counts = { fileCount: 10, sizeBytes: 30 };
    expect(read(bucket, 'manifest', only(bucket, '/manifest-'))).toMatchObject({
      writers: [],
      receipts: [
        { ...counts, firstName: 'w0/part-00', lastName: 'w0/part-09' },
        { ...counts, firstName: 'w1/part-00', lastName: 'w1/part-09' },
      ],
    });
  });

  test('is listed, shown, read and restored as any other, by a manager with other limits too', async () => {
    const bucket = newBucket();
    const metrics = { loss: 0.5 };
    for (const index of [0, 1, 2]) {
      const { manager } = openMany(bucket, { attempt: 'job', writer: { index, count: 3 } });
      const meta = index === 1 ? { metrics, metadata: { note: 'one' } } : {};
      await manager.save({ version: 1, buffers: partsOf(index, 10), noWait: true, ...meta });
    }
    for (const manager of [openMany(bucket).manager, open(bucket)]) {
      expect(await manager.list()).toMatchObject([
        { fileCount: 30, sizeBytes: 90, storedBytes: 90, metrics },
      ]);
      const checkpoint = await manager.latest();
      const details = await checkpoint?.details();
      expect(details).toMatchObject({ worldSize: 3, metadata: { note: 'one' } });
      expect(details?.files.map(({ name, writer }) => [name, writer])).toEqual(
        Object.keys(all(3, 10)).map((name) => [name, Number(name[1])]),
      );
      expect(await restored(manager)).toEqual(all(3, 10));
      const stream = checkpoint?.openInputStream('w2/part-07');
      expect(stream && (await readAll(stream))).toEqual(Buffer.of(2, 7, 1));
      expect(await failure(Promise.resolve(checkpoint?.openSource('w2/part-77')))).toContain('NotFound');
    }
  });

  test('is restored in part by reading no more records than may hold the names', async () => {
    const bucket = newBucket();
    await saveMany(bucket, { writers: 5 });
    const { manager, calls } = openMany(bucket);
    const to = { 'w3/part-05': new Uint8Array(3) };
    expect(await manager.restore({ to })).toMatchObject({ fileCount: 1, sizeBytes: 3 });
    expect(to).toEqual({ 'w3/part-05': Uint8Array.of(3, 5, 1) });
    const records = () => calls.filter(({ operation, key }) => operation === 'get' && key.includes('.json'));
    const read = () => records().flatMap(({ key }) => /(manifest|receipts|files)/.exec(key)?.[0] ?? []);
    expect(read()).toEqual(['manifest', 'receipts', 'files']);
    calls.length = 0;
    const names: string[] = [];
    const target = {
      open: async ({ name }: { name: string }) => {
        names.push(name);
        return { writeAt: async () => undefined, close: async () => undefined };
      },
      publish: async () => undefined,
      discard: async () => undefined,
    };
    await manager.restore({ to: target, only: ['w4/part-0[12]', './w1/**'] });
    expect(names.sort()).toEqual(['w4/part-01', 'w4/part-02', ...Object.keys(partsOf(1, 10))].sort());
    expect(read().filter((part) => part === 'receipts')).toHaveLength(2);
    expect(await failure(manager.restore({ to: target, only: ['w4/x*'] }))).toMatch(
      /^NotFound: no file matches "w4\/x\*"; there are: .*\(50 in all\)/,
    );
    for (const only of [
      ['nope', 'w1/part-01'],
      ['w1/part-01', 'w4/x*', 'nope'],
    ]) {
      names.length = 0;
      const first = only.find((glob) => glob !== 'w1/part-01');
      expect(await failure(manager.restore({ to: target, only }))).toContain(
        `NotFound: no file matches "${first}"; there are: `,
      );
      expect(names).toEqual([]);
    }
    expect(await failure(manager.restore({ to: target, only: [] }))).toBe(
      'InvalidArgument: only is an array; it takes at least one',
    );
    expect(await failure(manager.restore({ to: { 'w9/x': new Uint8Array(1) } }))).toContain('no file "w9/x"');
  });

  test('keeps what a writer says: a second save is the same, or refused', async () => {
    const bucket = newBucket();
    await saveMany(bucket);
    const { manager } = openMany(bucket, { attempt: 'job', writer: { index: 1, count: 3 } });
    expect(await manager.save({ version: 1, buffers: partsOf(1, 10) })).toMatchObject({
      wasCommittedBefore: true,
    });
    const others = { ...partsOf(1, 10), 'w1/part-09': Uint8Array.of(9) };
    expect(await failure(manager.save({ version: 1, buffers: others }))).toContain('with other content');
  });

  test('that was delivered before stands with its lists: the same content is taken, other content is a conflict', async () => {
    const bucket = newBucket();
    const { manager } = openMany(bucket, { attempt: 'job', writer: { index: 1, count: 2 } });
    const save = (buffers: Record<string, Uint8Array>) => manager.save({ version: 1, buffers, noWait: true });
    await save(partsOf(1, 10));
    expect(await save(partsOf(1, 10))).toMatchObject({ isCommitted: false, missingWriters: [0] });
    expect(await failure(save({ ...partsOf(1, 10), 'w1/part-11': Uint8Array.of(1) }))).toContain('Conflict');
    await saveMany(bucket, { writers: 2 });
    expect(await restored(openMany(bucket).manager)).toEqual(all(2, 10));
  });

  test('two writers that deliver one name, or a file and a directory with one, are refused', async () => {
    for (const [name, clash] of [
      ['w0/part-03', 'writers 0 and 1 both delivered "w0/part-03"'],
      ['w0/part-03/x', 'writer 0 delivered "w0/part-03" as a file, writer 1 as a directory ("w0/part-03/x")'],
    ] as const) {
      const bucket = newBucket();
      const save = async (index: number, buffers: Record<string, Uint8Array>) => {
        const { manager } = openMany(bucket, { attempt: 'job', writer: { index, count: 2 } });
        return manager.save({ version: 1, buffers, noWait: true });
      };
      await save(0, partsOf(0, 10));
      expect(await failure(save(1, { ...partsOf(1, 10), [name]: Uint8Array.of(1) }))).toBe(
        `Conflict: version 1 cannot be committed: ${clash}`,
      );
    }
  });

  test('a payload that is missing or has another size prevents the commit', async () => {
    const bucket = newBucket();
    await saveMany(bucket, { writers: 2 });
    const two = openMany(bucket, { attempt: 'job', writer: { index: 0, count: 2 } });
    await two.manager.save({ version: 2, buffers: partsOf(0, 10, 2), noWait: true });
    bucket.remove(keysOf(bucket, '/w0/part-09').find((key) => key.startsWith('version_2/')) ?? '');
    const one = openMany(bucket, { attempt: 'job', writer: { index: 1, count: 2 } });
    expect(await failure(one.manager.save({ version: 2, buffers: partsOf(1, 10, 2), noWait: true }))).toMatch(
      /^Corrupt: version 2 cannot be committed: w0\/part-09 .* but is missing$/,
    );
  });
});

describe('I0 to I10: the store', () => {
  test.each(['stopBefore', 'stopAfter', 'loseRequest', 'loseReply', 'duplicate', 'delay'] as const)(
    'that meets %s at each call of a save leaves a run that is right, and a survivor commits what was delivered',
    async (fault) => {
      for (let at = 0; at < 60; at += 7) {
        const bucket = newBucket();
        let count = 0;
        const plan = () => (count++ === at ? FAULTS[fault] : undefined);
        const { manager } = openMany(bucket, { attempt: 'job', writer: { index: 0, count: 1 }, plan });
        const buffers = { ...partsOf(0, 6), 'w0/tag': new TextEncoder().encode('job') };
        const outcome = await manager.save({ version: 1, buffers }).then(
          () => 'committed',
          (error: unknown) => (isCheckpointError(error) ? error.code : String(error)),
        );
        await manager.close();
        await openMany(bucket)
          .manager.commit({ version: 1 })
          .catch(() => undefined);
        const told = { attempt: 'job', writer: 0, version: 1n, outcome };
        const isKnown = outcome === 'committed' || outcome === 'OutcomeUnknown';
        await checkInvariants(viewOfBucket(bucket), isKnown ? [told] : [], () => buffers);
        if (outcome === 'committed') expect(await restored(openMany(bucket).manager)).toEqual(buffers);
      }
    },
  );
});

test('40,000 files of one writer, with the limits of every day, are committed, and one is restored by three requests', async () => {
  const bucket = newBucket();
  const manager = open(bucket);
  const names = Array.from({ length: 40_000 }, (_, index) => `layers/${index % 100}/part-${index}.bin`);
  const buffers = Object.fromEntries(names.map((name, index) => [name, Uint8Array.of(index, index >> 8)]));
  await manager.save({ version: 1, buffers, dedupe: 'off' });
  expect(keysOf(bucket, '/files/').length).toBeGreaterThan(5);
  for (const key of [
    ...keysOf(bucket, '/files/'),
    ...keysOf(bucket, '/receipts/'),
    only(bucket, '/manifest-'),
  ])
    expect(bucket.find(key)?.bytes.length).toBeLessThan(1.1 * 1024 * 1024);
  const calls: StoreCall[] = [];
  const store = new ObservedStore(new MemoryStore(bucket), {
    clock: systemClock,
    onCall: (call) => calls.push(call),
  });
  const to = { 'layers/77/part-30077.bin': new Uint8Array(2) };
  await createCheckpointManager({ store, settings: SETTINGS }).restore({ to });
  expect(Object.values(to)).toEqual([Uint8Array.of(30_077 & 255, 30_077 >> 8)]);
  const isOfVersion = ({ operation, key }: StoreCall) => operation === 'get' && key.startsWith('version_1/');
  expect(calls.filter(isOfVersion)).toHaveLength(3);
}, 240_000);
