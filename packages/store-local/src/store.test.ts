import { execFileSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ListPage, ObjectStore } from '@holdfast/core/contract';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';
import type { LocalComponents } from './store.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const code = (expected: string, message = '') =>
  expect.objectContaining({ code: expected, message: expect.stringContaining(message) });
const BYTES = new Uint8Array([1, 2, 3]);

let root: string;
const stores: ObjectStore[] = [];
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-store-'));
});
afterEach(async () => {
  await Promise.all(stores.splice(0).map((store) => store.close()));
  rmSync(root, { recursive: true, force: true });
});

async function open(
  overrides: Partial<FileSystem> = {},
  components: LocalComponents = {},
): Promise<ObjectStore> {
  const fileSystem = { ...nodeFileSystem, ...overrides };
  const store = await openLocalStore({ directory: root }, { fileSystem, reserveBytes: 0, ...components });
  stores.push(store);
  return store;
}

async function list(store: ObjectStore, prefix = ''): Promise<ListPage[]> {
  const pages: ListPage[] = [];
  for await (const page of store.list(prefix)) pages.push(page);
  return pages;
}
const keysOf = (pages: ListPage[]) => pages.flatMap((page) => page.objects.map(({ key }) => key));

/** Records which directories are synced, and how many descriptors are open. */
function watched(overrides: Partial<FileSystem> = {}) {
  const names = new Map<number, string>();
  const synced: string[] = [];
  const opened: string[] = [];
  const fileSystem: Partial<FileSystem> = {
    open: async (path, flags, mode) => {
      const descriptor = await nodeFileSystem.open(path, flags, mode);
      names.set(descriptor, path.slice(root.length) || '/');
      opened.push(path.slice(root.length) || '/');
      return descriptor;
    },
    close: async (descriptor) => {
      names.delete(descriptor);
      await nodeFileSystem.close(descriptor);
    },
    fsync: async (descriptor) => {
      if (names.get(descriptor)) synced.push(names.get(descriptor) ?? '');
      await nodeFileSystem.fsync(descriptor);
    },
    ...overrides,
  };
  return { fileSystem, synced, opened, names };
}

describe('list: what it shows is durable', () => {
  it('the directories of young objects are synced before the page is handed out', async () => {
    const writer = await open();
    await writer.create('catalog/1', BYTES);
    await writer.create('v/x/1', BYTES);
    const { fileSystem, synced } = watched();
    const reader = await open(fileSystem);
    const pages = reader.list('');
    const page = await pages[Symbol.asyncIterator]().next();
    expect(keysOf([page.value as ListPage])).toEqual(['catalog/1', 'v/x/1']);
    expect(new Set(synced)).toEqual(new Set(['/catalog', '/v/x', '/v', '/']));
  });

  it('those of objects older than 10 minutes are not; the age is that of the name, not of the bytes', async () => {
    const writer = await open();
    await writer.create('old/1', BYTES);
    // The bytes are old. The name is new.
    utimesSync(join(root, 'old/1'), 1, 1);
    // Makes a new file this much younger.
    const later = (byMs: number): Partial<FileSystem> => ({
      fstat: async (descriptor) => {
        const stats = await nodeFileSystem.fstat(descriptor);
        return Object.assign(stats, { mtimeNs: stats.mtimeNs + BigInt(byMs) * 1_000_000n });
      },
    });
    const young = watched();
    await list(await open({ ...young.fileSystem, ...later(590_000) }));
    expect(young.synced).toContain('/old');
    const old = watched();
    await list(await open({ ...old.fileSystem, ...later(601_000) }));
    expect(old.synced).toEqual([]);
  });

  it.each(['EROFS', 'EACCES', 'EBADF'])(
    'a directory that cannot be synced (%s) is listed all the same',
    async (errno) => {
      await (await open()).create('a', BYTES);
      const reader = await open({ fsync: () => Promise.reject(errnoError(errno)) });
      expect(keysOf(await list(reader))).toEqual(['a']);
    },
  );

  it('a sync that fails is an error: the object may vanish', async () => {
    await (await open()).create('a', BYTES);
    const reader = await open({ fsync: () => Promise.reject(errnoError('EIO')) });
    await expect(list(reader)).rejects.toEqual(code('Unavailable', 'object a'));
  });
});

describe('list', () => {
  it("shows no directories, and no files of the store's own", async () => {
    const store = await open();
    await store.create('a', BYTES);
    await store.beginUpload('b', { partSizeBytes: 4096 });
    writeFileSync(join(root, '.holdfast-note'), '');
    mkdirSync(join(root, 'empty'));
    expect(keysOf(await list(store))).toEqual(['a']);
    await expect(store.get('empty', { maxBytes: 1 })).rejects.toEqual(code('NotFound'));
  });

  describe('an entry of another kind with the name of an object is listed, and every call says what it is:', () => {
    const KEY = 'catalog/00000000000000000007.json';
    const MAKERS = {
      'a symbolic link': (path: string) => symlinkSync('/etc/hostname', path),
      'a pipe': (path: string) => execFileSync('mkfifo', [path]),
      'a directory': (path: string) => mkdirSync(path),
    };

    it.each(Object.entries(MAKERS))('%s', async (what, make) => {
      const store = await open();
      await store.create('catalog/00000000000000000006.json', BYTES);
      make(join(root, KEY));
      expect(keysOf(await list(store)).at(-1)).toBe(KEY);
      expect(keysOf(await list(store, 'catalog/00000000000000000007'))).toEqual([KEY]);
      const usurped = code('Corrupt', `is no file: ${root}/${KEY} is ${what}`);
      await expect(store.get(KEY, { maxBytes: 99 })).rejects.toEqual(usurped);
      await expect(store.head(KEY)).rejects.toEqual(usurped);
      await expect(store.readInto(KEY, 0, new Uint8Array(1))).rejects.toEqual(usurped);
    });

    it('a listing that starts after such a directory does not show it', async () => {
      const store = await open();
      mkdirSync(join(root, KEY), { recursive: true });
      const pages: ListPage[] = [];
      for await (const page of store.list('catalog/', { startAfter: KEY })) pages.push(page);
      expect(keysOf(pages)).toEqual([]);
    });
  });

  it('comes in pages of at most 1,000, each with the time of its request', async () => {
    mkdirSync(join(root, 'd'));
    for (let i = 0; i < 2001; i++) writeFileSync(join(root, 'd', String(i).padStart(5, '0')), '');
    let now = 5_000_000_000_000;
    const store = await open({}, { clock: { nowMs: () => now++ } });
    const pages = await list(store, 'd/');
    expect(pages.map((page) => page.objects.length)).toEqual([1000, 1000, 1]);
    const times = pages.map((page) => page.storeTimeMs - 5_000_000_000_000);
    expect([times, new Set(times).size]).toEqual([times.toSorted((a, b) => a - b), 3]);
  });

  it('passes over what is deleted meanwhile', async () => {
    const store = await open({
      lstat: (path) => {
        if (path.endsWith('/b')) rmSync(path, { force: true });
        return nodeFileSystem.lstat(path);
      },
    });
    for (const key of ['a', 'b', 'c']) await store.create(key, BYTES);
    expect(keysOf(await list(store))).toEqual(['a', 'c']);
  });

  it('does not touch directories that the prefix excludes', async () => {
    const store = await open();
    for (const key of ['version_1/a', 'version_10/a', 'catalog/1']) await store.create(key, BYTES);
    const read: string[] = [];
    const reader = await open({
      readdir: (path) => {
        read.push(path.slice(root.length));
        return nodeFileSystem.readdir(path);
      },
    });
    expect(keysOf(await list(reader, 'version_1/'))).toEqual(['version_1/a']);
    expect(read).toEqual(['/version_1']);
  });

  it('a directory that cannot be read is an error, never an empty listing', async () => {
    for (const [errno, expected] of [
      ['EACCES', 'Denied'],
      ['EIO', 'Unavailable'],
      ['EMFILE', 'Unavailable'],
    ] as const) {
      const store = await open({ readdir: () => Promise.reject(errnoError(errno)) });
      await expect(list(store)).rejects.toEqual(code(expected, 'cannot list'));
    }
  });
});

describe('keys', () => {
  it.each(['.holdfast-tmp/x', '.holdfast-x'])("%s is the store's own, and InvalidArgument", async (key) => {
    const store = await open();
    await expect(store.create(key, BYTES)).rejects.toEqual(code('InvalidArgument', 'reserved for stores'));
    await expect(store.deleteMany([key])).rejects.toEqual(code('InvalidArgument', 'reserved for stores'));
    await store.create(`run/${key}`, BYTES);
  });
});

describe('reading', () => {
  it('a file read in many ranges is opened once, and closed with the store', async () => {
    const { fileSystem, opened, names } = watched();
    const store = await open(fileSystem);
    await store.create('a', new Uint8Array(10_000).fill(7));
    const before = opened.filter((path) => path === '/a').length;
    const buffer = new Uint8Array(1000);
    await Promise.all(Array.from({ length: 10 }, (_, i) => store.readInto('a', i * 1000, buffer.slice())));
    expect(opened.filter((path) => path === '/a').length - before).toBe(1);
    await store.close();
    expect(names.size).toBe(0);
  });

  it('an object that was deleted is gone, though its file is still open', async () => {
    const [store, other] = [await open(), await open()];
    await store.create('a', BYTES);
    await store.readInto('a', 0, new Uint8Array(3));
    await other.deleteMany(['a']);
    await expect(store.readInto('a', 0, new Uint8Array(3))).rejects.toEqual(code('NotFound'));
  });

  it('an object that is another by now is Corrupt with the old etag, and read anew without', async () => {
    const store = await open();
    const { etag } = await store.create('a', BYTES);
    const buffer = new Uint8Array(3);
    await store.readInto('a', 0, buffer, { etag });
    rmSync(join(root, 'a'));
    writeFileSync(join(root, 'a'), new Uint8Array([7, 8, 9]));
    await expect(store.readInto('a', 0, buffer, { etag })).rejects.toEqual(code('Corrupt', 'another object'));
    await store.readInto('a', 0, buffer);
    expect([...buffer]).toEqual([7, 8, 9]);
  });

  it('an object that is replaced between looking and opening is Corrupt', async () => {
    let isOn = false;
    const store = await open({
      open: (path, flags, mode) => {
        if (isOn && path.endsWith('/a')) writeFileSync(path, 'longer than before');
        return nodeFileSystem.open(path, flags, mode);
      },
    });
    await store.create('a', BYTES);
    isOn = true;
    await expect(store.readInto('a', 0, new Uint8Array(3))).rejects.toEqual(
      code('Corrupt', 'while it was opened'),
    );
  });

  it('get refuses a large object before it reads it, and one that ends too early', async () => {
    let reads = 0;
    const store = await open({
      read: async (descriptor, position) => {
        reads++;
        return nodeFileSystem.read(descriptor, {
          ...position,
          lengthBytes: Math.min(position.lengthBytes, 2 - position.start),
        });
      },
    });
    await store.create('a', BYTES);
    await expect(store.get('a', { maxBytes: 2 })).rejects.toEqual(code('Corrupt', 'has 3 bytes; at most 2'));
    expect(reads).toBe(0);
    await expect(store.get('a', { maxBytes: 3 })).rejects.toEqual(code('Corrupt', 'ends at byte 2 of 3'));
  });

  it.each([
    ['EIO', 'Unavailable'],
    ['ESTALE', 'Unavailable'],
  ])('a device that fails (%s) is %s, in every way of reading', async (errno, expected) => {
    await (await open()).create('a', BYTES);
    const store = await open({ read: () => Promise.reject(errnoError(errno)) });
    await expect(store.get('a', { maxBytes: 3 })).rejects.toEqual(code(expected, 'object a'));
    await expect(store.readInto('a', 0, new Uint8Array(3))).rejects.toEqual(code(expected, 'object a'));
    const blind = await open({ lstat: () => Promise.reject(errnoError(errno)) });
    await expect(blind.head('a')).rejects.toEqual(code(expected, 'object a'));
  });

  it("the time of creation is that of the last write of bytes, by the file system's clock", async () => {
    const store = await open();
    const info = await store.create('a', BYTES);
    expect(info.createdAtMs).toBe(Math.floor(statSync(join(root, 'a')).mtimeMs));
    expect(Math.abs(info.createdAtMs - Date.now())).toBeLessThan(60_000);
  });
});

describe('deleteMany', () => {
  it('removes directories that became empty, up to the root, and no others', async () => {
    const store = await open();
    for (const key of ['v/1/x/a', 'v/1/x/b', 'v/2/a', 'w/a']) await store.create(key, BYTES);
    await store.deleteMany(['v/1/x/a']);
    expect(existsSync(join(root, 'v/1/x'))).toBe(true);
    await store.deleteMany(['v/1/x/b', 'w/a', 'never/was/here']);
    expect(readdirSync(root).sort()).toEqual(['.holdfast-tmp', 'v']);
    expect(readdirSync(join(root, 'v'))).toEqual(['2']);
    await store.deleteMany(['v/2/a']);
    expect(existsSync(root)).toBe(true);
  });

  it('goes nowhere by a link that took the place of a directory, be it above', async () => {
    const store = await open();
    for (const key of ['v/1/a', 'v/2/a']) await store.create(key, BYTES);
    const outside = `${root}-outside`;
    mkdirSync(join(outside, '1'), { recursive: true });
    for (const name of ['a', '1/a']) writeFileSync(join(outside, name), 'mine');
    for (const [directory, key] of [
      ['v/1', 'v/1/a'],
      ['v', 'v/1/a'],
    ] as const) {
      rmSync(join(root, directory), { recursive: true });
      symlinkSync(outside, join(root, directory));
      expect(await store.deleteMany([key])).toEqual([{ key }]);
      expect([existsSync(join(outside, 'a')), existsSync(join(outside, '1/a'))]).toEqual([true, true]);
      rmSync(join(root, directory));
    }
    rmSync(outside, { recursive: true });
  });

  it('nor when the directory becomes a link while it is deleted from', async () => {
    const outside = `${root}-outside`;
    mkdirSync(outside);
    writeFileSync(join(outside, 'a'), 'mine');
    await (await open()).create('v/a', BYTES);
    // Called just before the file is unlinked.
    const swapping = async (path: string) => {
      if (path.endsWith('/a') && !existsSync(join(root, 'aside'))) {
        renameSync(join(root, 'v'), join(root, 'aside'));
        symlinkSync(outside, join(root, 'v'));
      }
      return nodeFileSystem.unlink(path);
    };
    const store = await open({ unlink: swapping });
    expect(await store.deleteMany(['v/a'])).toEqual([{ key: 'v/a' }]);
    expect([readdirSync(outside), readdirSync(join(root, 'aside'))]).toEqual([['a'], []]);
    rmSync(outside, { recursive: true });
  });

  it('a store that is named by a link is deleted from, at its root and below', async () => {
    symlinkSync(root, `${root}-link`);
    const store = await openLocalStore({ directory: `${root}-link` }, { reserveBytes: 0 });
    for (const key of ['a', 'v/b']) await store.create(key, BYTES);
    expect(await store.deleteMany(['a', 'v/b'])).toEqual([{ key: 'a' }, { key: 'v/b' }]);
    expect(readdirSync(root)).toEqual(['.holdfast-tmp']);
    await store.close();
    rmSync(`${root}-link`);
  });

  it('one failure does not stop the others', async () => {
    const store = await open({
      unlink: (path) =>
        path.endsWith('/b') ? Promise.reject(errnoError('EACCES')) : nodeFileSystem.unlink(path),
    });
    for (const key of ['a', 'b', 'c']) await store.create(key, BYTES);
    const results = await store.deleteMany(['a', 'b', 'c']);
    expect(results.map(({ key, error }) => [key, error?.code])).toEqual([
      ['a', undefined],
      ['b', 'Denied'],
      ['c', undefined],
    ]);
    expect(keysOf(await list(store))).toEqual(['b']);
  });

  it('a key that is the prefix of others is no object, and takes nothing with it', async () => {
    const store = await open();
    await store.create('a/b', BYTES);
    expect(await store.deleteMany(['a', 'a/b/c'])).toEqual([{ key: 'a' }, { key: 'a/b/c' }]);
    const elsewhere = await open({ unlink: () => Promise.reject(errnoError('EPERM')) });
    expect(await elsewhere.deleteMany(['a'])).toEqual([{ key: 'a' }]);
    expect(keysOf(await list(store))).toEqual(['a/b']);
  });

  it('creates succeed in directories that others keep emptying and removing', async () => {
    const [creator, deleter] = [await open(), await open()];
    let hasEnded = false;
    const deleting = (async () => {
      for (let i = 0; !hasEnded; i++) await deleter.deleteMany([`d/e/${i % 10}`]);
    })();
    let created = 0;
    const failures: unknown[] = [];
    for (let i = 0; i < 300; i++)
      await creator.create(`d/e/${i % 10}`, BYTES).then(
        () => created++,
        (error: unknown) => failures.push(error),
      );
    hasEnded = true;
    await deleting;
    for (const failure of failures) expect(failure).toEqual(code('AlreadyExists'));
    expect(created).toBeGreaterThan(0);
  });
});

describe('close', () => {
  it('stops a call under way between two system calls, and waits for it', async () => {
    const { promise: gate, resolve } = Promise.withResolvers<void>();
    let hasBegun = false;
    const { fileSystem, names } = watched({
      fdatasync: async (descriptor) => {
        hasBegun = true;
        await gate;
        await nodeFileSystem.fdatasync(descriptor);
      },
    });
    const store = await open(fileSystem);
    const creating = store.create('a', BYTES).catch((error: unknown) => error);
    while (!hasBegun) await new Promise(setImmediate);
    const closing = store.close();
    expect(store.close()).toBe(closing);
    resolve();
    await closing;
    expect(await creating).toEqual(code('Aborted', 'was closed'));
    expect([existsSync(join(root, 'a')), readdirSync(join(root, '.holdfast-tmp')), names.size]).toEqual([
      false,
      [],
      0,
    ]);
  });

  it('a closed store refuses every call', async () => {
    const store = await open();
    await store.close();
    const refused = code('InvalidArgument', 'is closed');
    await expect(store.head('a')).rejects.toEqual(refused);
    await expect(store.create('a', BYTES)).rejects.toEqual(refused);
    await expect(list(store)).rejects.toEqual(refused);
    await expect(store.deleteMany([])).rejects.toEqual(refused);
    await expect(store.beginUpload('a', { partSizeBytes: 4096 })).rejects.toEqual(refused);
    await expect(store.resumeUpload('x')).rejects.toEqual(refused);
  });
});
