/**
 * Makes names durable. An fsync of a file covers its bytes. Its name needs an fsync of its
 * directory, and each directory above needs one too, so that the directory itself is found.
 *
 * A failed fsync is never repeated: the system reports a loss once, and afterwards treats the data
 * that it could not write as written.
 */

import { type BigIntStats, constants } from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf } from './errno.ts';
import { closeRead, type FileSystem, nodeFileSystem } from './file-system.ts';

/**
 * Limit on remembered directories whose own names are durable. Forgetting one costs a few fsyncs.
 */
const KNOWN_DIRECTORIES_MAX = 4096;

const DIRECTORY_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY;
// Never follow a link, and never wait for a pipe.
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Errors that mean there is nothing to sync, or no way to do it. A read-only file system has no
 * changes to lose. Some network file systems have no fsync of a directory, because they write names
 * through. We may lack the permission for directories above ours. A directory that has vanished
 * has no name to keep.
 */
const NOTHING_TO_SYNC = new Set([
  'EROFS',
  'EACCES',
  'EPERM',
  'EBADF',
  'EINVAL',
  'ENOTSUP',
  'EOPNOTSUPP',
  'ENOSYS',
  'ENOENT',
  'ENOTDIR',
]);

/** Limit on remembered failed paths. Beyond it no path is trusted. */
const FAILURES_MAX = 1000;

/** An earlier fsync of this path failed; carries the errno of that failure. */
export class SyncFailedBefore extends Error {
  readonly code: string | undefined;
  readonly syscall = 'fsync';

  constructor(path: string, cause: unknown) {
    super(`an earlier fsync of ${path} failed, and a second one proves nothing`, { cause });
    this.code = errnoOf(cause);
  }
}

export interface DirectorySyncOptions {
  fileSystem?: FileSystem | undefined;
  /** False: `sync` does nothing. Default true. */
  isEnabled?: boolean | undefined;
}

interface Round {
  running: Promise<void>;
  next: Promise<void> | null;
}

export class DirectorySync {
  readonly #fileSystem: FileSystem;
  readonly #isEnabled: boolean;
  readonly #rounds = new Map<string, Round>();
  /** Maps the path of a directory to its identity, if its name and the names above are durable. */
  readonly #known = new Map<string, string>();
  /** Maps each path to the error of its failed fsync. */
  readonly #failures = new Map<string, unknown>();

  constructor(options: DirectorySyncOptions = {}) {
    this.#fileSystem = options.fileSystem ?? nodeFileSystem;
    this.#isEnabled = options.isEnabled ?? true;
  }

  /**
   * Makes durable every entry that is in `directory` at the time of the call. The directory itself
   * and all above it, up to the mount point, become durable too. It does not matter which process
   * made the entries. Calls for one directory share the next fsync, never one that has begun
   * already. Throws the errors of the system calls. After a failed fsync the state of the entries
   * is unknown: calls for the directory, and for all below it, then throw `SyncFailedBefore`.
   */
  sync(directory: string): Promise<void> {
    if (!this.#isEnabled) return Promise.resolve();
    const round = this.#rounds.get(directory);
    if (round === undefined) return this.#begin(directory);
    round.next ??= round.running.then(
      () => this.#begin(directory),
      () => this.#begin(directory), // The error goes to the callers that shared that round.
    );
    return round.next;
  }

  /**
   * Resolves when the bytes that a file had at the time of the call are durable, including those
   * written by another process. Errors: as for `sync`.
   */
  async syncFile(path: string): Promise<void> {
    if (this.#isEnabled) await this.#fsync(path, FILE_FLAGS, 'fdatasync');
  }

  /**
   * Throws `SyncFailedBefore` if an earlier fsync of this path failed, or one of a directory above
   * that its name depends on.
   */
  assertTrusted(path: string): void {
    if (this.#failures.size === 0) return;
    const isFull = this.#failures.size >= FAILURES_MAX;
    for (let at = path; ; at = dirname(at)) {
      if (isFull || this.#failures.has(at)) throw new SyncFailedBefore(at, this.#failures.get(at));
      if (this.#known.has(at) || at === dirname(at)) return;
    }
  }

  #begin(directory: string): Promise<void> {
    const running = this.#syncOnce(directory);
    const round: Round = { running, next: null };
    this.#rounds.set(directory, round);
    const forget = () => {
      if (round.next === null) this.#rounds.delete(directory);
    };
    running.then(forget, forget);
    return running;
  }

  async #syncOnce(directory: string): Promise<void> {
    const stats = await this.#fsync(directory, DIRECTORY_FLAGS, 'fsync');
    if (stats === null) return;
    // Inode numbers are reused, but with another time of birth.
    const identity = `${stats.dev}-${stats.ino}-${stats.birthtimeNs}`;
    if (this.#known.get(directory) === identity) return;
    const parent = dirname(directory);
    if (parent !== directory && (await this.#isOnDevice(parent, stats.dev))) await this.sync(parent);
    this.#remember(directory, identity);
  }

  /** Resolves to `null` if the path cannot be synced, or is gone. */
  async #fsync(path: string, flags: number, how: 'fsync' | 'fdatasync'): Promise<BigIntStats | null> {
    this.assertTrusted(path);
    try {
      const descriptor = await this.#fileSystem.open(path, flags);
      try {
        await this.#fileSystem[how](descriptor).catch((error: unknown) => this.#failed(path, error));
        return await this.#fileSystem.fstat(descriptor);
      } finally {
        await closeRead(this.#fileSystem, descriptor);
      }
    } catch (error) {
      if (NOTHING_TO_SYNC.has(errnoOf(error) ?? '')) return null;
      throw error;
    }
  }

  #failed(path: string, error: unknown): never {
    const errno = errnoOf(error) ?? '';
    // An interrupted fsync has lost nothing.
    if (!NOTHING_TO_SYNC.has(errno) && errno !== 'EINTR') this.#failures.set(path, error);
    throw error;
  }

  /** Directories above a mount point do not affect those below. */
  async #isOnDevice(directory: string, device: bigint): Promise<boolean> {
    const stats = await this.#fileSystem.stat(directory).catch(() => null);
    return stats?.dev === device;
  }

  #remember(directory: string, identity: string): void {
    if (this.#known.size >= KNOWN_DIRECTORIES_MAX) {
      const [oldest] = this.#known.keys();
      if (oldest !== undefined) this.#known.delete(oldest);
    }
    this.#known.set(directory, identity);
  }
}
