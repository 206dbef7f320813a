/**
 * An unreadable manifest stops a rebuild. If the caller skips it, all objects it may refer to are
 * held from every sweep until they are released.
 */

import { createHash } from 'node:crypto';
import { crc32c, type ObjectStore } from '@holdfast/core';
import { MemoryBucket } from '@holdfast/core/store';
import { FAULTS, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, open } from './memory-run.ts';
import { keysOf, processOn } from './sweep-run.ts';

const CHECKSUM_END = 85;
/** Unchanged in every version, so later versions refer to the bytes of the first. */
const SAME = bytes(2000, 99);

function newBucket(): MemoryBucket {
  const mayReuseKey = ({ key }: { key: string }) => /^(catalog|version_|run.json)/.test(key);
  return new MemoryBucket({ crc32c, mayReuseKey });
}

/**
 * Version 1 sends all files, 2 and 3 refer to them. Version 0, after which it was hashed, is
 * removed. The catalog is lost.
 */
async function lostRun(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using manager = open(bucket, { attempt: 'job-0' });
  for (const version of [0, 1, 2, 3])
    await manager.save({ version, buffers: { own: bytes(1000, version), same: SAME } });
  await manager.admin.collect({ policy: { keepLast: 3, graceMs: 0 }, force: true });
  loseCatalog(bucket);
  return bucket;
}

function loseCatalog(bucket: MemoryBucket): void {
  for (const key of keysOf(bucket, 'catalog/')) bucket.remove(key);
}

function manifestOf(bucket: MemoryBucket, version: number): string {
  return keysOf(bucket, `version_${version}/`).find((key) => key.includes('/manifest-')) ?? '';
}

/** Rewrites the manifest as a Holdfast of a newer major version would. Resolves to its key. */
function makeNewer(bucket: MemoryBucket, version: number): string {
  const key = manifestOf(bucket, version);
  const text = new TextDecoder().decode(bucket.find(key)?.bytes);
  const tail = text.slice(CHECKSUM_END).replace(/"major":\d+/, '"major":99');
  const head = `{"checksum":"sha256:${createHash('sha256').update(tail).digest('hex')}"`;
  const sha256 = createHash('sha256')
    .update(head + tail)
    .digest('hex');
  bucket.remove(key);
  const newer = key.replace(/manifest-[0-9a-f]+/, `manifest-${sha256.slice(0, 16)}`);
  bucket.insert(newer, new TextEncoder().encode(head + tail));
  return newer;
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

/** Names of a version's remaining payloads, without receipts, file lists and manifests. */
function payloadsOf(bucket: MemoryBucket, version: number): string[] {
  return keysOf(bucket, `version_${version}/`)
    .filter((key) => !/\/(receipts|files)\/|\/manifest-/.test(key))
    .map((key) => key.slice(key.lastIndexOf('/') + 1))
    .sort();
}

/**
 * Two new jobs save versions 7 and 8. Retention keeps both: the newest, and the one that the last
 * job resumed from.
 */
async function saveAndCollect(bucket: MemoryBucket): Promise<void> {
  for (const version of [7, 8]) {
    await using writer = open(bucket, { attempt: `job-${version}` });
    await writer.save({ version, buffers: { own: bytes(1000, version) }, dedupe: 'off' });
  }
  await using collector = open(bucket);
  await collector.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
}

describe('a manifest that cannot be read stops the rebuild, which names it and writes nothing', () => {
  test.each([
    ['of a newer major', 'UnsupportedFormat', /written by a newer Holdfast/],
    ['damaged', 'Corrupt', /does not match the checksum in its name/],
    ['gone between list and read', 'NotFound', /version_3/],
  ])('%s', async (what, code, reason) => {
    const bucket = await lostRun();
    const key = what === 'of a newer major' ? makeNewer(bucket, 3) : manifestOf(bucket, 3);
    if (what === 'damaged') bucket.damage(key, (data) => data.fill(0, 90, 91));
    const isGone = what.startsWith('gone');
    const plan = (call: { operation: string; key: string }) =>
      isGone && call.operation === 'get' && call.key === key ? refuse('NotFound') : undefined;
    const before = bucket.keys();
    const error = await rebuild(bucket, { plan }).catch((each: unknown) => each);
    expect(error).toMatchObject({ code, context: { key, unreadable: [key] } });
    expect(String(error)).toContain(key);
    expect(String(error)).toMatch(reason);
    expect(error).toMatchObject({ context: { advice: [expect.stringContaining('with `skip`')] } });
    expect(bucket.keys()).toEqual(before);
  });

  test('when the store does not answer for one: the error is that of the store, and a repetition reads it', async () => {
    const bucket = await lostRun();
    const key = manifestOf(bucket, 2);
    const plan = (call: { operation: string; key: string }) =>
      call.operation === 'get' && call.key === key ? FAULTS.loseReply : undefined;
    expect(await failure(rebuild(bucket, { plan, settings: { retryCountMax: 1 } }))).toMatch(
      new RegExp(`^Unavailable: .*is not rebuilt.*${key}`),
    );
    expect((await rebuild(bucket)).checkpoints.map(({ version }) => version)).toEqual([3n, 2n, 1n]);
  });

  test('when the store answers for none, it is not asked for each', async () => {
    const bucket = await lostRun();
    const asked = new Set<string>();
    const plan = (call: { operation: string; key: string }) => {
      if (call.operation !== 'get' || !call.key.includes('/manifest-')) return undefined;
      asked.add(call.key);
      return FAULTS.loseReply;
    };
    const change = (below: ObjectStore) =>
      void Object.assign(below, { capabilities: { ...below.capabilities, preferredConcurrency: 1 } });
    expect(await failure(rebuild(bucket, { plan, change }))).toMatch(/^Unavailable: .*is not rebuilt/);
    expect(asked.size).toBe(1);
  });

  test('unless a later manifest proves that it was never committed', async () => {
    const bucket = await lostRun();
    const key = makeNewer(bucket, 3);
    bucket.insert(`version_2/1.7/manifest-${'0'.repeat(16)}.json`, bytes(1));
    const skip = [`version_2/1.7/manifest-${'0'.repeat(16)}.json`];
    const { checkpoints, skipped } = await rebuild(bucket, { skip });
    expect(checkpoints.map(({ version }) => version)).toEqual([1n]);
    expect(skipped).toContainEqual({
      key,
      reason: expect.stringContaining('never committed'),
      isHeld: false,
    });
  });
});

describe('skipped as asked', () => {
  test('it is told in the result and in the log, and fsck names it', async () => {
    const bucket = await lostRun();
    const key = makeNewer(bucket, 3);
    const { checkpoints, skipped } = await rebuild(bucket, { skip: [key] });
    expect(checkpoints.map(({ version }) => version)).toEqual([2n, 1n]);
    expect(skipped).toEqual([{ key, reason: expect.stringContaining('newer Holdfast'), isHeld: true }]);
    await using manager = open(bucket);
    expect((await manager.admin.log())[0]).toMatchObject({
      kind: 'rebuild',
      reason: expect.stringContaining(key),
    });
    const { skippedManifests, problems } = await manager.admin.fsck();
    expect(skippedManifests).toEqual([key]);
    expect(problems.filter(({ kind }) => kind === 'skipped')).toEqual([
      expect.objectContaining({ kind: 'skipped', id: expect.objectContaining({ version: 3n }) }),
    ]);
  });

  test('I1: no sweep deletes its objects, nor those of older versions that it may refer to, until it is released', async () => {
    const bucket = await lostRun();
    const key = makeNewer(bucket, 3);
    await rebuild(bucket, { skip: [key] });
    await saveAndCollect(bucket);
    expect([1, 2, 3].map((version) => payloadsOf(bucket, version))).toEqual([
      ['own', 'same'],
      ['own'],
      ['own'],
    ]);
    expect(bucket.keys()).toContain(key);

    await using manager = open(bucket);
    expect((await manager.list()).map(({ version }) => version)).toEqual([8n, 7n]);
    await manager.admin.releaseSkipped(key);
    expect((await manager.admin.log())[0]).toMatchObject({ kind: 'release', reason: key });
    expect((await manager.admin.fsck()).skippedManifests).toEqual([]);
    await manager.admin.collect({ policy: { keepLast: 1 } });
    expect([1, 2, 3, 8].map((version) => payloadsOf(bucket, version))).toEqual([[], [], [], ['own']]);
  });

  test('newer versions are not held: they were committed after it', async () => {
    const bucket = await lostRun();
    const key = makeNewer(bucket, 2);
    await rebuild(bucket, { skip: [key] });
    await saveAndCollect(bucket);
    expect([1, 2, 3].map((version) => payloadsOf(bucket, version))).toEqual([['own', 'same'], ['own'], []]);
  });

  test('a rebuild that another process goes on with skips the same, and says so', async () => {
    const bucket = await lostRun();
    const key = makeNewer(bucket, 3);
    let isMarked = false;
    const plan = ({ operation, key: each }: { operation: string; key: string }) => {
      if (operation !== 'create' || !each.startsWith('catalog/')) return undefined;
      if (isMarked) return FAULTS.stopBefore;
      isMarked = true;
      return undefined;
    };
    await rebuild(bucket, { skip: [key], plan }).catch(() => undefined); // it is dead
    expect((await rebuild(bucket)).skipped).toEqual([
      { key, reason: expect.stringContaining('when this rebuild began'), isHeld: true },
    ]);
    await using manager = open(bucket);
    expect((await manager.admin.fsck()).skippedManifests).toEqual([key]);
  });

  test('what could be read after all is not skipped; what is no manifest is refused', async () => {
    const bucket = await lostRun();
    const logged: string[] = [];
    const logger = { log: (_: string, message: string) => void logged.push(message) };
    const skip = [manifestOf(bucket, 3)];
    expect(await failure(rebuild(bucket, { skip: ['version_3/1.1/manifest-x.json'] }))).toMatch(
      /^InvalidArgument: version_3\/1.1\/manifest-x.json, to be skipped, is not a manifest of/,
    );
    const { checkpoints, skipped } = await rebuild(bucket, { skip, logger });
    expect([checkpoints.length, skipped]).toEqual([3, []]);
    expect(logged.join('\n')).toContain(`${skip[0]} is not skipped, because this time it could be read`);
  });

  test('releasing what is not held is a Conflict that names what is', async () => {
    const bucket = await lostRun();
    const key = makeNewer(bucket, 3);
    await rebuild(bucket, { skip: [key] });
    await using manager = open(bucket);
    const other = key.replace('version_3', 'version_2');
    expect(await failure(manager.admin.releaseSkipped(other))).toMatch(
      new RegExp(`^Conflict: .*is not a skipped manifest; .*${key}$`),
    );
    await manager.admin.releaseSkipped(key);
    expect(await failure(manager.admin.releaseSkipped(key))).toMatch(
      /^Conflict: .*a rebuild skipped these: nothing$/,
    );
  });
});

test('a rebuilt catalog of many versions has pages, like any other', async () => {
  const bucket = await lostRun();
  const settings = { entryCheckpointsMax: 2 };
  const { checkpoints } = await rebuild(bucket, { settings });
  expect(checkpoints.map(({ version }) => version)).toEqual([3n, 2n, 1n]);
  expect(keysOf(bucket, 'pages/')).toHaveLength(1);
  await using manager = open(bucket, { settings });
  expect((await manager.list()).map(({ version }) => version)).toEqual([3n, 2n, 1n]);
  expect((await manager.admin.fsck()).isSound).toBe(true);
});
