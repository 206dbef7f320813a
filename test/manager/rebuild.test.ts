/** A run whose catalog is gone gets another, from its manifests. */

import { crc32c } from '@holdfast/core';
import { catalogKey, decodeRecord } from '@holdfast/core/internal/format/index';
import { MemoryBucket } from '@holdfast/core/store';
import { FAULTS, LateEffects } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { bytes, failure, open } from './memory-run.ts';
import { keysOf, processOn } from './sweep-run.ts';

const content = (version: number) => ({
  [`a/${version}`]: bytes(1000, version),
  b: bytes(2000, version + 50),
});

/** What is lost may be written again. */
function newBucket(): MemoryBucket {
  const mayReuseKey = ({ key }: { key: string }) => key.startsWith('catalog/') || key === 'run.json';
  return new MemoryBucket({ crc32c, mayReuseKey });
}

/** Versions 1 to 3 by one attempt, 4 by a second; its catalog is gone. */
async function lostRun(): Promise<MemoryBucket> {
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

async function rebuild(bucket: MemoryBucket, options?: Parameters<typeof processOn>[1]) {
  const { manager } = processOn(bucket, options);
  try {
    return await manager.rebuildCatalog();
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
  expect(id.epoch).toBe(4); // 1 and 2 were, 3 is the rebuilt catalog's own
  await expectRestorable(bucket, [1, 2, 3, 4, 5]);
  expect((await manager.log()).map(({ kind }) => kind)).toEqual(['commit', 'takeover', 'rebuild']);
  expect((await manager.fsck()).isSound).toBe(true);
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

test('what is damaged or was never committed is left out, and said', async () => {
  const bucket = await lostRun();
  const [payload = ''] = keysOf(bucket, 'version_1/').filter((key) => key.endsWith('/b'));
  const [manifest = ''] = keysOf(bucket, 'version_2/').filter((key) => key.includes('manifest'));
  bucket.remove(payload);
  bucket.damage(manifest, (data) => data.fill(0, 90, 91));
  const { checkpoints, skipped } = await rebuild(bucket);
  expect(checkpoints.map(({ version }) => version)).toEqual([4n, 3n]);
  expect(skipped).toEqual([
    { key: manifest, reason: expect.stringContaining('does not match the checksum in its name') },
    { key: expect.stringContaining('version_1/1.1/manifest-'), reason: `${payload} is missing` },
  ]);
  await expectRestorable(bucket, [3, 4]);
});

test('run.json that is gone too is written again, with the new id', async () => {
  const bucket = await lostRun();
  bucket.remove('run.json');
  const { runId } = await rebuild(bucket);
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
  expect(await failure(rebuild(empty))).toMatch(/^NotFound: .*none of the 1 manifests can be used/);
  expect(keysOf(empty, 'catalog/', 'run.json')).toEqual([]);
});

test('two at once, and a writer that finds no catalog: one of them has its way, the others are told, and no catalog is lost', async () => {
  for (let round = 0; round < 8; round++) {
    const bucket = await lostRun();
    const writer = processOn(bucket, { attempt: 'job-2' });
    const all = await Promise.allSettled([
      rebuild(bucket),
      rebuild(bucket),
      ...(round % 2 === 0 ? [writer.manager.join()] : []),
    ]);
    await writer.manager.close();
    const won = all.slice(0, 2).filter(({ status }) => status === 'fulfilled');
    const lost = all.slice(0, 2).flatMap((each) => (each.status === 'rejected' ? [String(each.reason)] : []));
    for (const reason of lost) expect(reason).toMatch(/is not rebuilt/);
    expect(won.length).toBeLessThanOrEqual(1);
    if (round % 2 === 1) expect(won).toHaveLength(1);
    if (won.length === 1) await expectRestorable(bucket, [1, 2, 3, 4]);
  }
});

test('one that dies at any call is gone on with by the next, and a request or a reply that is lost is no matter', async () => {
  const { manager, store } = processOn(await lostRun());
  await manager.rebuildCatalog();
  await manager.close();
  for (let number = 0; number < store.calls.length; number++) {
    for (const name of ['stopBefore', 'stopAfter', 'loseRequest', 'loseReply'] as const) {
      const bucket = await lostRun();
      const done = await rebuild(bucket, {
        plan: (call) => (call.number === number ? FAULTS[name] : undefined),
      }).catch(() => undefined); // it is dead
      if (name.startsWith('lose')) expect(done?.checkpoints).toHaveLength(4);
      // When only its last call was not answered, it is done all the same.
      else expect(await rebuild(bucket).then(() => 'done', String)).toMatch(/done|there is a catalog/);
      await expectRestorable(bucket, [1, 2, 3, 4]);
    }
  }
});
