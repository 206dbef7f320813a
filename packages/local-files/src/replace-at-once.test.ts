/** Other processes and programs change a directory while a restore replaces it. */

import { readFileSync, renameSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LeftDirectory } from '@holdfast/core/contract';
import { describe, expect, it, test, vi } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { type Processes, processText } from './processes.ts';
import {
  code,
  directory,
  eachInNewDirectory,
  files,
  GONE,
  hidden,
  parent,
  processOf,
  put,
  restore,
} from './replacing.testing.ts';

eachInNewDirectory();

describe('another program, while a restore replaces a directory', () => {
  it('looks again before it moves anything: what was put there meanwhile stays', async () => {
    await restore();
    const meanwhile = () => put('ckpt/notes.txt');
    await expect(restore({ replace: true, files: ['b'], meanwhile })).rejects.toEqual(
      code('TargetExists', '"notes.txt"'),
    );
    expect([files(), hidden().length]).toEqual([['a', 'notes.txt'], 1]);
    rmSync(directory, { recursive: true });
    const file = () => put('ckpt', 'a file');
    await expect(restore({ replace: true, meanwhile: file })).rejects.toEqual(code('TargetExists'));
    expect(readFileSync(directory, 'utf8')).toBe('a file');
  });

  it('a file that was changed meanwhile stays, also if it looks like the new file of its name', async () => {
    await restore({ mtimeMs: 1000 });
    const change = (at = directory) => {
      writeFileSync(join(at, 'a'), 'x');
      utimesSync(join(at, 'a'), 5, 5);
    };
    const changing = (isNow: (to: string) => boolean): FileSystem => ({
      ...nodeFileSystem,
      rename: async (from, to) => {
        if (isNow(to)) change(to === directory ? join(parent, hidden('.old')[0]!) : directory);
        await nodeFileSystem.rename(from, to);
      },
    });
    const before = changing((to) => to.endsWith('.old'));
    await expect(restore({ replace: true, mtimeMs: 5000, fileSystem: before })).rejects.toEqual(
      code('TargetExists', '"a"'),
    );
    expect(readFileSync(join(directory, 'a'), 'utf8')).toBe('x');
    rmSync(directory, { recursive: true });
    await restore({ mtimeMs: 1000 });
    const told: string[] = [];
    const after = changing((to) => to === directory && hidden('.old').length > 0);
    await restore({ replace: true, mtimeMs: 5000, fileSystem: after, onLeft: ({ path }) => told.push(path) });
    expect(told.map((path) => readFileSync(join(path, 'a'), 'utf8'))).toEqual(['x']);
  });

  it('what is put there just before the rename stays under its name, and nothing is replaced', async () => {
    await restore();
    const isAside = (to: string) => to.endsWith('.old');
    const atRename = (change: () => void) => ({
      ...nodeFileSystem,
      rename: async (from: string, to: string) => {
        if (isAside(to)) change();
        await nodeFileSystem.rename(from, to);
      },
    });
    const fileSystem = atRename(() => put('ckpt/notes.txt'));
    await expect(restore({ replace: true, files: ['b'], fileSystem })).rejects.toEqual(
      code('TargetExists', `${directory} holds 1 file that Holdfast did not put there`),
    );
    expect([files(), hidden().length]).toEqual([['a', 'notes.txt'], 1]);
    const run = atRename(() => put('ckpt/catalog/00000000000000000001.json'));
    await expect(restore({ replace: 'everything', fileSystem: run })).rejects.toEqual(
      code(
        'InvalidArgument',
        `${directory} is a run, or holds one: it has catalog/00000000000000000001.json: `,
      ),
    );
    expect(files()).toContain('catalog/00000000000000000001.json');
  });

  it('what cannot go back because its name was taken stays, and the error says where', async () => {
    await restore();
    const rename: FileSystem['rename'] = async (from, to) => {
      await nodeFileSystem.rename(from, to);
      if (!to.endsWith('.old')) return;
      writeFileSync(join(to, 'notes.txt'), '');
      put('ckpt/other');
    };
    await expect(restore({ replace: true, fileSystem: { ...nodeFileSystem, rename } })).rejects.toEqual(
      code('TargetExists', '.old'),
    );
    expect([files(), files(join(parent, hidden('.old')[0]!))]).toEqual([['other'], ['a', 'notes.txt']]);
  });

  it('what is put into the old directory when the new one is in place stays, and is told of', async () => {
    await restore();
    const rename: FileSystem['rename'] = async (from, to) => {
      await nodeFileSystem.rename(from, to);
      if (to === directory) put(`${hidden('.old')[0]!}/notes.txt`);
    };
    const told: LeftDirectory[] = [];
    const onLeft = (each: LeftDirectory) => told.push(each);
    await restore({ replace: true, files: ['b'], fileSystem: { ...nodeFileSystem, rename }, onLeft });
    const path = join(parent, hidden('.left-0')[0]!);
    expect(told).toEqual([{ path, reason: 'it contains files that Holdfast did not put there' }]);
    expect([files(), files(path)]).toEqual([['b'], ['a', 'notes.txt']]);
  });
});

test('one that another process published in between: the note of the old one stays, so the next restore removes it', async () => {
  await restore({ files: ['old'] });
  const rename = async (from: string, to: string) => {
    await nodeFileSystem.rename(from, to);
    if (to.endsWith('.old')) await restore({ files: ['other'] });
  };
  const racing = restore({ replace: true, files: ['late'], fileSystem: { ...nodeFileSystem, rename } });
  await expect(racing).rejects.toEqual(code('TargetExists', 'by another process meanwhile'));
  expect([files(), hidden('.made-0').length]).toEqual([['other'], 2]);
  const [aside = ''] = hidden('.old');
  renameSync(join(parent, aside), join(parent, aside.replace(processText(processOf(8)), GONE)));
  const onLeft = vi.fn();
  await restore({ replace: true, files: ['next'], onLeft });
  expect([files(), hidden().length, hidden('.made-0').length]).toEqual([['next'], 1, 1]);
  expect(onLeft).not.toHaveBeenCalled();
});

test('many: one of them is in place and whole, and a lone restore afterwards removes all else', async () => {
  const ended = new Set<number>();
  let nextPid = 100;
  const onLeft = vi.fn();
  const asProcess = async (names: readonly string[]) => {
    const pid = nextPid++;
    const own: Processes = {
      self: async () => processOf(pid),
      isCertainlyGone: async (other) => ended.has(other.pid),
    };
    try {
      await restore({ replace: true, files: names, onLeft, processes: own });
    } finally {
      ended.add(pid);
    }
  };
  const sets = [0, 1, 2].map((set) => Array.from({ length: 12 }, (_, index) => `${set}/${index}`));
  for (let round = 0; round < 30; round++) await Promise.allSettled(sets.map((names) => asProcess(names)));
  await asProcess(['alone']);
  expect([files(), hidden('.made-0').length, hidden().length]).toEqual([['alone'], 1, 1]);
  expect(onLeft).not.toHaveBeenCalled();
});

test('a directory that vanishes while it is looked at is no directory', async () => {
  await restore({ files: ['old'] });
  let isGone = false;
  const readdir: FileSystem['readdir'] = (path) => {
    if (path === directory && !isGone) {
      isGone = true;
      rmSync(directory, { recursive: true });
    }
    return nodeFileSystem.readdir(path);
  };
  await restore({ replace: true, files: ['a'], fileSystem: { ...nodeFileSystem, readdir } });
  expect([isGone, files()]).toEqual([true, ['a']]);
  await restore({ replace: true, files: ['b'] });
  expect([files(), hidden().length]).toEqual([['b'], 1]);
});
