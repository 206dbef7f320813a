/** A run without a catalog gets a new one, rebuilt from its manifests. */

import { type CheckpointError, crc32c, type ObjectStore, systemClock } from '@holdfast/core';
import { catalogKey, decodeRecord } from '@holdfast/core/internal/format/index';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS, LateEffects, ManualClock } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { bytes, failure, open } from './memory-run.ts';
import { keysOf, processOn } from './sweep-run.ts';

const content = (version: number) => ({
  [`a/${version}`]: bytes(1000, version),
  b: bytes(2000, version + 50),
});

/** Keys that were lost may be written again. */
function newBucket(): MemoryBucket {
  const mayReuseKey = ({ key }: { key: string }) => key.startsWith('catalog/') || key === 'run.json';
  return new MemoryBucket({ crc32c, mayReuseKey });
}

/** Versions 1 to 3 by one attempt and 4 by a second. The catalog is lost. */
async function lostRun(): Promise<MemoryBucket> {
  const template = await lostRunOnce();
  const bucket = newBucket();
  for (const key of template.keys()) bucket.insert(key, template.find(key)?.bytes ?? bytes(0));
  return bucket;
}

let made: Promise<MemoryBucket> | undefined;

function lostRunOnce(): Promise<MemoryBucket> {
  made ??= makeLostRun();
  return made;
}

async function makeLostRun(): Promise<MemoryBucket> {
  const bucket = newBucket();
  for (const [attempt, versions] of [
    ['job-0', [1, 2, 3]],
    ['job-1', [4]],
  ] as const) {
    const { manager } = processOn(bucket, { attempt });
    for (const version of versions)
      await manager.save({ version, buffers: content(version), metrics: { loss: version } });
    await manager.close();
  }
  loseCatalog(bucket);
  return bucket;
}

function loseCatalog(bucket: MemoryBucket): void {
  for (const key of keysOf(bucket, 'catalog/')) bucket.remove(key);
}

async function rebuild(
  bucket: MemoryBucket,
  { skip, ...options }: Parameters<typeof processOn>[1] & { skip?: readonly string[] } = {},
) {
  const { manager } = processOn(bucket, options);
  try {
    return await manager.admin.rebuildCatalog({ skip });
  } finally {
    await manager.close();
  }
}

async function expectRestorable(bucket: MemoryBucket, versions: readonly number[]) {
  await using manager = open(bucket);
  expect((await manager.list()).map(({ version }) => Number(version))).toEqual(versions.toReversed());
  for (const version of versions) {
    const to = Object.fromEntries(
      Object.entries(content(version)).map(([name, data]) => [name, new Uint8Array(data.length)]),
    );
    await manager.restore({ version, to });
    expect(to).toEqual(content(version));
  }
}

test('every checkpoint is there again, unverified; the next writer takes over and saves above them', async () => {
  const bucket = await lostRun();
  const oldRunId = decodeRecord('run', bucket.find('run.json')?.bytes ?? bytes(0), { key: 'run.json' }).runId;
  const { runId, checkpoints, skipped } = await rebuild(bucket);
  expect(runId).not.toBe(oldRunId);
  expect(skipped).toEqual([]);
  expect(checkpoints.map(({ version, isVerified, isLatest }) => [version, isVerified, isLatest])).toEqual([
    [4n, false, true],
    [3n, false, false],
    [2n, false, false],
    [1n, false, false],
  ]);
  expect(checkpoints[3]).toMatchObject({
    metrics: { loss: 1 },
    sizeBytes: 3000,
    storedBytes: 3000,
    fileCount: 2,
  });
  await expectRestorable(bucket, [1, 2, 3, 4]);

  await using manager = open(bucket);
  const { id } = await manager.save({ version: 5, buffers: content(5) });
  expect(id.epoch).toBe(4); // 1 and 2 existed, 3 belongs to the rebuilt catalog
  await expectRestorable(bucket, [1, 2, 3, 4, 5]);
  expect((await manager.admin.log()).map(({ kind }) => kind)).toEqual(['commit', 'takeover', 'rebuild']);
  expect((await manager.admin.fsck()).isSound).toBe(true);
  expect(bucket.violations).toEqual([]);
});

test('a process of the run as it was can write nothing any more, not even by a request that is late', async () => {
  const bucket = newBucket();
  const lateEffects = new LateEffects();
  const old = processOn(bucket, {
    attempt: 'job-0',
    lateEffects,
    plan: ({ operation, key }) =>
      operation === 'create' && key === catalogKey(3) ? FAULTS.delay : undefined,
  });
  await old.manager.save({ version: 1, buffers: content(1) });
  expect(await failure(old.manager.save({ version: 2, buffers: content(2) }))).toMatch(/^OutcomeUnknown/);
  loseCatalog(bucket);
  const { runId } = await rebuild(bucket);
  await lateEffects.releaseAll();
  expect(keysOf(bucket, catalogKey(3))).toHaveLength(1);
  await using manager = open(bucket);
  await manager.save({ version: 9, buffers: content(9) });
  expect((await manager.latest())?.version).toBe(9n);
  expect(await failure(old.manager.save({ version: 10, buffers: content(10) }))).toMatch(
    new RegExp(`^Corrupt: .*is of run ${runId}`),
  );
  await old.manager.close();
});

test('what lacks a file is left out, and said', async () => {
  const bucket = await lostRun();
  const [payload = ''] = keysOf(bucket, 'version_1/').filter((key) => key.endsWith('/b'));
  bucket.remove(payload);
  const { checkpoints, skipped } = await rebuild(bucket);
  expect(checkpoints.map(({ version }) => version)).toEqual([4n, 3n, 2n]);
  expect(skipped).toEqual([
    {
      key: expect.stringContaining('version_1/1.1/manifest-'),
      reason: `${payload} is missing`,
      isHeld: false,
    },
  ]);
  await expectRestorable(bucket, [2, 3, 4]);
});

test('the run id does not change silently: the result and the log name the former one', async () => {
  const bucket = await lostRun();
  const former = decodeRecord('run', bucket.find('run.json')?.bytes ?? bytes(0), { key: 'run.json' }).runId;
  expect((await rebuild(bucket)).formerRunId).toBe(former);
  await using manager = open(bucket);
  expect((await manager.admin.log())[0]?.reason).toContain(`before, this was run ${former}`);
});

test('run.json that is gone too is written again, with the new id', async () => {
  const bucket = await lostRun();
  bucket.remove('run.json');
  const { runId, formerRunId } = await rebuild(bucket);
  expect(formerRunId).toBeNull();
  const written = decodeRecord('run', bucket.find('run.json')?.bytes ?? bytes(0), { key: 'run.json' });
  expect(written.runId).toBe(runId);
});

test('where there is a catalog it is a Conflict, where there is no manifest NotFound; nothing is written', async () => {
  const bucket = await lostRun();
  await rebuild(bucket);
  const before = bucket.keys();
  expect(await failure(rebuild(bucket))).toMatch(/^Conflict: .*there is a catalog/);
  expect(bucket.keys()).toEqual(before);
  const empty = newBucket();
  expect(await failure(rebuild(empty))).toMatch(/^NotFound: .*it has no manifest/);
  empty.insert(`version_1/1.1/manifest-${'0'.repeat(16)}.json`, bytes(100));
  const skip = empty.keys();
  expect(await failure(rebuild(empty, { skip }))).toMatch(/^NotFound: .*none of the 1 manifests can be used/);
  expect(keysOf(empty, 'catalog/', 'run.json')).toEqual([]);
});

test('two at once, and a writer that finds no catalog: one rebuild wins, the others are told, and no catalog is lost', async () => {
  for (let round = 0; round < 8; round++) {
    const bucket = await lostRun();
    const writer = processOn(bucket, { attempt: 'job-2' });
    const [first, second, joined] = await Promise.allSettled([
      rebuild(bucket),
      rebuild(bucket),
      ...(round % 2 === 0 ? [writer.manager.join()] : []),
    ]);
    await writer.manager.close();
    const lost = [first, second].flatMap((each) =>
      each?.status === 'rejected' ? [String(each.reason)] : [],
    );
    expect(lost).toHaveLength(1);
    expect(lost[0]).toMatch(/is not rebuilt/);
    if (joined?.status === 'rejected')
      expect(String(joined.reason)).toMatch(/the catalog is lost|the mark of a rebuild/);
    await expectRestorable(bucket, [1, 2, 3, 4]);
  }
});

test('I7: a rebuild that stands still at any call, while another is done and a writer commits, replaces nothing', async () => {
  const counted = processOn(await lostRun());
  await counted.manager.admin.rebuildCatalog();
  await counted.manager.close();
  const isListed = (_: number, key: string) => key.includes('/manifest-');
  for (let number = 1; number < counted.store.calls.length; number++) {
    const bucket = await lostRun();
    const storeClock = new ManualClock();
    bucket.clock = storeClock;
    // The other rebuild has listed the run first, so the slow one draws the higher number.
    const other = rebuildThatWaits(isListed, bucket);
    await Promise.race([other.reached, other.told]);
    await storeClock.advance(1000);
    const slow = rebuildThatWaits((count) => count === number, bucket);
    await Promise.race([slow.reached, slow.told]);
    other.goOn();
    expect(await other.told).toMatch(/^rebuilt|is not rebuilt/);
    await using writer = open(bucket, { attempt: 'job-2' });
    const isSaved = await writer.save({ version: 5, buffers: content(5) }).then(
      () => true,
      () => false,
    );
    slow.goOn();
    expect(await slow.told).toMatch(/^rebuilt|^Conflict|^StoreRegressed/);
    await expectRestorable(bucket, isSaved ? [1, 2, 3, 4, 5] : [1, 2, 3, 4]);
    expect(keysOf(bucket, catalogKey(1))).toEqual([]);
    await using next = open(bucket, { attempt: 'job-3' });
    await next.save({ version: 6, buffers: content(6) });
  }
});

/**
 * Waits before the first call for which `isIt` is true. `isIt` gets the number of the call, from 0,
 * and its key or prefix.
 */
function rebuildThatWaits(isIt: (count: number, key: string) => boolean, bucket: MemoryBucket) {
  const { promise: reached, resolve: isReached } = Promise.withResolvers<void>();
  const { promise: released, resolve: goOn } = Promise.withResolvers<void>();
  let count = 0;
  let isDue = true;
  const wait = async (key: string) => {
    if (!isIt(count++, key) || !isDue) return;
    isDue = false;
    isReached();
    await released;
  };
  const change = (below: ObjectStore) => delayed(below, wait);
  // Others act while it waits.
  const { manager } = processOn(bucket, { change, clock: systemClock });
  const told = manager.admin
    .rebuildCatalog()
    .then(
      ({ runId }) => `rebuilt ${runId}`,
      (error: unknown) => `${(error as CheckpointError).code}: ${error}`,
    )
    .finally(() => manager.close());
  return { told, reached, goOn };
}

/** Every call of `store` waits first. */
function delayed(store: ObjectStore, wait: (key: string) => Promise<void>): void {
  const { get, create, deleteMany, list } = MemoryStore.prototype;
  const below = store as MemoryStore;
  below.get = async (...call) => wait(call[0]).then(() => get.apply(below, call));
  below.create = async (...call) => wait(call[0]).then(() => create.apply(below, call));
  below.deleteMany = async (...call) => wait(call[0].join()).then(() => deleteMany.apply(below, call));
  below.list = async function* (...call) {
    await wait(call[0]);
    yield* list.apply(below, call);
  };
}

test('a manifest that is swept while it waits, on the catalog of another rebuild: Conflict, not NotFound', async () => {
  const bucket = await lostRun();
  const slow = rebuildThatWaits((_, key) => key.includes('/manifest-'), bucket);
  await Promise.race([slow.reached, slow.told]);
  await rebuild(bucket);
  await using collector = open(bucket, { clock: systemClock });
  await collector.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
  expect(keysOf(bucket, 'version_1/')).toEqual([]);
  slow.goOn();
  expect(await slow.told).toMatch(/^Conflict: .*there is a catalog/);
});

test('one that dies at any call is gone on with by the next, and a request or a reply that is lost is no matter', async () => {
  const { manager, store } = processOn(await lostRun());
  await manager.admin.rebuildCatalog();
  await manager.close();
  for (let number = 0; number < store.calls.length; number++) {
    for (const name of ['stopBefore', 'stopAfter', 'loseRequest', 'loseReply'] as const) {
      const bucket = await lostRun();
      const done = await rebuild(bucket, {
        plan: (call) => (call.number === number ? FAULTS[name] : undefined),
      }).catch(() => undefined); // it is dead
      if (name.startsWith('lose')) expect(done?.checkpoints).toHaveLength(4);
      // If only its last call got no answer, the rebuild is complete all the same.
      else expect(await rebuild(bucket).then(() => 'done', String)).toMatch(/done|there is a catalog/);
      await expectRestorable(bucket, [1, 2, 3, 4]);
    }
  }
});
