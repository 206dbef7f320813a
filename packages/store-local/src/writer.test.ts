import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObjectStore } from '@holdfast/core/contract';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });
const BYTES = new TextEncoder().encode('some bytes');

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-writer-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function open(overrides: Partial<FileSystem> = {}): Promise<ObjectStore> {
  return openLocalStore(
    { directory: root },
    { fileSystem: { ...nodeFileSystem, ...overrides }, reserveBytes: 0 },
  );
}

const temporaryFiles = () =>
  existsSync(join(root, '.holdfast-tmp')) ? readdirSync(join(root, '.holdfast-tmp')) : [];
const read = async (store: ObjectStore, key: string) =>
  new TextDecoder().decode((await store.get(key, { maxBytes: 100 })).bytes);

/** Records the calls that matter for durability, with short names of their files. */
function traced(): { steps: string[]; fileSystem: FileSystem } {
  const steps: string[] = [];
  const names = new Map<number, string>();
  const short = (path: string) =>
    path.startsWith(root)
      ? path.slice(root.length).replace(/[0-9a-f]{24}-\d+(\.by-[0-9a-f-]+)?/, 'T') || '/'
      : 'above';
  const fileSystem: FileSystem = {
    ...nodeFileSystem,
    open: async (path, flags, mode) => {
      const descriptor = await nodeFileSystem.open(path, flags, mode);
      names.set(descriptor, short(path));
      return descriptor;
    },
    write: async (descriptor, position) => {
      steps.push(`write ${names.get(descriptor)}`);
      return nodeFileSystem.write(descriptor, position);
    },
    fdatasync: async (descriptor) => {
      steps.push(`fdatasync ${names.get(descriptor)}`);
      await nodeFileSystem.fdatasync(descriptor);
    },
    fsync: async (descriptor) => {
      if (names.get(descriptor) !== 'above') steps.push(`fsync ${names.get(descriptor)}`);
      await nodeFileSystem.fsync(descriptor);
    },
    link: async (from, to) => {
      await nodeFileSystem.link(from, to);
      steps.push(`link ${short(to)}`);
    },
  };
  return { steps, fileSystem };
}

describe('create: order', () => {
  it('bytes, then name, then directory and all above are durable before it resolves', async () => {
    const { steps, fileSystem } = traced();
    const store = await openLocalStore({ directory: root }, { fileSystem, reserveBytes: 0 });
    await store.create('a/b', BYTES);
    expect(steps).toEqual([
      'write /.holdfast-tmp/T',
      'fdatasync /.holdfast-tmp/T',
      'link /a/b',
      'fsync /a',
      'fsync /',
    ]);
    steps.length = 0;
    await store.create('a/c', BYTES);
    expect(steps).toEqual(['write /.holdfast-tmp/T', 'fdatasync /.holdfast-tmp/T', 'link /a/c', 'fsync /a']);
    expect(temporaryFiles()).toEqual([]);
    await store.close();
  });

  it('a directory that another process has just made is made durable as well', async () => {
    mkdirSync(join(root, 'theirs'));
    const { steps, fileSystem } = traced();
    const store = await openLocalStore({ directory: root }, { fileSystem, reserveBytes: 0 });
    await store.create('theirs/a', BYTES);
    expect(steps.slice(-2)).toEqual(['fsync /theirs', 'fsync /']);
    await store.close();
  });

  it('creates at the same time share syncs of their directory', async () => {
    const { steps, fileSystem } = traced();
    const store = await openLocalStore({ directory: root }, { fileSystem, reserveBytes: 0 });
    await store.create('d/first', BYTES);
    steps.length = 0;
    await Promise.all(Array.from({ length: 64 }, (_, i) => store.create(`d/${i}`, BYTES)));
    expect(steps.filter((step) => step === 'fdatasync /.holdfast-tmp/T')).toHaveLength(64);
    expect(steps.filter((step) => step === 'fsync /d').length).toBeLessThan(64);
    const [lastLink, lastSync] = [
      steps.findLastIndex((step) => step.startsWith('link')),
      steps.lastIndexOf('fsync /d'),
    ];
    expect(lastSync).toBeGreaterThan(lastLink);
    await store.close();
  });

  it('durability=none syncs nothing', async () => {
    const { steps, fileSystem } = traced();
    const store = await openLocalStore(
      { directory: root, durability: 'none' },
      { fileSystem, reserveBytes: 0 },
    );
    await store.create('a/b', BYTES);
    expect(steps).toEqual(['write /.holdfast-tmp/T', 'link /a/b']);
    await store.close();
  });
});

describe('create: failures before the object has its name', () => {
  it.each([
    ['open', 'EMFILE', 'Unavailable'],
    ['open', 'EEXIST', 'Unavailable'],
    ['open', 'EACCES', 'Denied'],
    ['open', 'EROFS', 'ReadOnly'],
    ['open', 'ENOSPC', 'StorageFull'],
    ['write', 'ENOSPC', 'StorageFull'],
    ['write', 'EDQUOT', 'StorageFull'],
    ['write', 'EFBIG', 'Unsupported'],
    ['write', 'EIO', 'Unavailable'],
    ['fdatasync', 'EIO', 'Unavailable'],
    ['fdatasync', 'ENOSPC', 'StorageFull'],
    ['fstat', 'ESTALE', 'Unavailable'],
    ['link', 'ENOSPC', 'StorageFull'],
    ['link', 'EACCES', 'Denied'],
    ['link', 'EROFS', 'ReadOnly'],
    ['link', 'EXDEV', 'Unsupported'],
    ['link', 'ENAMETOOLONG', 'InvalidArgument'],
    ['link', 'EIO', 'Unavailable'],
    ['mkdir', 'EACCES', 'Denied'],
    ['mkdir', 'ENOSPC', 'StorageFull'],
  ] as const)('%s fails with %s: %s, and there is no object', async (call, errno, expected) => {
    const calls = { ...nodeFileSystem };
    const store = await openLocalStore({ directory: root }, { fileSystem: calls });
    Object.assign(calls, { [call]: () => Promise.reject(errnoError(errno)) });
    await expect(store.create('a/b', BYTES)).rejects.toEqual(code(expected, 'object a/b'));
    expect(existsSync(join(root, 'a/b'))).toBe(false);
    // The descriptor is lost if its close fails. The file is not.
    expect(temporaryFiles()).toEqual([]);
    await expect((await open()).create('a/b', BYTES)).resolves.toMatchObject({ sizeBytes: BYTES.byteLength });
  });

  it('an error of close after the sync does not matter: the bytes are durable', async () => {
    const close = () => Promise.reject(errnoError('EIO'));
    const store = await openLocalStore({ directory: root }, { fileSystem: { ...nodeFileSystem, close } });
    await store.create('a/b', BYTES);
    expect(await store.get('a/b', { maxBytes: 100 })).toMatchObject({ bytes: BYTES });
    await store.close();
  });

  it('a part of the key that is an object is InvalidArgument, on either side', async () => {
    const store = await open();
    await store.create('a/b', BYTES);
    await expect(store.create('a/b/c', BYTES)).rejects.toEqual(
      code('InvalidArgument', 'a part of its path is a file'),
    );
    await expect(store.create('a', BYTES)).rejects.toEqual(
      code('InvalidArgument', 'is a prefix of other keys'),
    );
    expect(temporaryFiles()).toEqual([]);
    await store.close();
  });

  it('a temporary directory that is a file is InvalidArgument', async () => {
    writeFileSync(join(root, '.holdfast-tmp'), '');
    await expect((await open()).create('a', BYTES)).rejects.toEqual(code('InvalidArgument'));
  });

  it('a signal that fires before leaves nothing', async () => {
    const controller = new AbortController();
    const store = await open({
      fdatasync: async (descriptor) => {
        controller.abort();
        await nodeFileSystem.fdatasync(descriptor);
      },
    });
    await expect(store.create('a', BYTES, { signal: controller.signal })).rejects.toEqual(code('Aborted'));
    expect([existsSync(join(root, 'a')), temporaryFiles()]).toEqual([false, []]);
    await store.close();
  });
});

describe('create: failures around the name', () => {
  it('a name that is taken is AlreadyExists, and the object stays', async () => {
    const store = await open();
    await store.create('a', BYTES);
    await expect(store.create('a', new Uint8Array(3))).rejects.toEqual(code('AlreadyExists', 'object a'));
    expect([await read(store, 'a'), temporaryFiles()]).toEqual(['some bytes', []]);
    await store.close();
  });

  it.each(['EEXIST', 'EIO', 'ETIMEDOUT', 'ESTALE'])(
    'an answer to link that was lost and became %s is a success: the name is our own',
    async (errno) => {
      const store = await open({
        link: async (from, to) => {
          await nodeFileSystem.link(from, to);
          throw errnoError(errno);
        },
      });
      expect(await store.create('a/b', BYTES)).toEqual(await store.head('a/b'));
      expect(temporaryFiles()).toEqual([]);
      await store.close();
    },
  );

  it('when even that cannot be found out it is temporary', async () => {
    let hasLinked = false;
    const store = await open({
      link: async (from, to) => {
        await nodeFileSystem.link(from, to);
        hasLinked = true;
        throw errnoError('EIO');
      },
      lstat: (path) => (hasLinked ? Promise.reject(errnoError('EIO')) : nodeFileSystem.lstat(path)),
    });
    await expect(store.create('a', BYTES)).rejects.toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
  });

  it.each(['EIO', 'ENOSPC', 'EDQUOT'])(
    'a name that cannot be made durable (%s) is temporary, because the object may be there',
    async (errno) => {
      const store = await open({ fsync: () => Promise.reject(errnoError(errno)) });
      await expect(store.create('a', BYTES)).rejects.toMatchObject({
        code: 'Unavailable',
        status: 'temporary',
      });
      expect([await read(await open(), 'a'), temporaryFiles()]).toEqual(['some bytes', []]);
    },
  );

  it('a signal that fires after the object has its name does not deny it', async () => {
    const controller = new AbortController();
    const store = await open({
      link: async (from, to) => {
        await nodeFileSystem.link(from, to);
        controller.abort();
      },
    });
    await expect(store.create('a', BYTES, { signal: controller.signal })).resolves.toMatchObject({
      key: 'a',
    });
    await store.close();
  });

  it('a temporary name that stays behind does not make the create fail', async () => {
    const store = await open({ unlink: () => Promise.reject(errnoError('EIO')) });
    await store.create('a', BYTES);
    expect(temporaryFiles()).toHaveLength(1);
    await store.close();
  });
});

describe('create: directories that others remove', () => {
  it('are made again', async () => {
    let removals = 0;
    const store = await open({
      link: async (from, to) => {
        if (removals++ < 15) rmSync(join(root, 'a'), { recursive: true, force: true });
        await nodeFileSystem.link(from, to);
      },
    });
    await store.create('a/b/c', BYTES);
    expect(await read(store, 'a/b/c')).toBe('some bytes');
    await store.close();
  });

  it('but not for ever', async () => {
    let attempts = 0;
    const store = await open({
      link: () => {
        attempts++;
        return Promise.reject(errnoError('ENOENT'));
      },
    });
    await expect(store.create('a/b', BYTES)).rejects.toEqual(code('Unavailable', 'vanished'));
    expect(attempts).toBe(500);
    await store.close();
  });
});

describe('without hard links', () => {
  const noLinks = (errno = 'EPERM') => ({ link: () => Promise.reject(errnoError(errno)) });
  const dataFiles = () => readdirSync(join(root, '.holdfast-data'));

  it.each(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])(
    '(%s) the name is a symbolic link to the whole object',
    async (errno) => {
      const store = await open(noLinks(errno));
      const info = await store.create('a/b/c', BYTES);
      expect(readlinkSync(join(root, 'a/b/c'))).toMatch(/^\.\.\/\.\.\/\.holdfast-data\/[0-9a-f]{24}-1$/);
      expect([await store.head('a/b/c'), await read(store, 'a/b/c')]).toEqual([info, 'some bytes']);
      const buffer = new Uint8Array(4);
      expect(await store.readInto('a/b/c', 5, buffer, { etag: info.etag })).toBe(4);
      for await (const page of store.list('')) expect(page.objects).toEqual([info]);
      await expect(store.create('a/b/c', BYTES)).rejects.toEqual(code('AlreadyExists'));
      expect([dataFiles().length, temporaryFiles()]).toEqual([1, []]);
      await store.deleteMany(['a/b/c']);
      expect([dataFiles(), existsSync(join(root, 'a'))]).toEqual([[], false]);
      await store.close();
    },
  );

  it('the file is durable in its directory before the link exists', async () => {
    const { steps, fileSystem } = traced();
    const store = await openLocalStore(
      { directory: root },
      {
        fileSystem: {
          ...fileSystem,
          ...noLinks(),
          symlink: async (target, path) => {
            steps.push('symlink');
            await nodeFileSystem.symlink(target, path);
          },
        },
      },
    );
    mkdirSync(join(root, 'a'));
    await store.create('a/b', BYTES);
    const order = ['fdatasync /.holdfast-tmp/T', 'fsync /.holdfast-data', 'symlink', 'fsync /a'];
    expect(steps.filter((step) => order.includes(step))).toEqual(order);
    await store.close();
  });

  it('an answer to symlink that was lost is a success', async () => {
    const store = await open({
      ...noLinks(),
      symlink: async (target, path) => {
        await nodeFileSystem.symlink(target, path);
        throw errnoError('EIO');
      },
    });
    await store.create('a', BYTES);
    expect(await read(store, 'a')).toBe('some bytes');
    await store.close();
  });

  it.each(['EPERM', 'ENOTSUP', 'ENOSYS'])(
    'nor symbolic ones (%s) it is Unsupported, and nothing stays behind',
    async (errno) => {
      const store = await open({ ...noLinks(), symlink: () => Promise.reject(errnoError(errno)) });
      await expect(store.create('a', BYTES)).rejects.toEqual(
        code('Unsupported', 'does not allow hard or symbolic links'),
      );
      expect([dataFiles(), temporaryFiles(), existsSync(join(root, 'a'))]).toEqual([[], [], false]);
      await store.close();
    },
  );

  it('a symlink whose outcome is unknown keeps its file, so that it never points at nothing', async () => {
    const store = await open({ ...noLinks(), symlink: () => Promise.reject(errnoError('EIO')) });
    await expect(store.create('a', BYTES)).rejects.toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
    expect(dataFiles()).toHaveLength(1);
    await store.close();
  });

  it("a link that is not the store's own is shown, and what it leads to is never read", async () => {
    writeFileSync(join(root, 'outside'), 'secret');
    mkdirSync(join(root, '.holdfast-data'));
    symlinkSync('outside', join(root, 'foreign'));
    symlinkSync('.holdfast-data/missing', join(root, 'dangling'));
    const store = await open();
    for (const [key, expected] of [
      ['foreign', 'Corrupt'],
      ['dangling', 'NotFound'], // As a deletion and a power loss may leave it.
    ] as const) {
      await expect(store.head(key)).rejects.toEqual(code(expected));
      await expect(store.get(key, { maxBytes: 10 })).rejects.toEqual(code(expected));
      await expect(store.readInto(key, 0, new Uint8Array(1))).rejects.toEqual(code(expected));
    }
    await expect(store.create('foreign', new Uint8Array(1))).rejects.toEqual(code('Corrupt'));
    for await (const page of store.list(''))
      expect(page.objects.map(({ key }) => key)).toEqual(['foreign', 'outside']);
    await store.deleteMany(['foreign']);
    expect(readFileSync(join(root, 'outside'), 'utf8')).toBe('secret');
    await store.close();
  });
});

describe('temporary files of processes that are gone', () => {
  it('are removed at the first write once they are a day old', async () => {
    mkdirSync(join(root, '.holdfast-tmp'));
    const nowSeconds = Date.now() / 1000;
    const [old, young] = [`${'0'.repeat(24)}-1`, `${'0'.repeat(24)}-2`];
    for (const [name, hours] of [
      [old, 25],
      [young, 23],
      ['of others', 25],
    ] as const) {
      writeFileSync(join(root, '.holdfast-tmp', name), '');
      utimesSync(join(root, '.holdfast-tmp', name), nowSeconds, nowSeconds - hours * 3600);
    }
    const store = await open();
    await expect(store.head('a')).rejects.toEqual(code('NotFound'));
    expect(temporaryFiles()).toEqual([old, young, 'of others']);
    await store.create('a', BYTES);
    await store.close();
    expect(temporaryFiles()).toEqual([young, 'of others']);
  });

  it('that cannot be looked at do not stop a write', async () => {
    const store = await open({ readdir: () => Promise.reject(errnoError('EIO')) });
    await store.create('a', BYTES);
    await store.close();
  });
});
