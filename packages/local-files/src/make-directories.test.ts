import { mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { nodeFileSystem } from './file-system.ts';
import { makeDirectories } from './make-directories.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'mkdir' });

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-mkdir-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test('makes what is missing, and is content with what is there, a link to a directory included', async () => {
  await makeDirectories(nodeFileSystem, join(root, 'a/b/c'));
  await makeDirectories(nodeFileSystem, join(root, 'a/b/c'));
  symlinkSync('a', join(root, 'link'));
  await makeDirectories(nodeFileSystem, join(root, 'link/b/d'));
  await makeDirectories(nodeFileSystem, join(root, 'link'));
  expect(statSync(join(root, 'a/b/d')).isDirectory()).toBe(true);
});

test('many at the same time', async () => {
  const paths = Array.from({ length: 20 }, (_, i) => join(root, `x/y/z/${i % 3}`));
  await Promise.all(paths.map((path) => makeDirectories(nodeFileSystem, path)));
  for (const path of paths) expect(statSync(path).isDirectory()).toBe(true);
});

test('a file in the way is an error', async () => {
  writeFileSync(join(root, 'file'), '');
  await expect(makeDirectories(nodeFileSystem, join(root, 'file'))).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(makeDirectories(nodeFileSystem, join(root, 'file/a'))).rejects.toMatchObject({
    code: 'ENOTDIR',
  });
});

test.each(['EROFS', 'EACCES', 'ENOSPC', 'EIO'])('%s of a parent is passed on as it is', async (errno) => {
  const made: string[] = [];
  const fileSystem = {
    ...nodeFileSystem,
    mkdir: (path: string) => {
      made.push(path.slice(root.length));
      return path.endsWith('/b') ? nodeFileSystem.mkdir(path) : Promise.reject(errnoError(errno));
    },
  };
  await expect(makeDirectories(fileSystem, join(root, 'a/b'))).rejects.toMatchObject({ code: errno });
  expect(made).toEqual(['/a/b', '/a']);
});

test('a path whose parents cannot be created fails instead of going on for ever', async () => {
  const fileSystem = { ...nodeFileSystem, mkdir: () => Promise.reject(errnoError('ENOENT')) };
  await expect(makeDirectories(fileSystem, join(root, 'a'))).rejects.toMatchObject({ code: 'ENOENT' });
});
