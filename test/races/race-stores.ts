/** Stores for the workers of a race: each process opens its own client of one directory. */

import { existsSync, renameSync, writeFileSync } from 'node:fs';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { CheckpointError, type ObjectStore } from '@holdfast/core/contract';
import { nodeFileSystem } from '@holdfast/local-files';
import { openLocalStore } from '@holdfast/store-local';

/** The local store on a file system without hard links. It lets one create win in another way. */
export function openLocalStoreWithoutLinks(directory: string): Promise<ObjectStore> {
  const error = Object.assign(new Error('EPERM: no links here'), { code: 'EPERM', syscall: 'link' });
  return openLocalStore(
    { directory },
    { fileSystem: { ...nodeFileSystem, link: () => Promise.reject(error) } },
  );
}

/** The calls that a race makes. */
function fileStore(
  directory: string,
  create: (path: string, bytes: Uint8Array) => void,
): Partial<ObjectStore> {
  const pathOf = (key: string) => join(directory, key.replaceAll('/', '-'));
  return {
    create: async (key, bytes) => {
      create(pathOf(key), bytes);
      return { key, sizeBytes: bytes.byteLength, etag: '', createdAtMs: 0 };
    },
    get: async (key) => {
      const bytes = await readFile(pathOf(key));
      return { key, sizeBytes: bytes.byteLength, etag: '', createdAtMs: 0, bytes };
    },
    deleteMany: async (keys) => {
      await Promise.all(keys.map((key) => rm(pathOf(key), { force: true })));
      return keys.map((key) => ({ key }));
    },
    close: async () => undefined,
  };
}

/** Correct: the kernel guarantees that one create wins. */
export function openExclusiveStore(directory: string): Partial<ObjectStore> {
  return fileStore(directory, (path, bytes) => {
    try {
      writeFileSync(path, bytes, { flag: 'wx' });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      throw new CheckpointError('AlreadyExists', path);
    }
  });
}

/** Broken: looks first and then writes. Correct only with a single process. */
export function openLookFirstStore(directory: string): Partial<ObjectStore> {
  return fileStore(directory, (path, bytes) => {
    if (existsSync(path)) throw new CheckpointError('AlreadyExists', path);
    // Ms; gives the others time to look as well.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    const temporary = `${path}.${process.pid}`;
    writeFileSync(temporary, bytes);
    renameSync(temporary, path);
  });
}

/** Broken: it rejects every create. */
export function openFailingStore(directory: string): Partial<ObjectStore> {
  const sound = openExclusiveStore(directory);
  return {
    ...sound,
    create: async () => {
      throw new CheckpointError('Denied', `no access to ${directory}`);
    },
  };
}
