import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { type WalkOptions, walkTree } from './tree.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-tree-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function touch(...names: string[]): void {
  for (const name of names) {
    mkdirSync(dirname(join(root, name)), { recursive: true });
    writeFileSync(join(root, name), '');
  }
}

/** The entries of a walk, and the directories that it read. */
async function walk(options: Partial<WalkOptions> = {}, fileSystem: FileSystem = nodeFileSystem) {
  const names: string[] = [];
  const read: string[] = [];
  const watched: FileSystem = {
    ...fileSystem,
    readdir: (path) => {
      read.push(path.slice(root.length));
      return fileSystem.readdir(path);
    },
  };
  for await (const entry of walkTree(watched, root, { missing: 'skip', ...options })) {
    names.push(entry.kind === 'file' ? entry.name : `${entry.name} (${entry.kind})`);
  }
  return { names, read };
}

const KEYS = [
  'a/b/c',
  'a/b',
  'a',
  'ab',
  'a.b/x',
  'a-b',
  'a0',
  'A/z',
  'z',
  'é/1',
  'z/\u{ff5e}',
  'z/\u{1f600}',
  'b/1',
  'b/10',
  'b/2',
  'b-/x',
];

describe('walkTree', () => {
  // A file and a directory of the same name cannot both exist.
  const keys = KEYS.filter((key) => !KEYS.some((other) => other.startsWith(`${key}/`)));
  const sorted = [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));

  it('shows all files by the bytes of the whole name, not directory by directory', async () => {
    touch(...keys);
    expect((await walk()).names).toEqual(sorted);
  });

  it('startAfter, be it there or not, shows what comes after it and nothing else', async () => {
    touch(...keys);
    for (const startAfter of [...KEYS, '', 'a/', 'a/b/', 'b', 'b/', 'b/1/x', 'zz', '\u{10ffff}']) {
      const expected = sorted.filter((key) => Buffer.compare(Buffer.from(key), Buffer.from(startAfter)) > 0);
      expect((await walk({ startAfter })).names, startAfter).toEqual(expected);
    }
  });

  it('prefix shows what starts with it, be it the name of a directory or part of one', async () => {
    touch(...keys);
    for (const prefix of ['', 'a', 'a/', 'a/b', 'a/b/', 'b/1', 'b/1/', 'b', 'z/', 'x', 'é', 'z/\u{1f600}']) {
      expect((await walk({ prefix })).names, prefix).toEqual(sorted.filter((key) => key.startsWith(prefix)));
    }
  });

  it('reads only directories that can hold something', async () => {
    touch('version_1/a', 'version_1/deep/a', 'version_10/a', 'version_2/a', 'catalog/1', 'catalog/2');
    expect((await walk({ prefix: 'version_1/' })).read).toEqual(['/version_1', '/version_1/deep']);
    expect((await walk({ prefix: 'version_1' })).read).toEqual([
      '',
      '/version_1',
      '/version_1/deep',
      '/version_10',
    ]);
    expect((await walk({ startAfter: 'version_10/a' })).read).toEqual(['', '/version_10', '/version_2']);
    expect((await walk({ prefix: 'catalog/', startAfter: 'catalog/1' })).read).toEqual(['/catalog']);
  });

  it('reads a directory only when the walk gets there', async () => {
    touch('a/1', 'b/1');
    const read: string[] = [];
    const fileSystem: FileSystem = {
      ...nodeFileSystem,
      readdir: (path) => {
        read.push(path.slice(root.length));
        return nodeFileSystem.readdir(path);
      },
    };
    const entries = walkTree(fileSystem, root, { missing: 'skip' });
    expect(read).toEqual([]);
    await entries.next();
    expect(read).toEqual(['', '/a']);
    await entries.return();
  });

  it.each(['../', '/', 'a//', './', 'a/../', '\0/', '.holdfast-tmp/', `${'x'.repeat(300)}/`])(
    'the prefix %j is that of no name',
    async (prefix) => {
      touch('a/x', '.holdfast-tmp/x');
      expect((await walk({ prefix, isHidden: (name) => name.startsWith('.holdfast-') })).names).toEqual([]);
    },
  );

  it('hides names at the root only', async () => {
    touch('.holdfast-tmp/x', '.holdfast-y', 'a/.holdfast-z', 'b');
    const { names, read } = await walk({ isHidden: (name) => name.startsWith('.holdfast-') });
    expect(names).toEqual(['a/.holdfast-z', 'b']);
    expect(read).not.toContain('/.holdfast-tmp');
  });

  it('does not follow links, and names what is no file', async () => {
    touch('dir/file');
    symlinkSync('dir', join(root, 'link'));
    symlinkSync('nowhere', join(root, 'dangling'));
    writeFileSync(Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0x66, 0xff])]), '');
    expect((await walk()).names).toEqual([
      'dangling (link)',
      'dir/file',
      'f\u{fffd} (unnameable)',
      'link (link)',
    ]);
  });

  it('a directory that vanishes is empty, or an error, as asked for', async () => {
    touch('a/1', 'b/1');
    const vanishing: FileSystem = {
      ...nodeFileSystem,
      readdir: (path) => {
        if (path.endsWith('/a')) rmSync(path, { recursive: true });
        return nodeFileSystem.readdir(path);
      },
    };
    expect((await walk({}, vanishing)).names).toEqual(['b/1']);
    touch('a/1');
    await expect(walk({ missing: 'throw' }, vanishing)).rejects.toMatchObject({ code: 'ENOENT' });
    await expect(walk({ missing: 'throw', prefix: 'not-there/' })).rejects.toMatchObject({ code: 'ENOENT' });
  });

  it('any other failure is passed on', async () => {
    const error = Object.assign(new Error('EIO'), { code: 'EIO', syscall: 'scandir' });
    await expect(walk({}, { ...nodeFileSystem, readdir: () => Promise.reject(error) })).rejects.toBe(error);
  });

  it('asks before each directory whether to go on', async () => {
    touch('a/1', 'b/1');
    let asked = 0;
    const check = () => {
      if (++asked === 3) throw new Error('stopped');
    };
    await expect(walk({ check })).rejects.toThrow('stopped');
  });
});
