import { dirname } from 'node:path';
import { errnoOf } from './errno.ts';
import type { FileSystem } from './file-system.ts';

/**
 * Makes a directory with all its missing parents; succeeds if it exists already. Not durable: see
 * `DirectorySync`. Node's recursive `mkdir` reports a read-only or full disk as ENOENT (24.21).
 * This function passes on the system's error.
 */
export async function makeDirectories(fileSystem: FileSystem, path: string): Promise<void> {
  try {
    await makeDirectory(fileSystem, path);
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT' || dirname(path) === path) throw error;
    await makeDirectories(fileSystem, dirname(path));
    await makeDirectory(fileSystem, path);
  }
}

async function makeDirectory(fileSystem: FileSystem, path: string): Promise<void> {
  try {
    await fileSystem.mkdir(path);
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    const stats = await fileSystem.stat(path).catch(() => null);
    if (!stats?.isDirectory()) throw error;
  }
}
