import { mkdirSync, mkdtempSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { DirectorySync, SyncFailedBefore } from './directory-sync.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-sync-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** Records which directories are synced; `atSync` may wait or fail. */
function traced(
  atSync: (path: string) => Promise<void> = () => Promise.resolve(),
  overrides: Partial<FileSystem> = {},
) {
  const synced: string[] = [];
  const names = new Map<number, string>();
  const fileSystem: FileSystem = {
    ...nodeFileSystem,
    open: async (path, flags, mode) => {
      const descriptor = await nodeFileSystem.open(path, flags, mode);
      names.set(descriptor, path);
      return descriptor;
    },
    fsync: async (descriptor) => {
      const path = names.get(descriptor) ?? '';
      await atSync(path);
      await nodeFileSystem.fsync(descriptor);
      synced.push(path);
    },
    ...overrides,
  };
  return { synced, sync: new DirectorySync({ fileSystem }) };
}

const belowRoot = (paths: string[]) =>
  paths.filter((path) => path.startsWith(root)).map((path) => path.slice(root.length));

test('syncs the directory and those above it, up to the mount point', async () => {
  mkdirSync(join(root, 'a/b'), { recursive: true });
  const { synced, sync } = traced();
  await sync.sync(join(root, 'a/b'));
  expect(belowRoot(synced)).toEqual(['/a/b', '/a', '']);
  expect(synced).toContain(dirname(root));
});

test('a directory whose name is known to be durable is synced alone', async () => {
  mkdirSync(join(root, 'a/b'), { recursive: true });
  const { synced, sync } = traced();
  await sync.sync(join(root, 'a/b'));
  synced.length = 0;
  await sync.sync(join(root, 'a/b'));
  expect(belowRoot(synced)).toEqual(['/a/b']);
  mkdirSync(join(root, 'a/c'));
  await sync.sync(join(root, 'a/c'));
  expect(belowRoot(synced)).toEqual(['/a/b', '/a/c', '/a']);
});

test('a directory that another process removed and created again is a new one', async () => {
  const path = join(root, 'a');
  mkdirSync(path);
  const { synced, sync } = traced();
  await sync.sync(path);
  synced.length = 0;
  rmdirSync(path);
  mkdirSync(path);
  await sync.sync(path);
  expect(belowRoot(synced)).toEqual(['/a', '']);
});

test('concurrent calls share one sync, which begins after the last of them', async () => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>();
  const begun: string[] = [];
  const { synced, sync } = traced(async (path) => {
    begun.push(path);
    if (begun.length === 1) await gate;
  });
  const first = sync.sync(root);
  while (begun.length === 0) await new Promise(setImmediate);
  // The current one may have missed what these callers did before they called.
  const later = [sync.sync(root), sync.sync(root), sync.sync(root)];
  open();
  await Promise.all([first, ...later]);
  expect(belowRoot(synced)).toEqual(['', '']);
});

test('a failure reaches those who shared the sync and all who come later: another fsync would prove nothing', async () => {
  let failures = 1;
  const { synced, sync } = traced(async () => {
    if (failures-- > 0) throw errnoError('EIO');
  });
  const first = sync.sync(root);
  const second = sync.sync(root);
  await expect(first).rejects.toEqual(errnoError('EIO'));
  await expect(second).rejects.toBeInstanceOf(SyncFailedBefore);
  await expect(sync.sync(root)).rejects.toMatchObject({ code: 'EIO', syscall: 'fsync' });
  expect(synced).toEqual([]);
  expect(() => sync.assertTrusted(root)).toThrow(SyncFailedBefore);
  expect(() => sync.assertTrusted(join(root, 'a'))).toThrow(SyncFailedBefore);
  sync.assertTrusted(dirname(root));
});

test('a failure above is one of all that rests on it; what was durable before stays so', async () => {
  for (const name of ['before', 'after']) mkdirSync(join(root, name));
  let isBroken = false;
  const { sync } = traced(async (path) => {
    if (isBroken && path === root) throw errnoError('EIO');
  });
  await sync.sync(join(root, 'before'));
  isBroken = true;
  await expect(sync.sync(join(root, 'after'))).rejects.toMatchObject({ code: 'EIO' });
  isBroken = false;
  await expect(sync.sync(join(root, 'after'))).rejects.toBeInstanceOf(SyncFailedBefore);
  expect(() => sync.assertTrusted(join(root, 'after/file'))).toThrow(SyncFailedBefore);
  await sync.sync(join(root, 'before'));
  sync.assertTrusted(join(root, 'before/file'));
});

test.each([
  ['open', 'EMFILE'],
  ['fsync', 'EINTR'],
] as const)('%s that fails with %s has lost nothing: the next one tries again', async (call, errno) => {
  const calls = { ...nodeFileSystem };
  const sync = new DirectorySync({ fileSystem: calls });
  Object.assign(calls, { [call]: () => Promise.reject(errnoError(errno)) });
  await expect(sync.sync(root)).rejects.toMatchObject({ code: errno });
  Object.assign(calls, nodeFileSystem);
  await sync.sync(root);
});

test('a file that failed is not trusted again; others are', async () => {
  for (const name of ['a', 'b']) writeFileSync(join(root, name), 'bytes');
  let failures = 1;
  const { sync } = traced(undefined, {
    fdatasync: (descriptor) =>
      failures-- > 0 ? Promise.reject(errnoError('EIO')) : nodeFileSystem.fdatasync(descriptor),
  });
  await expect(sync.syncFile(join(root, 'a'))).rejects.toMatchObject({ code: 'EIO' });
  await expect(sync.syncFile(join(root, 'a'))).rejects.toBeInstanceOf(SyncFailedBefore);
  await sync.syncFile(join(root, 'b'));
});

test('after a thousand failures nothing is trusted: memory is bounded, and the disk is broken', async () => {
  const { sync } = traced(async () => {
    throw errnoError('EIO');
  });
  for (let index = 0; index < 1000; index++) {
    sync.assertTrusted(root);
    const directory = join(root, `${index}`);
    mkdirSync(directory);
    await expect(sync.sync(directory)).rejects.toEqual(errnoError('EIO'));
  }
  expect(() => sync.assertTrusted(root)).toThrow(SyncFailedBefore);
});

test.each(['EROFS', 'EBADF', 'EINVAL', 'ENOTSUP', 'EACCES', 'EPERM'])(
  'where a directory cannot be synced (%s) nothing is reported',
  async (errno) => {
    const { sync } = traced(async () => {
      throw errnoError(errno);
    });
    await sync.sync(root);
  },
);

test('a directory that is gone has no name to keep', async () => {
  await traced().sync.sync(join(root, 'gone'));
});

test('stops at a mount point: what lies above is another file system', async () => {
  const { synced, sync } = traced(undefined, {
    stat: async (path) => Object.assign(await nodeFileSystem.stat(path), { dev: 424242n }),
  });
  await sync.sync(root);
  expect(synced).toEqual([root]);
});

test('switched off, it does nothing', async () => {
  const sync = new DirectorySync({
    isEnabled: false,
    fileSystem: { ...nodeFileSystem, open: () => Promise.reject(errnoError('EIO')) },
  });
  await sync.sync(root);
});

test('descriptors are closed, whether the sync works or not', async () => {
  const open = new Set<number>();
  let fails = false;
  const fileSystem: FileSystem = {
    ...nodeFileSystem,
    open: async (path, flags) => {
      const descriptor = await nodeFileSystem.open(path, flags);
      open.add(descriptor);
      return descriptor;
    },
    close: async (descriptor) => {
      open.delete(descriptor);
      await nodeFileSystem.close(descriptor);
    },
    fsync: async () => {
      if (fails) throw errnoError('EIO');
    },
  };
  const sync = new DirectorySync({ fileSystem });
  await sync.sync(root);
  fails = true;
  await expect(sync.sync(root)).rejects.toMatchObject({ code: 'EIO' });
  expect(open.size).toBe(0);
});
