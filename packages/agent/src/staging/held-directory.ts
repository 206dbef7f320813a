/**
 * A directory that this agent has checked and locked. All work in it goes through its descriptor.
 * When another program removes the directory, any user may give its name to another one.
 */

import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, open, realpath, rename } from 'node:fs/promises';
import { CheckpointError } from '@holdfast/core/contract';
import { type FileSystem, fileError, memoryFileSystem, nodeFileSystem } from '@holdfast/local-files';
import { type DirectoryLock, lockDirectory } from '../server/socket-file.ts';
import { assertPrivate, assertPrivateDirectory } from './private-directory.ts';

/** Types of file systems in memory; see statfs(2). */
const [TMPFS, RAMFS] = [0x01021994n, 0x858458f6n];

/** Whether a file system of this type is in memory. `null`: its type is not known. */
export function isMemory(type: bigint | null): boolean {
  return type === TMPFS || type === RAMFS;
}

/** `fileSystem`: the fastest that is correct for the files of the directory. */
export type WorkInside<Result> = (path: string, fileSystem: FileSystem) => Promise<Result>;

export class HeldDirectory {
  readonly isInMemory: boolean;
  readonly #fileSystem: FileSystem;
  readonly #handle: FileHandle;
  readonly #lock: DirectoryLock;
  #useCount = 0;
  #isClosed = false;

  private constructor(handle: FileHandle, lock: DirectoryLock, isInMemory: boolean) {
    this.#handle = handle;
    this.#lock = lock;
    this.isInMemory = isInMemory;
    this.#fileSystem = isInMemory ? memoryFileSystem : nodeFileSystem;
  }

  /**
   * `Denied`: the path has links, belongs to another user, or others may enter it. `AlreadyExists`:
   * another agent has locked it.
   */
  static async open(directory: string): Promise<HeldDirectory> {
    const failed = (error: unknown) => {
      throw fileError(error, `open ${directory}`, { path: directory });
    };
    await assertPrivateDirectory(directory);
    if ((await realpath(directory).catch(failed)) !== directory) throw hasLinks(directory);
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
    const handle = await open(directory, flags).catch(failed);
    try {
      // The name may lead to another directory since the first look.
      assertPrivate(directory, await handle.stat());
      const { type } = await nodeFileSystem.statfs(pathOf(handle));
      const lock = await lockDirectory(pathOf(handle), rename, directory);
      return new HeldDirectory(handle, lock, isMemory(type));
    } catch (error) {
      await handle.close();
      throw error;
    }
  }

  /** Whether `directory` still leads to it, it is still private, and the lock is in it. */
  async isAt(directory: string): Promise<boolean> {
    const [named, held] = await Promise.all([
      this.#fileSystem.lstat(directory).catch(() => null),
      this.#fileSystem.fstat(this.#handle.fd),
    ]);
    if (named === null || !isSame(named, held) || !isPrivate(held)) return false;
    return this.#lock.isHeld(this.#fileSystem);
  }

  /** Until `work` resolves, the path that it gets leads here, whatever has the name. */
  async use<Result>(work: WorkInside<Result>): Promise<Result> {
    this.#useCount += 1;
    try {
      return await work(pathOf(this.#handle), this.#fileSystem);
    } finally {
      this.#useCount -= 1;
      await this.#closeIfUnused();
    }
  }

  /** Unlocks it. Calls of `use` that have begun may end later. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    await this.#lock.release();
    await this.#closeIfUnused();
  }

  async #closeIfUnused(): Promise<void> {
    if (this.#isClosed && this.#useCount === 0) await this.#handle.close();
  }
}

function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`;
}

function isSame(a: BigIntStats, b: BigIntStats): boolean {
  return a.dev === b.dev && a.ino === b.ino;
}

function isPrivate({ mode }: BigIntStats): boolean {
  return (mode & 0o077n) === 0n;
}

function hasLinks(path: string): CheckpointError {
  return new CheckpointError('Denied', `${path} leads through a symbolic link`, { context: { path } });
}
