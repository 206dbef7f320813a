/** What the store's answers depend on is durable, even if another process made it. */

import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ObjectStore } from '@holdfast/core/contract';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';

const errnoError = (code: string) =>
  Object.assign(new Error(`${code}: made to fail`), { code, syscall: 'test' });
const BYTES = new TextEncoder().encode('some bytes');

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'holdfast-durable-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

interface Process {
  readonly store: ObjectStore;
  /** Paths below the root that were synced, in order. */
  readonly synced: string[];
  /** Paths whose next sync fails. */
  readonly failing: Set<string>;
}

async function start(
  clock = { nowMs: () => Date.now() },
  durability: 'fsync' | 'none' = 'fsync',
): Promise<Process> {
  const names = new Map<number, string>();
  const synced: string[] = [];
  const failing = new Set<string>();
  const syncing = (how: 'fsync' | 'fdatasync') => async (descriptor: number) => {
    const path = names.get(descriptor) ?? '';
    if (failing.delete(path)) throw errnoError('EIO');
    await nodeFileSystem[how](descriptor);
    if (!path.includes('.holdfast-tmp/')) synced.push(path);
  };
  const fileSystem: FileSystem = {
    ...nodeFileSystem,
    open: async (path, flags, mode) => {
      const descriptor = await nodeFileSystem.open(path, flags, mode);
      names.set(descriptor, path.startsWith(root) ? path.slice(root.length) || '/' : 'above');
      return descriptor;
    },
    fsync: syncing('fsync'),
    fdatasync: syncing('fdatasync'),
  };
  return {
    store: await openLocalStore({ directory: root, durability }, { fileSystem, clock }),
    synced,
    failing,
  };
}

/** State left by a process that died between the name and the fsync. */
function leave(key: string): void {
  mkdirSync(join(root, key, '..'), { recursive: true });
  writeFileSync(join(root, key), BYTES);
}

const lost = { code: 'Unavailable', status: 'exhausted', context: { key: 'a/b' } };
const list = async (store: ObjectStore) => {
  for await (const page of store.list('')) return page.objects.map(({ key }) => key);
  return [];
};

const SHOWING: readonly [string, (store: ObjectStore) => Promise<unknown>][] = [
  ['create that meets it', (store) => store.create('a/b', BYTES).catch((error: unknown) => error)],
  [
    'complete that meets it',
    async (store) => {
      const upload = await store.beginUpload('a/b', { partSizeBytes: 4096 });
      const receipt = await upload.putPart(0, BYTES, { crc32c: 0 });
      return upload
        .complete([receipt], { sizeBytes: BYTES.length, crc32c: 0 })
        .catch((error: unknown) => error);
    },
  ],
  ['get', (store) => store.get('a/b', { maxBytes: 100 })],
  ['head', (store) => store.head('a/b')],
];

describe.each(SHOWING)('%s', (_, show) => {
  it('is answered when name and bytes are durable, also if another process made them', async () => {
    leave('a/b');
    const { store, synced } = await start();
    await show(store);
    expect(synced).toEqual(expect.arrayContaining(['/a/b', '/a', '/']));
    await store.close();
  });

  it('syncs nothing where durability is "none"', async () => {
    leave('a/b');
    const { store, synced } = await start(undefined, 'none');
    await show(store);
    expect(synced).toEqual([]);
    await store.close();
  });
});

describe.each([...SHOWING.slice(2), ['list', list] as (typeof SHOWING)[number]])(
  '%s of what another process made',
  (_, show) => {
    it('syncs nothing of names older than ten minutes, by the time of the name', async () => {
      leave('a/b');
      utimesSync(join(root, 'a/b'), 1, 1);
      let ageMs = 9 * 60_000;
      const { store, synced } = await start({ nowMs: () => Date.now() + ageMs });
      await show(store);
      expect(synced).toContain('/a');
      synced.length = 0;
      ageMs = 11 * 60_000;
      await show(store);
      expect(synced).toEqual([]);
      await store.close();
    });

    it.each(['/a', '/'])(
      'is an error for good when the sync of %s has failed once, however old it gets',
      async (path) => {
        leave('a/b');
        let ageMs = 0;
        const { store, failing } = await start({ nowMs: () => Date.now() + ageMs });
        failing.add(path);
        await expect(show(store)).rejects.toMatchObject({ code: 'Unavailable', status: 'temporary' });
        await expect(show(store)).rejects.toMatchObject(lost);
        ageMs = 3_600_000;
        await expect(show(store)).rejects.toMatchObject(lost);
        await store.close();
      },
    );
  },
);

it('bytes whose sync failed are never shown again', async () => {
  leave('a/b');
  const { store, failing } = await start();
  failing.add('/a/b');
  await expect(store.head('a/b')).rejects.toMatchObject({ code: 'Unavailable', status: 'temporary' });
  await expect(store.get('a/b', { maxBytes: 100 })).rejects.toMatchObject(lost);
  await expect(list(store)).rejects.toMatchObject(lost);
  await store.close();
});

describe('create where an fsync of the directory has failed', () => {
  it('does not acknowledge: not at the first try, not at the next, and not what others find there', async () => {
    const { store, failing } = await start();
    failing.add('/a');
    await expect(store.create('a/b', BYTES)).rejects.toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
    await expect(store.create('a/b', BYTES)).rejects.toMatchObject({ ...lost, status: 'permanent' });
    await expect(store.get('a/b', { maxBytes: 100 })).rejects.toMatchObject(lost);
    await store.close();
  });

  it('writes nothing there any more, and elsewhere as before', async () => {
    const { store, failing } = await start();
    failing.add('/a');
    await expect(store.create('a/b', BYTES)).rejects.toMatchObject({ code: 'Unavailable' });
    await expect(store.create('a/c', BYTES)).rejects.toThrow(/start the process again/);
    expect(readdirSync(join(root, 'a'))).toEqual(['b']);
    await store.create('other/b', BYTES);
    await store.close();
  });
});
