import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { StoreFact } from '@holdfast/core/contract';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openLocalStore } from './index.ts';

interface Place {
  readonly fsType?: string;
  readonly freeBlocks?: bigint;
  readonly blocks?: bigint;
  readonly blockBytes?: bigint;
  readonly durability?: 'fsync' | 'none';
  /** Below the directory. */
  readonly name?: string;
}

/** Facts about a directory on the given file system. */
async function factsOf(place: Place): Promise<(id: string) => StoreFact> {
  const {
    fsType = 'ext4',
    freeBlocks = 50n,
    blocks = 100n,
    blockBytes = 1024n ** 3n,
    durability = 'fsync',
    name = '',
  } = place;
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-inspect-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
  const fileSystem: FileSystem = {
    ...nodeFileSystem,
    readText: async () => `27 1 254:0 / / rw - ${fsType} /dev/vda rw\n`,
    statfs: async (path) => ({
      ...(await nodeFileSystem.statfs(path)),
      bavail: freeBlocks,
      blocks,
      bsize: blockBytes,
    }),
  };
  const store = await openLocalStore({ directory: join(directory, name), durability }, { fileSystem });
  const facts = (await store.inspect?.()) ?? [];
  await store.close();
  return (id) => facts.find((fact) => fact.id === id) as StoreFact;
}

describe('facts of a directory', () => {
  it('on a disk with room: nothing of concern, also before the directory is there', async () => {
    for (const name of ['', 'not/there/yet']) {
      const of = await factsOf({ name });
      expect(of('room')).toEqual({ id: 'room', title: 'room', seen: '50.0 of 100.0 GiB are free' });
      expect(of('durability')).toEqual({
        id: 'durability',
        title: 'durability',
        seen: 'every write is synced',
      });
    }
  });

  it.runIf(process.platform === 'linux').each([
    ['ext4', false],
    ['nfs4', false],
    ['constructor', false],
    ['tmpfs', true],
    ['overlay', true],
    ['lustre', true],
    ['ceph', true],
  ])('%s: a warning is %s', async (fsType, isWarned) => {
    const fact = (await factsOf({ fsType }))('file-system');
    expect(fact.seen).toBe(`${fsType} (/dev/vda) at /`);
    expect(fact.concern !== undefined).toBe(isWarned);
  });

  it('less than a twentieth is free: a warning; an unknown size is no warning', async () => {
    expect((await factsOf({ freeBlocks: 5n }))('room').concern).toBeUndefined();
    expect((await factsOf({ freeBlocks: 4n }))('room')).toMatchObject({
      seen: '4.0 of 100.0 GiB are free',
      concern: { meaning: expect.stringContaining('StorageFull') },
    });
    const of = await factsOf({ freeBlocks: 0n, blocks: 0n });
    expect(of('room')).toEqual({ id: 'room', title: 'room', seen: 'this file system does not report it' });
  });

  it.each([
    [8n, 16n, 1024n ** 2n, '8.0 of 16.0 MiB are free'],
    [20n, 102_400n, 1024n ** 2n, '20.0 MiB of 100.0 GiB are free'],
    [0n, 100n, 1024n ** 3n, '0.0 of 100.0 GiB are free'],
  ])('what is small is told in MiB: %d of %d blocks', async (freeBlocks, blocks, blockBytes, seen) => {
    expect((await factsOf({ freeBlocks, blocks, blockBytes }))('room').seen).toBe(seen);
  });

  it('without syncs: a warning', async () => {
    expect((await factsOf({ durability: 'none' }))('durability').concern?.advice).toContain(
      'durability=none',
    );
  });

  it('a file system that fails to tell is an error of ours', async () => {
    const statfs = () =>
      Promise.reject(Object.assign(new Error('stale'), { code: 'ESTALE', errno: -116, syscall: 'statfs' }));
    const store = await openLocalStore({ directory: '/' }, { fileSystem: { ...nodeFileSystem, statfs } });
    await expect(store.inspect?.()).rejects.toMatchObject({ code: 'Unavailable' });
    await store.close();
  });
});
