import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { createLocalFiles, localFiles } from './index.ts';

const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-scan-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

function write(name: string, text = ''): void {
  mkdirSync(dirname(join(directory, name)), { recursive: true });
  writeFileSync(join(directory, name), text);
}

describe('a link that is put in the place of something after the scan', () => {
  /** Result of opening the only scanned file, if `swap` is called in between. */
  async function openedAfter(swap: () => void, fileSystem = nodeFileSystem): Promise<string> {
    write('data/sub/a', 'inside');
    write('outside/a', 'outside');
    const {
      files: [found],
    } = await createLocalFiles(fileSystem).scan(join(directory, 'data'));
    swap();
    const source = await found!.open().catch((error: { code: string }) => error.code);
    if (typeof source === 'string') return source;
    const buffer = new Uint8Array(source.sizeBytes);
    await source.readInto(0, buffer);
    await source.close();
    return Buffer.from(buffer).toString();
  }
  const swapped = (name: string, target: string) => () => {
    rmSync(join(directory, name), { recursive: true });
    symlinkSync(target, join(directory, name));
  };
  // As without /proc.
  const withoutPlaces = {
    ...nodeFileSystem,
    readlink: () =>
      Promise.reject(Object.assign(new Error('ENOENT'), { code: 'ENOENT', syscall: 'readlink' })),
  };

  it.each([
    ['', nodeFileSystem],
    [', where the system does not tell where a file lies', withoutPlaces],
  ])('is not followed, be it the file or a directory above%s', async (_, fileSystem) => {
    expect(await openedAfter(() => undefined, fileSystem)).toBe('inside');
    expect(await openedAfter(swapped('data/sub/a', '../../outside/a'), fileSystem)).toBe('InvalidArgument');
    rmSync(directory, { recursive: true });
    expect(await openedAfter(swapped('data/sub', '../outside'), fileSystem)).toBe('SourceChanged');
    rmSync(directory, { recursive: true });
    const above = openedAfter(() => {
      renameSync(join(directory, 'data'), join(directory, 'moved'));
      write('other/sub/a', 'outside');
      symlinkSync('other', join(directory, 'data'));
    }, fileSystem);
    expect(await above).toBe('SourceChanged');
  });

  it('is not followed when it was there during the scan already', async () => {
    write('data/sub/a', 'inside');
    write('outside/a', 'outside');
    // The directory is a link from the time it is read until it is opened.
    const swapping: FileSystem = {
      ...nodeFileSystem,
      readdir: async (path) => {
        if (path.endsWith('/sub')) swapped('data/sub', '../outside')();
        return nodeFileSystem.readdir(path);
      },
    };
    const {
      files: [found],
    } = await createLocalFiles(swapping).scan(join(directory, 'data'));
    await expect(found!.open()).rejects.toEqual(code('SourceChanged', 'no longer leads to the file'));
  });

  it('nor is a file opened that took the place of the one found: the others may be of another state', async () => {
    const replaced = openedAfter(() => {
      write('data/sub/b', 'newer');
      renameSync(join(directory, 'data/sub/b'), join(directory, 'data/sub/a'));
    });
    expect(await replaced).toBe('SourceChanged');
  });

  it('a file that loses its name while it is opened is the one that was found', async () => {
    const late: FileSystem = {
      ...nodeFileSystem,
      fstat: async (descriptor) => {
        rmSync(join(directory, 'data/sub/a'), { force: true });
        return nodeFileSystem.fstat(descriptor);
      },
    };
    expect(await openedAfter(() => undefined, late)).toBe('inside');
  });
});

describe('scan', () => {
  it('finds every regular file, hidden ones too, by the bytes of its name, with its size', async () => {
    write('b/2', 'two');
    write('b-1', '1');
    write('.hidden', '');
    write('é', 'é');
    write('b/c/d e');
    expect((await localFiles.scan(directory)).files).toEqual([
      { name: '.hidden', sizeBytes: 0, open: expect.any(Function) },
      { name: 'b-1', sizeBytes: 1, open: expect.any(Function) },
      { name: 'b/2', sizeBytes: 3, open: expect.any(Function) },
      { name: 'b/c/d e', sizeBytes: 0, open: expect.any(Function) },
      { name: 'é', sizeBytes: 2, open: expect.any(Function) },
    ]);
  });

  it('what it finds can be opened and read; a file that has gone since is NotFound', async () => {
    write('a', 'abc');
    write('b', 'x');
    const {
      files: [a, b],
    } = await localFiles.scan(directory);
    const source = await a?.open();
    const buffer = new Uint8Array(2);
    await source?.readInto(1, buffer);
    expect(Buffer.from(buffer).toString()).toBe('bc');
    await source?.assertUnchanged();
    await source?.close();
    rmSync(join(directory, 'b'));
    await expect(b?.open()).rejects.toEqual(code('NotFound', `${directory}/b`));
  });

  it('finds more files than are looked at together', async () => {
    for (let i = 0; i < 150; i++) write(`f${String(i).padStart(3, '0')}`, 'x'.repeat(i));
    const { files } = await localFiles.scan(directory);
    expect(files.map(({ sizeBytes }) => sizeBytes)).toEqual(Array.from({ length: 150 }, (_, i) => i));
  });

  it('takes a relative path, and a symbolic link to the directory itself', async () => {
    write('data/a');
    symlinkSync('data', join(directory, 'link'));
    for (const path of [relative(process.cwd(), join(directory, 'data')), join(directory, 'link')]) {
      expect((await localFiles.scan(path)).files.map(({ name }) => name)).toEqual(['a']);
    }
  });

  it('a directory that is not there is NotFound', async () => {
    await expect(localFiles.scan(join(directory, 'none'))).rejects.toEqual(
      code('NotFound', `${directory}/none`),
    );
  });

  it('a file is InvalidArgument', async () => {
    write('a');
    await expect(localFiles.scan(join(directory, 'a'))).rejects.toEqual(
      code('InvalidArgument', 'is not a directory'),
    );
  });

  it('a directory without a file, however many directories it has, is InvalidArgument', async () => {
    await expect(localFiles.scan(directory)).rejects.toEqual(code('InvalidArgument', 'holds no file'));
    mkdirSync(join(directory, 'a/b'), { recursive: true });
    await expect(localFiles.scan(directory)).rejects.toEqual(code('InvalidArgument', 'holds no file'));
  });

  it.each(['a', 'nowhere'])('a symbolic link (to %s) is InvalidArgument that names it', async (target) => {
    write('a');
    mkdirSync(join(directory, 'd'));
    symlinkSync(target, join(directory, 'd/link'));
    await expect(localFiles.scan(directory)).rejects.toEqual(
      code('InvalidArgument', `${directory}/d/link is a symbolic link;`),
    );
  });

  it('a special file is InvalidArgument that names it', async () => {
    write('a');
    execFileSync('mkfifo', [join(directory, 'pipe')]);
    await expect(localFiles.scan(directory)).rejects.toEqual(
      code('InvalidArgument', `${directory}/pipe is a socket, a named pipe`),
    );
  });

  it.runIf(process.platform === 'linux')('a name that is not UTF-8 is InvalidArgument', async () => {
    write('a');
    writeFileSync(Buffer.concat([Buffer.from(`${directory}/x`), Buffer.from([0xff])]), '');
    await expect(localFiles.scan(directory)).rejects.toEqual(code('InvalidArgument', 'not valid UTF-8'));
  });

  it('a directory that may not be read is Denied', async () => {
    const error = Object.assign(new Error('EACCES'), { code: 'EACCES', syscall: 'scandir' });
    const files = createLocalFiles({ ...nodeFileSystem, readdir: () => Promise.reject(error) });
    await expect(files.scan(directory)).rejects.toEqual(code('Denied', directory));
  });

  it('what vanishes meanwhile is not passed over silently', async () => {
    write('a/1');
    write('b/1');
    const files = createLocalFiles({
      ...nodeFileSystem,
      readdir: (path) => {
        if (path.endsWith('/a')) rmSync(path, { recursive: true });
        return nodeFileSystem.readdir(path);
      },
    });
    await expect(files.scan(directory)).rejects.toEqual(code('NotFound'));
  });

  it('stops when the signal fires', async () => {
    write('a/1');
    await expect(localFiles.scan(directory, { signal: AbortSignal.abort() })).rejects.toEqual(
      code('Aborted'),
    );
    const controller = new AbortController();
    const files = createLocalFiles({
      ...nodeFileSystem,
      readdir: (path) => {
        controller.abort();
        return nodeFileSystem.readdir(path);
      },
    });
    await expect(files.scan(directory, { signal: controller.signal })).rejects.toEqual(code('Aborted'));
  });
});

describe('empty directories', () => {
  const found = async (options: Parameters<typeof localFiles.scan>[1] = {}) => {
    const { files, directories } = await localFiles.scan(join(directory, 'data'), options);
    return [files.map(({ name }) => name), directories.map(({ name }) => name)];
  };
  const make = (...names: readonly string[]) => {
    for (const name of names) mkdirSync(join(directory, name), { recursive: true });
  };

  it('are those in which nothing lies, sorted by the bytes of their names', async () => {
    for (const name of ['data/a/b/1', 'data/a-b', 'data/z']) write(name);
    make('data/a/c/deep', 'data/a/b0', 'data/é', 'data/y', 'data/a/b/d');
    expect(await found()).toEqual([
      ['a-b', 'a/b/1', 'z'],
      ['a/b/d', 'a/b0', 'a/c/deep', 'y', 'é'],
    ]);
  });

  it('are those too in which all is left out; one that is left out itself is not', async () => {
    for (const name of ['data/a/1.tmp', 'data/cache/1', 'data/z']) write(name);
    make('data/cache/d', 'data/b/c');
    symlinkSync('nowhere', join(directory, 'data/b/c/link'));
    const isExcluded = (name: string) => name.endsWith('.tmp') || name === 'cache';
    expect(await found({ isExcluded, links: 'skip' })).toEqual([['z'], ['a', 'b/c']]);
  });

  it('are found behind links that are followed, under the names of these', async () => {
    write('data/m');
    make('other/deep', 'none', 'data/b');
    symlinkSync('../other', join(directory, 'data/a'));
    symlinkSync('../../none', join(directory, 'data/b/link'));
    expect(await found({ links: 'follow' })).toEqual([['m'], ['a/deep', 'b/link']]);
  });
});

describe('what is left out, and what becomes of links', () => {
  const names = async (options: Parameters<typeof localFiles.scan>[1], name = 'data') =>
    (await localFiles.scan(join(directory, name), options)).files.map((file) => file.name);
  const link = (name: string, target: string) => {
    mkdirSync(dirname(join(directory, name)), { recursive: true });
    symlinkSync(target, join(directory, name));
  };

  it('a name is left out with all below, be it a directory that cannot be read, a link or a pipe', async () => {
    for (const name of ['data/a', 'data/cache/b', 'data/sub/c.tmp', 'data/sub/d']) write(name);
    link('data/link', 'nowhere');
    execFileSync('mkfifo', [join(directory, 'data/pipe')]);
    const out = new Set(['cache', 'sub/c.tmp', 'link', 'pipe']);
    expect(await names({ isExcluded: (name) => out.has(name) })).toEqual(['a', 'sub/d']);
    await expect(names({ isExcluded: () => true })).rejects.toEqual(
      code('InvalidArgument', 'holds no file that is not excluded'),
    );
  });

  it('links are left out on request; other things are still refused', async () => {
    write('data/a');
    link('data/b', 'nowhere');
    link('data/c', '..');
    expect(await names({ links: 'skip' })).toEqual(['a']);
    execFileSync('mkfifo', [join(directory, 'data/pipe')]);
    await expect(names({ links: 'skip' })).rejects.toEqual(code('InvalidArgument', 'named pipe'));
  });

  it('followed, files and directories are found under the name of the link, in order, and read', async () => {
    write('blobs/1', 'one');
    write('blobs/dir/2', 'two');
    write('data/m');
    link('data/a.bin', '../blobs/1');
    link('data/z', '../blobs/dir');
    link('blobs/dir/3', '../1');
    link('data-link', 'data');
    for (const name of ['data', 'data-link'])
      expect(await names({ links: 'follow' }, name)).toEqual(['a.bin', 'm', 'z/2', 'z/3']);
    expect(await names({ links: 'follow', isExcluded: (name) => name === 'z/2' })).toEqual([
      'a.bin',
      'm',
      'z/3',
    ]);
    const { files } = await localFiles.scan(join(directory, 'data'), { links: 'follow' });
    const source = await files[0]?.open();
    const buffer = new Uint8Array(3);
    await source?.readInto(0, buffer);
    await source?.close();
    expect(Buffer.from(buffer).toString()).toBe('one');
  });

  it.each([
    ['one that leads nowhere', 'nowhere', 'is a symbolic link to a file that does not exist'],
    ['one to the directory that holds it', '..', 'is a symbolic link to a directory that contains it'],
    ['one to the root', '/', 'is a symbolic link to a directory that contains it'],
    ['one to itself', 'link', 'is a symbolic link to a file that does not exist'],
    ['one to a device', '/dev/null', 'a device'],
  ])('followed, %s is refused', async (_, target, says) => {
    write('data/a');
    link('data/sub/link', target);
    await expect(names({ links: 'follow' })).rejects.toEqual(code('InvalidArgument', says));
  });

  it('followed, two directories that lead to each other are refused', async () => {
    write('data/a');
    write('other/b');
    link('data/to-other', '../other');
    link('other/to-data', '../data');
    await expect(names({ links: 'follow' })).rejects.toEqual(code('InvalidArgument', 'contains it'));
  });

  it('a link that leads elsewhere by the time it is opened is noticed', async () => {
    write('blobs/1', 'one');
    write('blobs/2', 'two');
    link('data/a', '../blobs/1');
    const {
      files: [found],
    } = await localFiles.scan(join(directory, 'data'), { links: 'follow' });
    rmSync(join(directory, 'blobs/1'));
    symlinkSync('2', join(directory, 'blobs/1'));
    await expect(found?.open()).rejects.toEqual(code('InvalidArgument', 'link'));
  });
});
