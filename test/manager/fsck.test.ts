/**
 * fsck compares catalog and objects. It reports everything that is missing, damaged, left over or
 * foreign, and nothing else.
 */

import { CheckpointError, type ObjectStore, systemClock } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { keysOf, LARGE_BYTES, processOn, runWithGarbage } from './sweep-run.ts';

async function check(bucket: Parameters<typeof processOn>[0], options?: Parameters<typeof processOn>[1]) {
  const { manager, store } = processOn(bucket, options);
  try {
    const result = await manager.admin.fsck();
    const writes = store.calls.filter(
      ({ operation }) => !['list', 'listUploads', 'get', 'resumeUpload', 'listParts'].includes(operation),
    );
    expect(writes).toEqual([]);
    expect(
      store.calls.filter(({ operation, key }) => operation === 'get' && /-[0-9a-f]+\/w\d/.test(key)),
    ).toEqual([]);
    return result;
  } finally {
    await manager.close();
  }
}

/** Kind and key of each problem. */
async function told(bucket: Parameters<typeof processOn>[0], options?: Parameters<typeof processOn>[1]) {
  const { problems } = await check(bucket, options);
  return problems.map(({ kind, key, objectCount }) => `${kind} ${objectCount} ${key}`);
}

async function cleanRun(versions = [1, 2]) {
  const bucket = newBucket();
  const { manager } = processOn(bucket);
  for (const version of versions)
    await manager.save({ version, buffers: { 'w0/a': bytes(300, version), 'w0/b': bytes(500, 9) } });
  await manager.close();
  return bucket;
}

const only = (keys: readonly string[], part: string) => keys.find((key) => key.includes(part)) ?? '';

test('a run that is as it should be is sound, and its figures are those of the store', async () => {
  const bucket = await cleanRun();
  expect(await check(bucket)).toEqual({
    checkpointCount: 2,
    objectCount: bucket.keys().length,
    totalBytes: bucket.keys().reduce((sum, key) => sum + (bucket.find(key)?.bytes.length ?? 0), 0),
    problems: [],
    isSound: true,
    skippedManifests: [],
  });
});

describe('a checkpoint that is damaged', () => {
  test('without a manifest no garbage is told, until it is quarantined: then what was sent for it is known to stay', async () => {
    const bucket = await runWithGarbage();
    const { manager } = processOn(bucket, { attempt: 'job-1' });
    await manager.join();
    bucket.remove(only(keysOf(bucket, 'version_1/'), '/manifest-'));
    const kinds = async () => (await check(bucket)).problems.map(({ kind, id }) => `${kind} ${id?.version}`);
    expect(await kinds()).not.toContain('garbage 2');
    await manager.admin.verify({ version: 1, quarantine: true });
    await manager.close();
    const found = await kinds();
    expect(found).toEqual(expect.arrayContaining(['missing 1', 'garbage 2']));
    expect(found).not.toContain('garbage 1');
  });

  test('a file that is gone is missing from every checkpoint that refers to it', async () => {
    const bucket = await cleanRun([1, 2, 3]);
    const key = only(keysOf(bucket, 'version_2/'), '/w0/b');
    bucket.remove(key);
    const { problems, isSound } = await check(bucket);
    expect(isSound).toBe(false);
    expect(problems.map(({ kind, key: of, id, message }) => [kind, of, id?.version, message])).toEqual([
      ['missing', key, 2n, `w0/b of version 2: ${key} is missing`],
      ['missing', key, 3n, `w0/b of version 3: ${key} is missing`],
    ]);
  });

  test('a file of another size', async () => {
    const bucket = await cleanRun();
    const key = only(keysOf(bucket, 'version_2/'), '/w0/a');
    bucket.damage(key, (data) => data.subarray(0, 299));
    const { problems } = await check(bucket);
    expect(problems).toMatchObject([
      { kind: 'missing', key, message: expect.stringContaining('has 299 bytes; the records say 300') },
    ]);
  });

  test('a receipt that is altered or gone', async () => {
    const bucket = await cleanRun();
    const altered = only(keysOf(bucket, 'version_1/'), 'receipts');
    const gone = only(keysOf(bucket, 'version_2/'), 'receipts');
    bucket.damage(altered, (data) => data.fill(0, 100, 101));
    bucket.remove(gone);
    expect(await told(bucket)).toEqual([`damaged 1 ${altered}`, `damaged 1 ${gone}`]);
  });

  test('a manifest that is altered or gone: nothing is called garbage, because it is not known what it holds', async () => {
    const bucket = await runWithGarbage();
    await using next = processOn(bucket, { attempt: 'job-1' }).manager;
    await next.join();
    const key = only(keysOf(bucket, 'version_1/'), 'manifest');
    bucket.damage(key, (data) => data.fill(0, 100, 101));
    const kinds = (await told(bucket)).map((each) => each.split(' ')[0]);
    expect(kinds).toEqual(['damaged', 'abandoned-upload']);
    bucket.remove(key);
    expect((await told(bucket))[0]).toBe(`missing 1 ${key}`);
  });

  test('many files that are gone: ten are named, the rest are counted', async () => {
    const bucket = newBucket();
    const { manager } = processOn(bucket);
    await manager.save({
      version: 1,
      buffers: Object.fromEntries(Array.from({ length: 15 }, (_, at) => [`w0/${at}`, bytes(10, at)])),
    });
    await manager.close();
    for (const key of keysOf(bucket, 'version_1/').filter((each) => each.includes('/w0/')))
      bucket.remove(key);
    const { problems } = await check(bucket);
    expect(problems.map(({ objectCount }) => objectCount)).toEqual([...Array(10).fill(1), 5]);
    expect(problems.at(-1)).toMatchObject({ sizeBytes: 50, message: expect.stringMatching(/^and 5 more/) });
  });
});

test('what a dead attempt has left is unfinished, and garbage once its epoch has passed; a sweep takes all of it', async () => {
  const bucket = await runWithGarbage();
  const left = keysOf(bucket, 'version_2/');
  expect(await told(bucket)).toEqual([`unfinished ${left.length} ${left[0]}`]);
  const { manager } = processOn(bucket, { attempt: 'job-1' });
  await manager.join();
  const { problems, isSound } = await check(bucket);
  expect(isSound).toBe(true);
  expect(
    problems.map(({ kind, objectCount, sizeBytes }) => [
      kind,
      objectCount,
      kind === 'abandoned-upload' && sizeBytes,
    ]),
  ).toEqual([
    ['garbage', left.length, false],
    ['garbage', 2, false],
    ['abandoned-upload', 1, LARGE_BYTES],
  ]);
  await manager.admin.collect();
  await manager.close();
  expect((await check(bucket)).problems).toEqual([]);
});

test("keys that are not Holdfast's are foreign, wherever they lie; elections are not", async () => {
  const bucket = await cleanRun();
  const foreign = ['version_1/notes.txt', 'catalog/old.json', 'leases/x', 'notes.txt', 'uploads/x.json'];
  for (const key of foreign) bucket.insert(key, bytes(3));
  bucket.insert('elections/00000000000000000001.json', bytes(3));
  const { problems, isSound } = await check(bucket);
  expect(isSound).toBe(true);
  expect(problems.map(({ kind, key }) => [kind, key]).sort()).toEqual(
    foreign.map((key) => ['foreign', key]).sort(),
  );
});

/** A store that knows none of the upload tokens in the run. */
class OtherStore extends MemoryStore {
  override async resumeUpload(): Promise<never> {
    throw new CheckpointError('InvalidArgument', 'it is not a token of this store');
  }
}

test('the record of an upload of another store is foreign, and hides nothing else', async () => {
  const bucket = await runWithGarbage();
  const { manager } = processOn(bucket, { attempt: 'job-1' });
  await manager.join();
  await manager.close();
  const key = keysOf(bucket, 'uploads/')[0] as string;
  bucket.remove(keysOf(bucket, 'version_1/').find((each) => each.includes('/w0/')) as string);
  await using other = open(bucket, { store: new OtherStore(bucket) });
  const { problems, isSound } = await other.admin.fsck();
  expect(isSound).toBe(false);
  expect(problems.map(({ kind }) => kind)).toEqual(['missing', 'garbage', 'garbage', 'foreign']);
  expect(problems.at(-1)?.message).toContain(`${key} is the record of an upload of another store`);
});

test('a record of an upload that has ended is garbage', async () => {
  const bucket = await runWithGarbage();
  const [key] = keysOf(bucket, 'uploads/');
  await using next = processOn(bucket, { attempt: 'job-1' }).manager;
  await next.join();
  for (const { token } of bucket.openUploads()) bucket.endUpload(token);
  expect(await told(bucket)).toContain(`garbage 1 ${key}`);
});

test('what is committed or removed while it looks is no problem', async () => {
  const bucket = await cleanRun();
  // The test's clock cannot see what the other process does.
  const busy = processOn(bucket, { clock: systemClock, retention: { keepLast: 1, graceMs: 0 } }).manager;
  let isDone = false;
  const meanwhile = (when: 'before' | 'after') => (store: ObjectStore) => {
    const list = store.list.bind(store);
    store.list = (prefix, options) =>
      (async function* () {
        const isCatalog = prefix === 'catalog/' && !isDone;
        if (isCatalog) isDone = true;
        if (isCatalog && when === 'before')
          await busy.save({ version: 3, buffers: { 'w0/a': bytes(300, 3) } });
        yield* list(prefix, options);
        if (isCatalog && when === 'after') await busy.admin.collect({ force: true });
      })();
  };
  // The process that saved took the run over, so the former attempt's claim is garbage.
  expect(await told(bucket, { clock: systemClock, change: meanwhile('before') })).toEqual([
    'garbage 1 writers/1.1/0.0.json',
  ]);
  isDone = false;
  await busy.save({ version: 4, buffers: { 'w0/a': bytes(300, 4) } });
  expect((await check(bucket, { clock: systemClock, change: meanwhile('after') })).isSound).toBe(true);
  expect(isDone).toBe(true);
  await busy.close();
});

test('without a catalog it is NotFound, and StoreRegressed if there is a manifest', async () => {
  expect(await failure(check(newBucket()))).toMatch(/^NotFound: .*no catalog and no manifest/);
  const bucket = await cleanRun();
  for (const key of keysOf(bucket, 'catalog/')) bucket.remove(key);
  expect(await failure(check(bucket))).toMatch(
    /^StoreRegressed: .*the catalog is lost, so nothing was checked$/,
  );
});

test('an older catalog that was restored is StoreRegressed', async () => {
  const bucket = await cleanRun();
  await using next = open(bucket);
  await next.join();
  bucket.remove(keysOf(bucket, 'catalog/').at(-1) ?? '');
  expect(await failure(check(bucket))).toMatch(/^StoreRegressed: .*only at lineage 1, epoch 1/);
});
