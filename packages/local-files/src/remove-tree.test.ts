import {
  type Dirent,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { removeTree } from './remove-tree.ts';

let parent: string;
beforeEach(() => {
  parent = mkdtempSync(join(tmpdir(), 'holdfast-remove-tree-'));
});
afterEach(() => rmSync(parent, { recursive: true, force: true }));

function write(...names: readonly string[]): void {
  for (const name of names) {
    mkdirSync(dirname(join(parent, name)), { recursive: true });
    writeFileSync(join(parent, name), name);
  }
}

it('removes all below, links and names that are not UTF-8 too, and nothing that a link names', async () => {
  write(
    'outside/kept',
    'tree/a',
    'tree/deep/er/b',
    ...Array.from({ length: 150 }, (_, i) => `tree/many/${i}`),
  );
  writeFileSync(Buffer.concat([Buffer.from(join(parent, 'tree/deep/')), Buffer.from([0xff])]), '');
  symlinkSync('../outside', join(parent, 'tree/link'));
  symlinkSync('nowhere', join(parent, 'tree/deep/dangling'));
  await removeTree(join(parent, 'tree'));
  expect([readdirSync(parent), readdirSync(join(parent, 'outside'))]).toEqual([['outside'], ['kept']]);
});

it('removes a file, and of a link the link; succeeds if there is nothing', async () => {
  write('file', 'outside/kept');
  symlinkSync('outside', join(parent, 'link'));
  for (const name of ['file', 'link', 'nothing', 'nothing/below']) await removeTree(join(parent, name));
  expect([readdirSync(parent), readdirSync(join(parent, 'outside'))]).toEqual([['outside'], ['kept']]);
});

it('goes nowhere else when a directory becomes a link while it is removed', async () => {
  write('outside/a', 'tree/sub/a');
  // Called once its entries are read.
  const swapping = async (path: Buffer): Promise<Dirent<Buffer>[]> => {
    const entries = await readdir(path, { withFileTypes: true, encoding: 'buffer' });
    if (entries.some(({ name }) => name.toString() === 'a')) {
      renameSync(join(parent, 'tree/sub'), join(parent, 'aside'));
      symlinkSync('../outside', join(parent, 'tree/sub'));
    }
    return entries;
  };
  await expect(removeTree(join(parent, 'tree'), swapping)).rejects.toMatchObject({ code: 'ENOTDIR' });
  expect([readdirSync(join(parent, 'outside')), readdirSync(join(parent, 'aside'))]).toEqual([['a'], []]);
});
