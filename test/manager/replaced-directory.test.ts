/** Directories that are replaced or written to during a save: no checkpoint has two states. */

import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SaveOptions } from '@holdfast/core';
import { createLocalFiles, type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { MemoryStaging } from '@holdfast/training';
import { describe, expect, onTestFinished, test } from 'vitest';
import { failure, newBucket, open } from './memory-run.ts';

const NAMES = ['a', 'b', 'c', 'd'];
/** One second for all, as after `rsync --times`: no time tells the states apart. */
const TIME_S = 1_700_000_000;

/** Two complete checkpoints of the same sizes and times: `ckpt`, and `next` beside it. */
function twoStates(): string {
  const directory = mkdtempSync(join(tmpdir(), 'holdfast-replaced-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  for (const [state, text] of [
    ['ckpt', 'old'],
    ['next', 'new'],
  ] as const) {
    mkdirSync(join(directory, state));
    for (const name of NAMES) {
      writeFileSync(join(directory, state, name), text);
      utimesSync(join(directory, state, name), TIME_S, TIME_S);
    }
  }
  return directory;
}

type Call = 'lstat' | 'open';

/** Files that make a change just before the n-th call for a file of the checkpoint. */
function filesWith(change: () => void, call: Call, at: number) {
  let count = 0;
  const noticing = (path: string) => {
    if (/\/(ckpt|latest)\/.$/.test(path) && ++count === at) change();
  };
  const fileSystem: FileSystem = {
    ...nodeFileSystem,
    // In place, so that the change falls between two of them.
    lstat: async (path) => {
      if (call === 'lstat') noticing(path);
      return lstatSync(path, { bigint: true });
    },
    open: async (path, flags, mode) => {
      if (call === 'open') noticing(path);
      return openSync(path, flags, mode);
    },
  };
  return createLocalFiles(fileSystem);
}

async function saved(directory: string, change: () => void, call: Call, at: number, more: object = {}) {
  const bucket = newBucket();
  const files = filesWith(change, call, at);
  const options = { dir: join(directory, 'ckpt'), version: 1, ...more } as SaveOptions;
  await using manager = open(bucket, { files });
  const error = await manager.save(options).then(
    () => null,
    (thrown) => thrown,
  );
  const latest = await manager.latest();
  return { error, latest };
}

function replace(directory: string): void {
  renameSync(join(directory, 'ckpt'), join(directory, 'old'));
  renameSync(join(directory, 'next'), join(directory, 'ckpt'));
}

function putBack(directory: string): void {
  renameSync(join(directory, 'ckpt'), join(directory, 'next'));
  renameSync(join(directory, 'old'), join(directory, 'ckpt'));
}

const MOMENTS = (['lstat', 'open'] as const).flatMap((call) => [2, 4].map((at) => [call, at] as const));

describe.each(MOMENTS)('before %s number %d', (call, at) => {
  const expectRefused = ({ error, latest }: Awaited<ReturnType<typeof saved>>) => {
    expect(error).toMatchObject({ code: 'SourceChanged' });
    expect(latest).toBeNull();
  };

  test('the directory is replaced by two renames', async () => {
    const directory = twoStates();
    expectRefused(await saved(directory, () => replace(directory), call, at));
  });

  test('the directory is replaced, and copies are made first', async () => {
    const directory = twoStates();
    const staging = new MemoryStaging({ bytesMax: 1024 });
    expectRefused(await saved(directory, () => replace(directory), call, at, { staging }));
  });

  test('two files change places with others, which stay', async () => {
    const directory = twoStates();
    const change = () => {
      for (const name of ['a', 'd']) {
        renameSync(join(directory, 'ckpt', name), join(directory, `old-${name}`));
        renameSync(join(directory, 'next', name), join(directory, 'ckpt', name));
      }
    };
    expectRefused(await saved(directory, change, call, at));
  });

  test('all files are written anew in place', async () => {
    const directory = twoStates();
    const change = () => {
      for (const name of NAMES) writeFileSync(join(directory, 'ckpt', name), 'new');
    };
    expectRefused(await saved(directory, change, call, at));
  });

  test('a link that leads to the directory is changed', async () => {
    const directory = twoStates();
    const latest = join(directory, 'latest');
    symlinkSync('ckpt', latest);
    const change = () => {
      unlinkSync(latest);
      symlinkSync('next', latest);
    };
    expectRefused(await saved(directory, change, call, at, { dir: latest }));
  });

  test('nothing happens to the files, and others come beside them', async () => {
    const directory = twoStates();
    const change = () => writeFileSync(join(directory, 'ckpt', 'newcomer'), '');
    const { error, latest } = await saved(directory, change, call, at);
    expect(error).toBeNull();
    expect(latest?.summary?.fileCount).toBe(NAMES.length);
  });
});

test('a directory that is replaced while it is looked at, and put back, is refused', async () => {
  const directory = twoStates();
  let looks = 0;
  const fileSystem: FileSystem = {
    ...nodeFileSystem,
    lstat: async (path) => {
      if (/ckpt\/.$/.test(path)) looks += 1;
      if (looks === 2) replace(directory);
      const stats = lstatSync(path, { bigint: true });
      if (looks === 2) putBack(directory);
      return stats;
    },
  };
  await using manager = open(newBucket(), { files: createLocalFiles(fileSystem) });
  expect(await failure(manager.save({ dir: join(directory, 'ckpt'), version: 1 }))).toMatch(
    /^SourceChanged: /,
  );
});

describe('on FUSE, where a file may get another inode number with each look', () => {
  let inode = 1n;
  const numbered = <Stats extends { ino: bigint }>(stats: Stats) => {
    inode += 1n;
    return Object.assign(stats, { ino: inode });
  };
  const fuse: FileSystem = {
    ...nodeFileSystem,
    statfs: async (path) => Object.assign(await nodeFileSystem.statfs(path), { type: 0x65735546n }),
    lstat: async (path) => numbered(await nodeFileSystem.lstat(path)),
    stat: async (path) => numbered(await nodeFileSystem.stat(path)),
  };

  test('a directory that does not change is saved', async () => {
    const directory = twoStates();
    await using manager = open(newBucket(), { files: createLocalFiles(fuse) });
    const saved = await manager.save({ dir: join(directory, 'ckpt'), version: 1 });
    expect(saved.fileCount).toBe(NAMES.length);
  });

  test('a file that is written to is noticed by its time', async () => {
    const directory = twoStates();
    const changing: FileSystem = {
      ...fuse,
      open: async (path, flags, mode) => {
        if (path.endsWith('/d')) writeFileSync(join(directory, 'ckpt/a'), 'new');
        return nodeFileSystem.open(path, flags, mode);
      },
    };
    await using manager = open(newBucket(), { files: createLocalFiles(changing) });
    expect(await failure(manager.save({ dir: join(directory, 'ckpt'), version: 1 }))).toMatch(
      /^SourceChanged: /,
    );
  });
});
