/**
 * Modification times of files: recorded with each save of files, and restored on request. Clocks of
 * stores that are wrong.
 */

import { mkdir, mkdtemp, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CheckpointManagerOptions, crc32c, type RunManager, systemClock } from '@holdfast/core';
import type { LocalFiles, SinkDirectory } from '@holdfast/core/contract';
import { MemoryBucket } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { expect, onTestFinished, test } from 'vitest';
import { MemoryTarget } from '../sim/actors.ts';
import { openMany } from './many-files.ts';
import { bytes, newBucket, open } from './memory-run.ts';
import { memoryStaging } from './staging-in-memory.ts';

const AT_MS = 1_600_000_000_123;

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-times-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  return directory;
}

/**
 * Makes files that contain their names, and empty directories (with a '/' at the end). All have the
 * same time.
 */
async function treeOf(names: readonly string[], atMs: number): Promise<string> {
  const root = await newDirectory();
  for (const name of names) {
    await mkdir(join(root, name, name.endsWith('/') ? '.' : '..'), { recursive: true });
    if (!name.endsWith('/')) await writeFile(join(root, name), name);
    await utimes(join(root, name), (atMs + 0.5) / 1000, (atMs + 0.5) / 1000);
  }
  return root;
}

const openLocal = (bucket: MemoryBucket, options: Partial<CheckpointManagerOptions> = {}) =>
  open(bucket, { files: localFiles, ...options });

async function timesAfterRestore(
  manager: RunManager,
  names: readonly string[],
  mtimes?: boolean,
): Promise<number[]> {
  const to = join(await newDirectory(), 'to');
  await manager.restore({ to, mtimes });
  return Promise.all(names.map(async (name) => Math.floor((await stat(join(to, name))).mtimeMs)));
}

const NAMES = ['a', 'sub/b', 'logs/', 'logs2/tb/'];

test.each(['', ' of a checkpoint of many files'])(
  'files and empty directories%s get their times back',
  async (many) => {
    const names = many === '' ? NAMES : [...NAMES, ...Array.from({ length: 20 }, (_, index) => `f${index}`)];
    const bucket = newBucket();
    const { manager } =
      many === ''
        ? { manager: openLocal(bucket) }
        : openMany(bucket, { files: localFiles, clock: systemClock });
    await manager.save({ dir: await treeOf(names, AT_MS) });
    expect(await timesAfterRestore(manager, names, true)).toEqual(names.map(() => AT_MS));
    for (const mtimes of [false, undefined])
      for (const timeMs of await timesAfterRestore(manager, names, mtimes))
        expect(timeMs).toBeGreaterThan(AT_MS + 1e10);
    const { files = [] } = (await (await manager.latest())?.details()) ?? {};
    expect(new Set(files.map(({ mtimeMs }) => mtimeMs))).toEqual(new Set([AT_MS]));
    await manager.close();
  },
);

test('what was saved from memory or a stream has no time, and gets none', async () => {
  await using manager = openLocal(newBucket());
  async function* stream() {
    yield new Uint8Array(3);
  }
  const path = join(await treeOf(['a'], AT_MS), 'a');
  await manager.save({ files: { bytes: new Uint8Array(3), stream: stream(), path } });
  const { files = [] } = (await (await manager.latest())?.details()) ?? {};
  expect(files.map(({ name, mtimeMs }) => [name, mtimeMs])).toEqual([
    ['bytes', null],
    ['path', AT_MS],
    ['stream', null],
  ]);
  const [path2, bytes2] = await timesAfterRestore(manager, ['path', 'bytes'], true);
  expect(path2).toBe(AT_MS);
  expect(bytes2).toBeGreaterThan(AT_MS + 1e10);
});

test('the same content with other times is the same: a save again, and a delivery again', async () => {
  const bucket = newBucket();
  await using manager = openLocal(bucket);
  await manager.save({ version: 1, dir: await treeOf(NAMES, AT_MS) });
  expect(await manager.save({ version: 1, dir: await treeOf(NAMES, AT_MS + 5000) })).toMatchObject({
    wasCommittedBefore: true,
  });
  expect(await timesAfterRestore(manager, NAMES, true)).toEqual(NAMES.map(() => AT_MS));

  const other = newBucket();
  for (const atMs of [AT_MS, AT_MS + 5000]) {
    const options = { attempt: 'job', writer: { index: 0, count: 2 }, life: 'one' };
    await using writer = openLocal(other, options);
    await writer.save({ version: 1, dir: await treeOf(NAMES, atMs), noWait: true });
  }
  await using second = openLocal(other, { attempt: 'job', writer: { index: 1, count: 2 } });
  await second.save({ version: 1, buffers: { z: new Uint8Array(1) } });
  expect(await timesAfterRestore(second, NAMES, true)).toEqual(NAMES.map(() => AT_MS));
});

test('an unchanged file that is not sent again has the time that it has now', async () => {
  await using manager = openLocal(newBucket());
  const names = ['a', 'sub/b'];
  const save = async (version: number, atMs: number) =>
    manager.save({ version, dir: await treeOf(names, atMs), onStale: 'off' });
  for (const version of [1, 2]) await save(version, AT_MS);
  const again = await save(3, AT_MS + 5000);
  expect(again.referencedBytes).toBe(again.sizeBytes);
  expect(await timesAfterRestore(manager, names, true)).toEqual(names.map(() => AT_MS + 5000));
});

test('copies have the times of their originals: those of a staging, of a mirror and of a fork', async () => {
  await using manager = openLocal(newBucket());
  await manager.save({ dir: await treeOf(NAMES, AT_MS), staging: memoryStaging() });
  await using mirror = openLocal(newBucket());
  await mirror.admin.mirrorFrom(manager);
  await using fork = openLocal(newBucket());
  await fork.admin.forkFrom(manager);
  for (const copy of [manager, mirror, fork])
    expect(await timesAfterRestore(copy, NAMES, true)).toEqual(NAMES.map(() => AT_MS));
});

test('odd times of a source are recorded as the nearest that a record can say, or not at all', async () => {
  const odd = [Number.NaN, Number.NEGATIVE_INFINITY, -5, 0, 0.9, 1e300, undefined, '7' as unknown as number];
  const tree = await treeOf(['a'], AT_MS);
  const files: LocalFiles = {
    ...localFiles,
    scan: async () => {
      const [found] = (await localFiles.scan(tree)).files;
      if (!found) throw new Error('there is one');
      const open = (mtimeMs: number | undefined) => async () => ({
        ...{ sizeBytes: 1, mtimeMs, assertUnchanged: async () => undefined, close: async () => undefined },
        readInto: async (_: number, buffer: Uint8Array) => void buffer.fill(1),
      });
      return {
        files: odd.map((mtimeMs, index) => ({ name: `f${index}`, sizeBytes: 1, open: open(mtimeMs) })),
        directories: odd.map((mtimeMs, index) => ({ name: `d${index}`, mtimeMs })),
      };
    },
  };
  await using manager = openLocal(newBucket(), { files });
  await manager.save({ dir: tree });
  const wanted = [undefined, undefined, 1, 1, 1, 253_402_300_799_999, undefined, undefined];
  const found = await (await manager.latest())?.details();
  expect(found?.files.map(({ mtimeMs }) => mtimeMs ?? undefined)).toEqual(wanted);
  const told: SinkDirectory[] = [];
  const target = Object.assign(new MemoryTarget(), {
    makeDirectory: async (directory: SinkDirectory) => void told.push(directory),
  });
  await manager.restore({ to: target, mtimes: true });
  expect(told.map(({ name, mtimeMs }) => [name, mtimeMs])).toEqual(
    odd.map((_, index) => [`d${index}`, wanted[index]]).reverse(),
  );
});

test('a restore that is stopped makes no further directory', async () => {
  const tree = await treeOf(['a/', 'b/', 'c/', 'file'], AT_MS);
  await using manager = openLocal(newBucket());
  await manager.save({ dir: tree });
  const stop = new AbortController();
  const made: string[] = [];
  const target = Object.assign(new MemoryTarget(), {
    makeDirectory: async ({ name }: SinkDirectory) => {
      made.push(name);
      stop.abort();
    },
  });
  const restoring = manager.restore({ to: target, signal: stop.signal });
  await expect(restoring).rejects.toMatchObject({ code: 'Aborted' });
  expect(made).toEqual(['c']);
});

test.each([-315_619_200_000, 316_516_896_000_000])(
  'a store whose clock says %i: saves commit, and a rebuild names the clock',
  async (nowMs) => {
    const mayReuseKey = () => true;
    const bucket = new MemoryBucket({ crc32c, mayReuseKey, clock: { nowMs: () => nowMs } });
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { a: bytes(10) } });
    await manager.save({ version: 2, buffers: { a: bytes(10) } });
    expect((await manager.list()).map(({ version }) => version)).toEqual([2n, 1n]);
    // Before 1970 no time is past the recorded one, so what is retired waits.
    const { retired } = await manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 } });
    expect(retired).toEqual([1n]);
    for (const key of bucket.keys()) if (key.startsWith('catalog/')) bucket.remove(key);
    await using later = open(bucket);
    await expect(later.admin.rebuildCatalog()).rejects.toMatchObject({
      code: 'InvalidConfig',
      message: expect.stringMatching(/^the store's clock says .*, and a rebuilt catalog is numbered by it/),
    });
  },
);
