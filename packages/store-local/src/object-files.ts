import { type BigIntStats, constants } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { isRunFile, type ObjectInfo } from '@holdfast/core/contract';
import { DirectFile, errnoOf, type FileSystem } from '@holdfast/local-files';
import type { LocalConfig } from './config.ts';
import { objectError } from './errors.ts';
import { LINKED_DIRECTORY, TEMPORARY_DIRECTORY } from './own-names.ts';

const NO_SUCH_NAME = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG']);

// Never follow a link blindly. Do not block when opening a pipe.
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export interface FoundObject {
  /** The file with the bytes. */
  readonly path: string;
  readonly stats: BigIntStats;
  /**
   * When the key's own name was last changed, by the file system's clock: `link` and `symlink` set
   * it.
   */
  readonly namedAtMs: number;
}

/** Something else has the name of an object. */
export interface Usurped {
  /** For messages: "a pipe". */
  readonly by: string;
  readonly stats: BigIntStats;
}

/**
 * Maps keys to files. An object is a regular file with the key's name, or a link of the store's own
 * to such a file. Anything else under that name is shown in listings, and cannot be read. If it
 * were ignored, an older record could count as the newest.
 */
export class ObjectFiles {
  readonly root: string;
  readonly temporaryDirectory: string;
  readonly linkedDirectory: string;
  readonly #uri: string;
  readonly #fileSystem: FileSystem;
  readonly #direct: boolean;

  constructor(config: LocalConfig, fileSystem: FileSystem) {
    this.root = config.directory.replace(/\/+$/, '');
    this.temporaryDirectory = `${this.root}/${TEMPORARY_DIRECTORY}`;
    this.linkedDirectory = `${this.root}/${LINKED_DIRECTORY}`;
    this.#uri = config.uri;
    this.#fileSystem = fileSystem;
    this.#direct = config.direct === 'auto';
  }

  /** `key` is already validated. */
  pathOf(key: string): string {
    return `${this.root}/${key}`;
  }

  /** `null`: no such object. `Corrupt`: something else has its name. */
  async find(key: string): Promise<FoundObject | null> {
    const found = await this.look(key);
    if (found === null || 'path' in found) return found;
    throw objectError('Corrupt', { store: this.#uri, key }, `is no file: ${this.pathOf(key)} is ${found.by}`);
  }

  /**
   * As `find`, without the error. A directory counts as no object, because keys may begin with its
   * name. Only records that every run has are never such a beginning.
   */
  async look(key: string): Promise<FoundObject | Usurped | null> {
    const path = this.pathOf(key);
    const stats = await this.#statsOf(path);
    if (stats === null) return null;
    const namedAtMs = Number(stats.ctimeNs / 1_000_000n);
    if (stats.isFile()) return { path, stats, namedAtMs };
    if (stats.isDirectory() && !isRunFile(key)) return null;
    const target = stats.isSymbolicLink() ? await this.linkedFile(path) : null;
    if (target === null) return { by: kindOf(stats), stats };
    const targetStats = await this.#statsOf(target);
    // The file may be gone: after a deletion, a power loss can bring back the link alone.
    return targetStats?.isFile() ? { path: target, stats: targetStats, namedAtMs } : null;
  }

  async #statsOf(path: string): Promise<BigIntStats | null> {
    try {
      return await this.#fileSystem.lstat(path);
    } catch (error) {
      if (NO_SUCH_NAME.has(errnoOf(error) ?? '')) return null;
      throw error;
    }
  }

  /** Opens the object for reading. The caller closes it. `null`: no such object. */
  async open(key: string): Promise<{ file: DirectFile; stats: BigIntStats } | null> {
    const path = this.pathOf(key);
    try {
      return await this.openFile(path).catch(async (error: unknown) => {
        if (errnoOf(error) !== 'ELOOP') throw error;
        const target = await this.linkedFile(path);
        return target === null ? null : this.openFile(target);
      });
    } catch (error) {
      const errno = errnoOf(error) ?? '';
      if (NO_SUCH_NAME.has(errno) || errno === 'ENXIO') return null; // The latter is a socket's.
      throw error;
    }
  }

  /** `null`: not a regular file. */
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

  /** Target of a link of the store's own; `null` for any other link, or no link. */
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

function kindOf(stats: BigIntStats): string {
  if (stats.isSymbolicLink()) return 'a symbolic link';
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a pipe';
  return stats.isSocket() ? 'a socket' : 'a device';
}

/** Inode numbers are reused, but not with the same modification time. */
export function etagOf(stats: BigIntStats): string {
  return `${stats.ino}-${stats.size}-${stats.mtimeNs}`;
}

/**
 * The creation time is that of the last write of bytes. It lies between the start of the call that
 * created the object and its answer. So an age computed from it is never less than the true age,
 * and never more than the age of the call. The change time is unsuitable: removing the temporary
 * name, a backup or a chmod makes it younger.
 */
export function infoOf(key: string, stats: BigIntStats): ObjectInfo {
  return {
    key,
    sizeBytes: Number(stats.size),
    etag: etagOf(stats),
    createdAtMs: Number(stats.mtimeNs / 1_000_000n),
  };
}
