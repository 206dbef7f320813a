/**
 * Makes names durable. An fsync of a file covers its bytes; that the file is found again under its
 * name needs an fsync of its directory, and that the directory is found, one of each directory
 * above.
 *
 * An fsync that failed is never repeated: the system reports a loss once, and then counts what it
 * could not write as written.
 */

import { type BigIntStats, constants } from 'node:fs';
import { dirname } from 'node:path';
import { errnoOf } from './errno.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';

/**
 * Directories whose own names are known to be durable are remembered up to this number; forgetting
 * one costs some fsyncs.
 */
const KNOWN_DIRECTORIES_MAX = 4096;

const DIRECTORY_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY;
// A link is never followed, and a pipe is not waited for.
const FILE_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

/**
 * Where a directory cannot be synced there is nothing better to be had: a read-only file system has
 * no news to lose; some network file systems know no fsync of a directory, because they write names
 * through; above the root we may lack the permission; and what has vanished has no name to keep.
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

/** So many paths with a failure are told apart; after that no path is trusted. */
const FAILURES_MAX = 1000;

/** An fsync of this path has failed before. Has the errno of that failure. */
export class SyncFailedBefore extends Error {
  readonly code: string | undefined;
  readonly syscall = 'fsync';

  constructor(path: string, cause: unknown) {
    super(`an earlier fsync of ${path} failed, and another one would prove nothing`, { cause });
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
  /** Path to identity of a directory whose name, and the names above, are durable. */
  readonly #known = new Map<string, string>();
  /** The failed fsync of each path. */
  readonly #failures = new Map<string, unknown>();

  constructor(options: DirectorySyncOptions = {}) {
    this.#fileSystem = options.fileSystem ?? nodeFileSystem;
    this.#isEnabled = options.isEnabled ?? true;
  }

  /**
   * Resolves when every entry that was in `directory` at the time of the call is durable, and the
   * directory itself with all above it up to the mount point, whoever made them. Calls for one
   * directory share an fsync: the next one, never one that has begun already. Errors are those of
   * the system calls. After a failed fsync nothing is known of the entries: from then on the
   * directory, and what rests on its entries, is `SyncFailedBefore`.
   */
  sync(directory: string): Promise<void> {
    if (!this.#isEnabled) return Promise.resolve();
    const round = this.#rounds.get(directory);
    if (round === undefined) return this.#begin(directory);
    round.next ??= round.running.then(
      () => this.#begin(directory),
      () => this.#begin(directory), // the failure belongs to those who shared that round
    );
    return round.next;
  }

  /**
   * Resolves when the bytes that a file had at the time of the call are durable, also those that
   * another process wrote. Failures as of `sync`.
   */
  async syncFile(path: string): Promise<void> {
    if (this.#isEnabled) await this.#fsync(path, FILE_FLAGS, 'fdatasync');
  }

  /**
   * Throws `SyncFailedBefore` if an fsync has failed of this file or directory, or of one above
   * that its name rests on.
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
    // An inode number is used again, and then with another time of birth.
    const identity = `${stats.dev}-${stats.ino}-${stats.birthtimeNs}`;
    if (this.#known.get(directory) === identity) return;
    const parent = dirname(directory);
    if (parent !== directory && (await this.#isOnDevice(parent, stats.dev))) await this.sync(parent);
    this.#remember(directory, identity);
  }

  /** `null`: it cannot be synced, or is gone. */
  async #fsync(path: string, flags: number, how: 'fsync' | 'fdatasync'): Promise<BigIntStats | null> {
    this.assertTrusted(path);
    try {
      const descriptor = await this.#fileSystem.open(path, flags);
      try {
        await this.#fileSystem[how](descriptor).catch((error: unknown) => this.#failed(path, error));
        return await this.#fileSystem.fstat(descriptor);
      } finally {
        await this.#fileSystem.close(descriptor);
      }
    } catch (error) {
      if (NOTHING_TO_SYNC.has(errnoOf(error) ?? '')) return null;
      throw error;
    }
  }

  #failed(path: string, error: unknown): never {
    const errno = errnoOf(error) ?? '';
    // An interrupted one has lost nothing.
    if (!NOTHING_TO_SYNC.has(errno) && errno !== 'EINTR') this.#failures.set(path, error);
    throw error;
  }

  /** What lies above a mount point has nothing to do with what is below. */
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
