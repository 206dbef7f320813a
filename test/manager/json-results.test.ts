/**
 * Every result of the library can be passed to `JSON.stringify`: bigints are written as decimal
 * strings.
 */

import {
  CheckpointError,
  crc32c,
  jsonReady,
  type ProgressEvent,
  type RestoreTarget,
  type RunManager,
} from '@holdfast/core';
import { MemoryBucket } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { bytes, newBucket, open } from './memory-run.ts';
import { safetensors } from './safetensors-bytes.ts';

const HIGH = 2n ** 63n - 2n;
const TENSORS = safetensors({ w: { shape: [4], data: bytes(4) } });

const nothing = async () => undefined;
const NOWHERE: RestoreTarget = {
  open: async () => ({ writeAt: nothing, close: nothing }),
  publish: nothing,
  discard: nothing,
};

/** Throws if a part cannot be written, or if its JSON shows another number than the value. */
function assertJson(value: unknown): void {
  if (typeof value === 'bigint') throw new Error('a bigint that no object holds');
  const written = JSON.parse(JSON.stringify(value) ?? 'null');
  assertSame(value, written);
}

function assertSame(value: unknown, written: unknown): void {
  if (typeof value === 'bigint') expect(written).toBe(String(value));
  else if (Array.isArray(value))
    for (const [at, part] of value.entries()) assertPart(part, (written as unknown[])[at]);
  else if (typeof value === 'object' && value !== null)
    for (const [name, part] of Object.entries(value))
      assertPart(part, (written as Record<string, unknown>)[name]);
}

function assertPart(part: unknown, written: unknown): void {
  if (typeof part !== 'bigint') JSON.stringify(part);
  if (part !== undefined) assertSame(part, written);
}

/** All calls of a manager, in an order in which each of them has a result to check. */
function callsOf(run: RunManager, other: RunManager, told: ProgressEvent[]) {
  const onProgress = (event: ProgressEvent) => void told.push(event);
  const policy = { keepLast: 1, keepEvery: HIGH, graceMs: 60_000 };
  const calls: Readonly<Record<string, () => Promise<unknown>>> = {
    join: () => run.join(),
    save: async () => [
      await run.save({ version: 1, buffers: { a: bytes(10) }, onProgress }),
      await run.save({
        version: 2,
        buffers: { a: bytes(10), b: bytes(20), 'c.safetensors': TENSORS },
        onProgress,
      }),
    ],
    create: async () => {
      const checkpoint = await run.create(HIGH);
      const writer = checkpoint.openOutputStream('a').getWriter();
      await writer.write(bytes(30));
      await writer.close();
      await checkpoint.commit({ onProgress });
      return checkpoint;
    },
    commit: () => run.commit({ version: 2 }),
    get: async () => [await run.get(1), await (await run.get(HIGH))?.details()],
    latest: () => run.latest(),
    list: () => run.list(),
    log: () => run.admin.log(),
    begun: () => run.admin.begun(),
    restore: () => run.restore({ version: 2, to: { a: new Uint8Array(10) }, onProgress }),
    verify: () => run.admin.verify({ version: 2, onProgress }),
    diff: () => run.admin.diff(1, 2, { onProgress }),
    inspect: () => run.admin.inspect({ version: 1, onProgress }),
    locate: () => run.admin.locate({ version: 1, onProgress }),
    exportTensors: () => run.admin.exportTensors({ version: 2, to: NOWHERE, onProgress }),
    annotate: () => run.admin.annotate(2, { metrics: { auc: 1 } }),
    pin: () => run.admin.pin(2, 'paper'),
    unpin: () => run.admin.unpin(2),
    lease: () => run.admin.lease({ version: 2, ttlMs: 60_000 }),
    leases: () => run.admin.leases(),
    releaseLease: async () => run.admin.releaseLease((await run.admin.leases())[0]?.id ?? ''),
    mirrorFrom: async () => [
      await other.admin.mirrorFrom(run, { versions: [2], onProgress }),
      await other.admin.mirrorFrom(run, { onProgress }),
    ],
    forkFrom: () => open(newBucket()).admin.forkFrom(run, { onProgress }),
    setRetention: () => run.admin.setRetention(policy),
    retention: () => run.admin.retention(),
    planRetention: () => run.admin.planRetention({ policy }),
    collect: () => run.admin.collect({ policy, force: true }),
    undelete: () => run.admin.undelete(1),
    runsBelow: () => run.admin.runsBelow(),
    overview: () => run.admin.overview({ findVerification: true, findRollback: true, listBegun: true }),
    rollback: () => run.admin.rollback({ to: 2, reason: 'loss' }),
    fsck: () => run.admin.fsck(),
    recover: async () => {
      const token = ['decision', (await run.admin.log())[0]?.process.host, 'x', 'pin', 0];
      return run.recover(`hf1-${btoa(JSON.stringify(token))}`).catch((error: unknown) => error);
    },
    releaseSkipped: () =>
      run.admin.releaseSkipped('version_1/1.1/manifest-0123456789abcdef.json').catch((error) => error),
    // Its result has a separate test.
    rebuildCatalog: () => run.admin.rebuildCatalog().catch((error: unknown) => error),
    close: () => other.close(),
  };
  return calls;
}

test('each call of a manager, and all that it tells of its progress', async () => {
  const told: ProgressEvent[] = [];
  await using run = open(newBucket(), { attempt: 'job' });
  await using other = open(newBucket());
  const calls = callsOf(run, other, told);
  const names = [run, run.admin].flatMap((each) => Object.getOwnPropertyNames(Object.getPrototypeOf(each)));
  expect(Object.keys(calls).sort()).toEqual(
    names.filter((name) => !['constructor', 'uri'].includes(name)).sort(),
  );
  for (const [name, call] of Object.entries(calls)) {
    const result = await call();
    expect(() => assertJson(result), name).not.toThrow();
  }
  expect(new Set(told.map(({ type }) => type)).size).toBeGreaterThan(5);
  expect(told.some((event) => 'version' in event && event.version === HIGH)).toBe(true);
  for (const event of told) assertJson(event);
});

test('a rebuilt catalog', async () => {
  const bucket = new MemoryBucket({ crc32c, mayReuseKey: ({ key }) => key.startsWith('catalog/') });
  await using run = open(bucket);
  await run.save({ version: HIGH, buffers: { a: bytes(10) } });
  for (const key of bucket.keys().filter((each) => each.startsWith('catalog/'))) bucket.remove(key);
  await using other = open(bucket);
  assertJson(await other.admin.rebuildCatalog());
});

test('an error says what it is, where it happened, and no stack', () => {
  const context = { version: HIGH, missing: [{ writer: 1, detail: 'x' }], ids: [{ version: 1n }] };
  const error = new CheckpointError('Corrupt', 'it is damaged', { context, cause: new Error('secret') });
  expect(JSON.parse(JSON.stringify({ error }))).toEqual({
    error: {
      ...{ name: 'CheckpointError', code: 'Corrupt', status: 'permanent', message: 'it is damaged' },
      context: { version: String(HIGH), missing: [{ writer: 1, detail: 'x' }], ids: [{ version: '1' }] },
    },
  });
});

test('a result has no more names than before, and copies of it are plain', () => {
  const result = jsonReady({ version: 1n, list: [1n, 2n], id: { version: 3n } });
  expect(Object.keys(result)).toEqual(['version', 'list', 'id']);
  expect(structuredClone(result)).toEqual({ version: 1n, list: [1n, 2n], id: { version: 3n } });
  expect(JSON.stringify(result)).toBe('{"version":"1","list":["1","2"],"id":{"version":"3"}}');
  expect(() => JSON.stringify(1n)).toThrow(TypeError); // bigints outside of results are unchanged
});
