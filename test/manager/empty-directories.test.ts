/** Empty directories are recorded, restored, copied, and count as part of a version. */

import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type CheckpointManagerOptions, type RunManager, systemClock } from '@holdfast/core';
import type { LocalFiles } from '@holdfast/core/contract';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import type { MemoryBucket } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { describe, expect, onTestFinished, test } from 'vitest';
import { MemoryTarget } from '../sim/actors.ts';
import { openMany } from './many-files.ts';
import { failure, newBucket, open } from './memory-run.ts';

async function newDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-empty-'));
  onTestFinished(() => rm(directory, { recursive: true }));
  return directory;
}

/**
 * Makes a tree. Names that end with '/' are empty directories. The others are files that contain
 * their names.
 */
async function treeOf(...names: readonly string[]): Promise<string> {
  const root = await newDirectory();
  for (const name of names) {
    const above = name.slice(0, name.lastIndexOf('/') + 1);
    await mkdir(join(root, above), { recursive: true });
    if (!name.endsWith('/')) await writeFile(join(root, name), name);
  }
  return root;
}

/** The leaves of a tree, in the same spelling. */
async function leavesOf(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  const names = entries.map((entry) => {
    const name = join(entry.parentPath, entry.name).slice(root.length + 1);
    return entry.isDirectory() ? `${name}/` : name;
  });
  return names
    .filter((name) => !names.some((other) => other !== name && other.startsWith(name) && name.endsWith('/')))
    .sort();
}

const openLocal = (bucket: MemoryBucket, options: Partial<CheckpointManagerOptions> = {}) =>
  open(bucket, { files: localFiles, ...options });

/** Like `openLocal`, with limits so low that a few files fill a record. */
const openFew = (bucket: MemoryBucket, options: Partial<CheckpointManagerOptions> = {}) =>
  openMany(bucket, { clock: systemClock, files: localFiles, ...options });

async function restored(manager: RunManager, only?: readonly string[]): Promise<string[]> {
  const to = join(await newDirectory(), 'to');
  await manager.restore({ to, only });
  return leavesOf(to);
}

/** Saves version 1 with one writer for each tree. */
async function saveTrees(
  bucket: MemoryBucket,
  trees: readonly (readonly string[])[],
  openAs: (bucket: MemoryBucket, options: Partial<CheckpointManagerOptions>) => RunManager = openLocal,
): Promise<void> {
  for (const [index, names] of trees.entries()) {
    const writer = { index, count: trees.length };
    await using manager = openAs(bucket, { attempt: 'job', writer });
    await manager.save({ version: 1, dir: await treeOf(...names), noWait: true });
  }
}

const few = (bucket: MemoryBucket, options: Partial<CheckpointManagerOptions>) =>
  openFew(bucket, options).manager;
const part = (writer: number) => Array.from({ length: 10 }, (_, index) => `w${writer}/part-${index}`);

describe('empty directories', () => {
  test.each(['', ' of a checkpoint of many files'])('come back with the files%s', async (many) => {
    const bucket = newBucket();
    const names = ['a/b/', 'logs/', 'x/y/z/', ...part(0)];
    await saveTrees(bucket, [names], many === '' ? openLocal : few);
    await using manager = openLocal(bucket);
    expect(await restored(manager)).toEqual([...names].sort());
    const details = await (await manager.latest())?.details();
    expect(details?.directories).toEqual(['a/b', 'logs', 'x/y/z']);
    expect(details).toMatchObject({ fileCount: 10, worldSize: 1 });
    expect(await manager.admin.verify()).toMatchObject({ problems: [] });
  });

  test('two writers may have the same ones, and one may hold files of another', async () => {
    const bucket = newBucket();
    await saveTrees(bucket, [
      ['logs/', 'shared/', 'a'],
      ['logs/', 'b'],
      ['shared/c', 'only/'],
    ]);
    await using manager = openLocal(bucket);
    expect(await restored(manager)).toEqual(['a', 'b', 'logs/', 'only/', 'shared/c']);
    expect((await (await manager.latest())?.details())?.directories).toEqual(['logs', 'only', 'shared']);
  });

  test.each([
    ['its name', ['a', 'log/'], ['log'], '"log" as a file, writer 0 as a directory ("log/")'],
    ['that of one above it', ['a', 'log/x/'], ['log'], '"log" as a file, writer 0 as a directory ("log/x/")'],
  ])("one writer's are refused if a file of another has %s", async (_, first, second, says) => {
    const bucket = newBucket();
    const answer = await failure(saveTrees(bucket, [first, second]));
    expect(answer).toMatch(/^Conflict: version 1 cannot be committed/);
    expect(answer).toContain(says);
    await using manager = openLocal(bucket);
    expect(await manager.latest()).toBe(null);
  });

  test('that match are restored with the files that match, from records too that hold no such file', async () => {
    const bucket = newBucket();
    await saveTrees(bucket, [part(0), [...part(1), 'logs/tb/', 'other/'], part(2)], few);
    const { manager, calls } = openFew(bucket);
    expect(await restored(manager, ['w2/part-3', 'logs/**'])).toEqual(['logs/tb/', 'w2/part-3']);
    const receipts = calls.filter(({ operation, key }) => operation === 'get' && key.includes('/receipts/'));
    expect(receipts.map(({ key }) => key)).toEqual([
      'version_1/1.1/receipts/1.0.json',
      'version_1/1.1/receipts/2.0.json',
    ]);
    expect(await restored(manager, ['other'])).toEqual(['other/']);
    expect(await failure(manager.restore({ to: join(tmpdir(), 'none'), only: ['lo*'] }))).toMatch(
      /^NotFound: no file matches/,
    );
    await manager.close();
  });

  test('are not asked for by buffers, nor by a target that makes no directories', async () => {
    const bucket = newBucket();
    await saveTrees(bucket, [['logs/', 'a']]);
    await using manager = openLocal(bucket);
    const to = { a: new Uint8Array(1) };
    expect(await manager.restore({ to })).toMatchObject({ fileCount: 1 });
    const target = new MemoryTarget();
    await manager.restore({ to: target });
    expect(Object.keys(target.files)).toEqual(['a']);
  });

  test.each(['', ' of a checkpoint of many files'])('belong to the content of a version%s', async (many) => {
    const bucket = newBucket();
    const openAs = many === '' ? openLocal : few;
    const names = [...part(0), 'logs/'];
    await saveTrees(bucket, [names], openAs);
    await using manager = openAs(bucket, { attempt: 'job', writer: { index: 0, count: 1 } });
    const save = async (...tree: readonly string[]) =>
      manager.save({ version: 1, dir: await treeOf(...tree) });
    expect(await save(...names)).toMatchObject({ wasCommittedBefore: true });
    for (const other of [part(0), [...names, 'more/'], [...part(0), 'Logs/']])
      expect(await failure(save(...other))).toMatch(/^Conflict: .*with other content/);
  });

  test('count where a process repeats its own delivery', async () => {
    const bucket = newBucket();
    const deliver = async (...tree: readonly string[]) => {
      const options = { attempt: 'job', writer: { index: 0, count: 2 }, life: 'one' };
      await using manager = openLocal(bucket, options);
      return await manager.save({ version: 1, dir: await treeOf(...tree), noWait: true });
    };
    await deliver('a', 'logs/');
    expect(await deliver('a', 'logs/')).toMatchObject({ isCommitted: false });
    expect(await failure(deliver('a', 'other/'))).toContain('has already delivered version 1, with other');
    expect(await failure(deliver('a'))).toContain('has already delivered version 1, with other');
  });

  test('are copied by a mirror, which then finds nothing to do', async () => {
    const [from, to] = [newBucket(), newBucket()];
    await saveTrees(from, [
      ['logs/', 'a'],
      ['b', 'c/d/'],
    ]);
    await using source = openLocal(from);
    await using copy = open(to, { files: localFiles });
    await copy.admin.mirrorFrom(source);
    expect(await restored(copy)).toEqual(['a', 'b', 'c/d/', 'logs/']);
    expect(await copy.admin.mirrorFrom(source)).toMatchObject({ copied: [] });
  });

  test.each([
    ['more than a writer may have', 65_537, (index: number) => `d${index}`, 'there are 65537 empty'],
    ['with names too long together', 3000, (index: number) => `${index}`.padStart(900, 'x'), '2700000 bytes'],
  ])('%s are refused before anything is sent', async (_, count, nameOf, says) => {
    const bucket = newBucket();
    const directories = Array.from({ length: count }, (_each, index) => ({ name: nameOf(index) }));
    const files: LocalFiles = { ...localFiles, scan: async () => ({ files: [], directories }) };
    await using manager = openLocal(bucket, { files });
    expect(await failure(manager.save({ dir: '/any' }))).toMatch(
      new RegExp(`^InvalidArgument: .*${says}.*at most.*exclude some`),
    );
    expect(bucket.keys()).toEqual([]);
  });

  test('as many as a writer may have fit its receipt, beside the longest metadata', async () => {
    const bucket = newBucket();
    const names = Array.from({ length: 65_536 }, (_, index) => ({ name: `"${index}`.padEnd(32, '"') }));
    const tree = await treeOf('a');
    const files: LocalFiles = {
      ...localFiles,
      scan: async () => ({ ...(await localFiles.scan(tree)), directories: names }),
    };
    await using manager = openLocal(bucket, { files });
    const metadata = { note: 'x'.repeat(1_000_000) };
    await manager.save({ dir: tree, metadata });
    const key = bucket.keys().find((each) => each.includes('/manifest-')) ?? '';
    const found = decodeRecord('manifest', bucket.find(key)?.bytes ?? new Uint8Array(0), { key });
    expect(found.receipts).toMatchObject([{ directoryCount: 65_536, fileCount: 1 }]);
  });
});
