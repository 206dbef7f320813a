import { createHash } from 'node:crypto';
import type { CheckpointError, RunManager } from '@holdfast/core';
import {
  type CatalogEntry,
  decodeRecord,
  encodeRecord,
  type Manifest,
  manifestKey,
} from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

type State = CatalogEntry['state'];
type Checkpoint = State['checkpoints'][number];

async function savedRun(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using manager = open(bucket);
  for (const version of [1, 2, 3])
    await manager.save({ version, buffers: { a: bytes(100, version), b: bytes(10) } });
  return bucket;
}

/** Rewrites the newest entry with a correct checksum. */
function changeState(bucket: MemoryBucket, change: (state: State) => State): void {
  const key = bucket.keys().findLast((each) => each.startsWith('catalog/')) as string;
  bucket.damage(key, (old) => {
    const entry = decodeRecord('catalog-entry', old, { key });
    return encodeRecord('catalog-entry', { ...entry, state: change(entry.state) }).bytes;
  });
}

function changeNewest(bucket: MemoryBucket, change: (checkpoint: Checkpoint) => Partial<Checkpoint>): void {
  changeState(bucket, (state) => ({
    ...state,
    checkpoints: state.checkpoints.map((each, index, { length }) =>
      index === length - 1 ? { ...each, ...change(each) } : each,
    ),
  }));
}

test('an entry of another run hides nothing and deletes nothing', async () => {
  const bucket = await savedRun();
  const other = newBucket();
  const entriesOf = (each: MemoryBucket) => each.keys().filter((key) => key.startsWith('catalog/'));
  const newest = entriesOf(bucket).length;
  for (let attempt = 0; entriesOf(other).length <= newest; attempt++) {
    await using manager = open(other, { attempt: `killed-${attempt}` });
    await manager.join();
  }
  const foreign = entriesOf(other)[newest] as string;
  bucket.insert(foreign, other.find(foreign)?.bytes as Uint8Array);
  const before = bucket.keys();
  for (const call of [
    (manager: RunManager) => manager.latest(),
    (manager: RunManager) => manager.join(),
    (manager: RunManager) => manager.save({ version: 9, buffers: { a: bytes(10) } }),
    (manager: RunManager) => manager.admin.fsck(),
    (manager: RunManager) => manager.admin.collect({ policy: { keepLast: 1 }, force: true }),
    (manager: RunManager) => manager.admin.setRetention({ keepLast: 1 }),
  ]) {
    await using manager = open(bucket, { attempt: 'next' });
    expect(await failure(call(manager))).toMatch(
      /^Corrupt: catalog\/0+\d+\.json is of run \w+, and .* is of run/,
    );
  }
  expect(bucket.keys()).toEqual(before);
  const error: unknown = await open(bucket)
    .latest()
    .catch((failure: unknown) => failure);
  const advice = (error as CheckpointError).context['advice'] as string[];
  expect(advice.join('; ')).toMatch(/copy everything below .* before you move anything; find out which/);
  bucket.remove(foreign);
  await using manager = open(bucket);
  expect((await manager.latest())?.version).toBe(3n);
});

test('the rules of another run are not applied', async () => {
  const bucket = await savedRun();
  const other = newBucket();
  {
    await using manager = open(other, { retention: { keepLast: 1, graceMs: 0 } });
    await manager.save({ version: 1, buffers: { a: bytes(10) } });
  }
  bucket.damage('run.json', () => other.find('run.json')?.bytes as Uint8Array);
  {
    await using manager = open(bucket, { attempt: 'next' });
    await manager.save({ version: 4, buffers: { a: bytes(10, 4) } });
    expect(await failure(manager.admin.collect({ force: true }))).toMatch(
      /^Corrupt: run\.json is of run \w+, and the catalog is of run \w+: its retention rules are not applied/,
    );
  }
  await using manager = open(bucket, { attempt: 'next' });
  expect((await manager.list()).map(({ version }) => version)).toEqual([4n, 3n, 2n, 1n]);
  await manager.admin.setRetention({ keepLast: 2 });
  expect(await manager.admin.retention()).toMatchObject({ keepLast: 2 });
});

describe('an entry whose checksum is right, and that contradicts itself, is damage', () => {
  const id = { lineage: 1, epoch: 1, version: 9n };

  test.each<[string, (state: State) => State, string]>([
    ['a latest that is not there', (state) => ({ ...state, latest: id }), 'its latest, 1.1.9, is not among'],
    [
      'a highest version below its checkpoints',
      (state) => ({ ...state, top: 2n }),
      'its highest version is 2, and 1.1.3 is',
    ],
    [
      'a latest below the newest',
      (state) => ({ ...state, latest: state.checkpoints[0]?.id }),
      'its latest is 1.1.1, and 1.1.3 is newer',
    ],
    ['no latest', (state) => ({ ...state, latest: undefined }), 'it names no latest, and 1.1.3 is live'],
    [
      'one checkpoint twice',
      (state) => ({ ...state, checkpoints: state.checkpoints.flatMap((each) => [each, each]) }),
      'not in order of commit: 1.1.1 stands before 1.1.1',
    ],
    [
      'checkpoints in another order',
      (state) => ({ ...state, checkpoints: [...state.checkpoints].reverse() }),
      'not in order of commit: 1.1.3 stands before 1.1.2',
    ],
  ])('%s', async (_name, change, message) => {
    const bucket = await savedRun();
    changeState(bucket, change);
    await using manager = open(bucket);
    for (const call of [manager.latest(), manager.admin.collect({ policy: { keepLast: 1 } })]) {
      expect(await failure(call)).toMatch(/^Corrupt: /);
    }
    expect(await failure(manager.latest())).toContain(message);
    // By this the advice tells damage of the catalog from damage of a checkpoint.
    await expect(manager.latest()).rejects.toMatchObject({ context: { catalog: 'newest' } });
  });

  test.each<[string, Partial<Checkpoint>]>([
    ['retiring', { state: 'RETIRING', retiringSeq: 5, retiringAtMs: 1 }],
    ['quarantined', { state: 'QUARANTINED', reason: 'bytes differ' }],
    ['left behind', { rolledBack: true }],
  ])('a latest that is %s', async (_name, changes) => {
    const bucket = await savedRun();
    changeNewest(bucket, () => changes);
    await using manager = open(bucket);
    expect(await failure(manager.latest())).toContain('is not live, or was left behind by a rollback');
  });
});

describe('a manifest that is not what the catalog says is damage', () => {
  function changeManifest(bucket: MemoryBucket, change: (manifest: Manifest) => Partial<Manifest>): void {
    changeNewest(bucket, ({ id, manifestKey: old }) => {
      const manifest = decodeRecord('manifest', bucket.find(old)?.bytes as Uint8Array, { key: old });
      const encoded = encodeRecord('manifest', { ...manifest, ...change(manifest) });
      const sha256 = new Uint8Array(createHash('sha256').update(encoded.bytes).digest());
      const key = manifestKey(id, sha256);
      bucket.insert(key, encoded.bytes);
      return { manifestKey: key, manifestSha256: sha256 };
    });
  }

  test.each<[string, (manifest: Manifest) => Partial<Manifest>, string]>([
    ['no writer', () => ({ writers: [] }), 'it has the files of 0 writers of 1'],
    ['one writer of two', () => ({ worldSize: 2 }), 'it has the files of 1 writers of 2'],
    [
      'a receipt elsewhere',
      ({ writers }) => ({ writers: writers.map((share) => ({ ...share, receiptKey: '../../x' })) }),
      'the entry of writer 0 is not from its receipt',
    ],
    [
      'a file less',
      ({ writers }) => ({ writers: writers.map((share) => ({ ...share, files: share.files.slice(1) })) }),
      'it lists 1 files of 10 bytes, and the catalog says 2 of 110',
    ],
  ])('%s', async (_name, change, message) => {
    const bucket = await savedRun();
    changeManifest(bucket, change);
    await using manager = open(bucket);
    const restore = manager.restore({ to: { a: new Uint8Array(100), b: new Uint8Array(10) } });
    expect(await failure(restore)).toContain(message);
    const report = await manager.admin.verify({ version: 3, level: 0 });
    expect(report.problems.map((problem) => problem.message).join()).toContain(message);
  });

  test('sizes that only the catalog has', async () => {
    const bucket = await savedRun();
    const most = Number.MAX_SAFE_INTEGER;
    changeNewest(bucket, () => ({ fileCount: most, sizeBytes: most, storedBytes: most }));
    await using manager = open(bucket);
    const restore = manager.restore({ to: { a: new Uint8Array(100), b: new Uint8Array(10) } });
    expect(await failure(restore)).toContain(`the catalog says ${most} of ${most}`);
  });
});

describe('an older catalog was restored', () => {
  const save = (manager: RunManager) => manager.save({ buffers: { a: bytes(10) } });

  /** A run of three attempts, whose catalog is then as it was after the first of them. */
  async function outlivedRun(later: (manager: RunManager) => Promise<unknown>) {
    const bucket = await savedRun();
    const known = bucket.keys();
    for (const attempt of ['second', 'third']) {
      await using manager = open(bucket, { attempt });
      await later(manager);
      await save(manager);
    }
    for (const key of bucket.keys())
      if (key.startsWith('catalog/') && !known.includes(key)) bucket.remove(key);
    return bucket;
  }

  const stories: [string, (manager: RunManager) => Promise<unknown>][] = [
    ['attempts were lost', async () => undefined],
    [
      'a rollback and the attempts after it were lost',
      (manager) => manager.admin.rollback({ to: 1, reason: 'r' }),
    ],
  ];
  const decisions: [string, (manager: RunManager) => Promise<unknown>][] = [
    ['save', save],
    ['rollback', (manager) => manager.admin.rollback({ to: 1, reason: 'r' })],
    ['pin', (manager) => manager.admin.pin(1, 'kept')],
    ['annotate', (manager) => manager.admin.annotate(1, { metrics: { loss: 1 } })],
    ['setRetention', (manager) => manager.admin.setRetention({ keepLast: 1 })],
    ['verify', (manager) => manager.admin.verify({ version: 3, quarantine: true })],
    ['collect', (manager) => manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true })],
  ];
  const cases = stories.flatMap(([story, later]) =>
    decisions.map(([name, call]) => [story, name, later, call] as const),
  );

  test.each(cases)('%s: %s is StoreRegressed and writes nothing', async (_, name, later, call) => {
    const bucket = await outlivedRun(later);
    const before = bucket.keys().filter((key) => !key.startsWith('leases/'));
    await using manager = open(bucket, { attempt: 'next' });
    if (name === 'verify')
      expect(await manager.admin.verify({ version: 3 })).toMatchObject({ recorded: 'none' });
    else expect(await failure(call(manager))).toMatch(/^StoreRegressed: .*only at lineage 1, epoch 1/);
    expect(bucket.keys().filter((key) => !key.startsWith('leases/'))).toEqual(before);
  });

  test('an attempt that begins while the claims are listed is no regression', async () => {
    const bucket = await savedRun();
    const store = new MemoryStore(bucket);
    const list = store.list.bind(store);
    let begun = false;
    store.list = async function* (prefix, ...rest) {
      if (prefix === 'writers/' && !begun) {
        begun = true;
        await using other = open(bucket, { attempt: 'other' });
        await other.join();
      }
      yield* list(prefix, ...rest);
    };
    await using manager = open(bucket, { store });
    await manager.admin.pin(1, 'kept');
    expect([begun, (await manager.list()).find((each) => each.version === 1n)?.pins]).toEqual([
      true,
      ['kept'],
    ]);
  });
});

test('a damaged run.json is told by fsck, stops what needs its rules, and is replaced by rules that are set', async () => {
  const bucket = newBucket();
  const retention = { keepLast: 2, graceMs: 0 };
  await using first = open(bucket, { attempt: 'job', retention });
  for (const version of [1, 2, 3]) await first.save({ version, buffers: { a: bytes(10, version) } });
  await first.close();
  bucket.damage('run.json', (data) => data.with(9, 0));

  await using upkeep = open(bucket);
  const { isSound, problems } = await upkeep.admin.fsck();
  expect([isSound, problems]).toMatchObject([false, [{ kind: 'damaged', key: 'run.json', id: null }]]);
  const error: unknown = await upkeep.admin.collect().catch((failure: unknown) => failure);
  expect(error).toMatchObject({ code: 'Corrupt', context: { key: 'run.json' } });
  expect((error as CheckpointError).context['advice']).toContainEqual(
    expect.stringMatching(/^set the retention rules/),
  );

  await using next = open(bucket, { attempt: 'job', retention });
  await next.save({ version: 4, buffers: { a: bytes(10, 4) } });
  await next.close();
  await using after = open(bucket);
  expect((await after.list()).map(({ version }) => version)).toEqual([4n, 3n]);
  bucket.remove('run.json');
  expect((await after.admin.fsck()).isSound).toBe(true);
  expect(await after.admin.retention()).toMatchObject(retention);
});
