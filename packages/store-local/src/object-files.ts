import { type BigIntStats, constants } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { ObjectInfo } from '@holdfast/core/contract';
import { DirectFile, errnoOf, type FileSystem } from '@holdfast/local-files';
import type { LocalConfig } from './config.ts';
import { LINKED_DIRECTORY, TEMPORARY_DIRECTORY } from './own-names.ts';

const NO_SUCH_NAME = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG']);

// A link is looked at, never followed blindly; a pipe that lies about does not hold up whoever
// opens it.
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export interface FoundObject {
  /** Of the file with the bytes. */
  readonly path: string;
  readonly stats: BigIntStats;
  /**
   * When the key's own name was last changed: `link` and `symlink` set it. By the file system's
   * clock.
   */
  readonly namedAtMs: number;
}

/**
 * Keys and the files behind them: an object is a regular file of the key's name, or a link of the
 * store's own to one.
 */
export class ObjectFiles {
  readonly root: string;
  readonly temporaryDirectory: string;
  readonly linkedDirectory: string;
  readonly #fileSystem: FileSystem;
  readonly #direct: boolean;

  constructor(config: LocalConfig, fileSystem: FileSystem) {
    this.root = config.directory.replace(/\/+$/, '');
    this.temporaryDirectory = `${this.root}/${TEMPORARY_DIRECTORY}`;
    this.linkedDirectory = `${this.root}/${LINKED_DIRECTORY}`;
    this.#fileSystem = fileSystem;
    this.#direct = config.direct === 'auto';
  }

  /** `key` has been checked. */
  pathOf(key: string): string {
    return `${this.root}/${key}`;
  }

  /** `null`: there is no such object. */
  async find(key: string): Promise<FoundObject | null> {
    const path = this.pathOf(key);
    try {
      const stats = await this.#fileSystem.lstat(path);
      const namedAtMs = Number(stats.ctimeNs / 1_000_000n);
      if (stats.isFile()) return { path, stats, namedAtMs };
      const target = stats.isSymbolicLink() ? await this.linkedFile(path) : null;
      if (target === null) return null;
      const targetStats = await this.#fileSystem.lstat(target);
      return targetStats.isFile() ? { path: target, stats: targetStats, namedAtMs } : null;
    } catch (error) {
      if (NO_SUCH_NAME.has(errnoOf(error) ?? '')) return null;
      throw error;
    }
  }

  /** For reading, to be closed by the caller. `null`: there is no such object. */
  async open(key: string): Promise<{ file: DirectFile; stats: BigIntStats } | null> {
    const path = this.pathOf(key);
    try {
      return await this.openFile(path).catch(async (error: unknown) => {
        if (errnoOf(error) !== 'ELOOP') throw error;
        const target = await this.linkedFile(path);
        return target === null ? null : this.openFile(target);
      });
    } catch (error) {
      if (NO_SUCH_NAME.has(errnoOf(error) ?? '')) return null;
      throw error;
    }
  }

  /** `null`: it is no regular file. */
  async openFile(path: string): Promise<{ file: DirectFile; stats: BigIntStats } | null> {
    const file = await DirectFile.open(path, READ_FLAGS, {
      direct: this.#direct,
      fileSystem: this.#fileSystem,
    });
    try {
      const stats = await file.stat();
      if (stats.isFile()) return { file, stats };
    } catch (error) {
      await file.close();
      throw error;
    }
    await file.close();
    return null;
  }

  /** Where a link of the store's own points; `null` for any other link, or none. */
  async linkedFile(path: string): Promise<string | null> {
    const target = await this.#fileSystem.readlink(path).catch((error: unknown) => {
      if (errnoOf(error) === 'EINVAL' || NO_SUCH_NAME.has(errnoOf(error) ?? '')) return null;
      throw error;
    });
    if (target === null) return null;
    const file = resolve(dirname(path), target);
    return dirname(file) === resolve(this.linkedDirectory) ? file : null;
  }
}

/** An inode number is used again, but not with the same time of modification. */
export function etagOf(stats: BigIntStats): string {
  return `${stats.ino}-${stats.size}-${stats.mtimeNs}`;
}

/**
 * The time of creation is that of the last write of bytes. It lies after the call that created the
 * object was made and before its answer, so an age by it is never less than the true one, nor more
 * than the age of the call. The time of change would not do: removing the temporary name, a backup
 * or a chmod make it younger.
 */
export function infoOf(key: string, stats: BigIntStats): ObjectInfo {
  return {
    key,
    sizeBytes: Number(stats.size),
    etag: etagOf(stats),
    createdAtMs: Number(stats.mtimeNs / 1_000_000n),
  };
}
