/**
 * The hidden directory that a target fills before it gets its name. Every call in it goes through
 * open directories, from its root down (openat(2), by way of /proc), and follows no link. So a
 * directory that another program moves or replaces cannot redirect a write. Before the directory
 * gets its name, `assertIntact` finds each file again. Without /proc, paths are used.
 */

import { type BigIntStats, constants } from 'node:fs';
import { CheckpointError } from '@holdfast/core/contract';
import { changedMeanwhile, isAsWritten, type WrittenFile, whatIs, writtenFile } from './as-written.ts';
import { DirectFile } from './direct-file.ts';
import { errnoOf } from './errno.ts';
import type { FileSystem } from './file-system.ts';
import { OpenFiles } from './open-files.ts';

const DIRECTORY_FLAGS = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
const FILE_FLAGS = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
/** Another object has the name, or the name is gone. */
const IN_THE_WAY = new Set(['ENOENT', 'EEXIST', 'ENOTDIR', 'EISDIR', 'ELOOP']);
const OPEN_DIRECTORIES_MAX = 32;
/**
 * Number of concurrent stats. Through libuv's threads 100,000 files take 2 s. In place they take
 * 0.6 s, but a slow disk would then block the process.
 */
const STATS_AT_A_TIME = 64;

export interface StagingPlace {
  readonly fileSystem: FileSystem;
  /** The hidden directory. It must not exist yet. */
  readonly path: string;
  /** The final name, for messages. */
  readonly target: string;
}

interface Split {
  /** Relative to the root. '' is the root itself. */
  readonly directory: string;
  readonly base: string;
}

export class StagingDirectory {
  /** Permission bits of any new directory here. */
  readonly newMode: number;
  readonly #place: StagingPlace;
  readonly #root: DirectFile;
  readonly #hasProc: boolean;
  readonly #open = new OpenFiles(OPEN_DIRECTORIES_MAX);
  /** Complete files, by directory and name. Contains all directories except the root. */
  readonly #written = new Map<string, Map<string, WrittenFile>>();

  readonly #unfinished = new Map<string, DirectFile>();

  private constructor(place: StagingPlace, root: DirectFile, newMode: number, hasProc: boolean) {
    this.#place = place;
    this.#root = root;
    this.newMode = newMode;
    this.#hasProc = hasProc;
  }

  /**
   * Only its owner can enter it. Errors: `Conflict` as for `assertAt`, or those of the system
   * calls.
   */
  static async create(place: StagingPlace): Promise<StagingDirectory> {
    const { fileSystem, path, target } = place;
    await fileSystem.mkdir(path);
    const options = { direct: false, fileSystem };
    const root = await DirectFile.open(path, DIRECTORY_FLAGS, options).catch((error: unknown) => {
      if (!IN_THE_WAY.has(errnoOf(error) ?? '')) throw error;
      throw changedMeanwhile(target, path, 'is gone, or is not the directory that was created', error);
    });
    try {
      const hasProc = (await root.place()) !== null;
      // The kernel has applied the umask: any new directory would have this mode.
      const newMode = Number((await root.stat()).mode) & 0o7777;
      const staging = new StagingDirectory(place, root, newMode, hasProc);
      await staging.chmod(0o700);
      return staging;
    } catch (error) {
      await root.close().catch(() => undefined);
      throw error;
    }
  }

  chmod(mode: number): Promise<void> {
    return this.#within('', (here) => this.#place.fileSystem.chmod(here, mode));
  }

  /**
   * Creates a file, with the directories above it. Throws `InvalidArgument` if another file of this
   * directory rules it out, and `Conflict` if another program has changed the directory. Other
   * errors are those of the system calls.
   */
  async create(name: string): Promise<DirectFile> {
    const { directory, base } = split(name);
    const { fileSystem } = this.#place;
    return this.#within(
      directory,
      async (here) => {
        const path = `${here}/${base}`;
        try {
          const file = await DirectFile.open(path, FILE_FLAGS, { fileSystem });
          this.#unfinished.set(name, file);
          return file;
        } catch (error) {
          throw await this.#openError(error, { name, path, file: name });
        }
      },
      name,
    );
  }

  /** Succeeds if it exists already. Errors: as for `create`. */
  makeDirectory(name: string, mtimeMs: number | undefined): Promise<void> {
    return this.#open.use(
      { path: name, identity: '' },
      () => this.#openDirectory(name, name),
      async (opened) => (mtimeMs === undefined ? undefined : opened.setModified(mtimeMs)),
    );
  }

  /** Called when a file is complete, with its stats at that time. */
  noteWritten(name: string, stats: BigIntStats): void {
    const { directory, base } = split(name);
    this.#unfinished.delete(name);
    const files = this.#written.get(directory) ?? new Map<string, WrittenFile>();
    this.#written.set(directory, files.set(base, writtenFile(stats)));
  }

  /** Absolute paths, parents after their children. */
  directories(): readonly string[] {
    const below = [...this.directoryNames()].reverse();
    return [...below.map((directory) => `${this.#place.path}/${directory}`), this.#place.path];
  }

  /** Names of all directories except the root. */
  directoryNames(): readonly string[] {
    return [...this.#written.keys()].filter((directory) => directory !== '');
  }

  /** Each name with what was noted about the file. */
  *files(): Generator<readonly [name: string, file: WrittenFile]> {
    for (const [directory, files] of this.#written)
      for (const [base, file] of files) yield [directory === '' ? base : `${directory}/${base}`, file];
  }

  /**
   * Examines each file once. Throws `Conflict` if the path of the directory leads elsewhere, or if
   * a file is missing or changed.
   */
  async assertIntact(): Promise<void> {
    const { path } = this.#place;
    await this.assertAt(path);
    // Open directories may have been moved: find each again, from the root down.
    await this.#open.close();
    for (const [directory, files] of this.#written) {
      await this.#within(directory, (here) => this.#assertFiles(here, directory, [...files]));
    }
  }

  /** Throws `Conflict` if the path leads to anything but this directory. */
  async assertAt(path: string): Promise<void> {
    const found = await this.#look(path);
    const own = await this.#root.stat();
    if (found?.isDirectory() && found.dev === own.dev && found.ino === own.ino) return;
    throw this.#changed(path, found?.isDirectory() ? 'is another directory' : whatIs(found));
  }

  /** Tells whether it is still at its path. If not, what is there belongs to another program. */
  async inode(): Promise<bigint> {
    return (await this.#root.stat()).ino;
  }

  isInPlace(): Promise<boolean> {
    return this.assertAt(this.#place.path).then(
      () => true,
      () => false,
    );
  }

  /** Closes all descriptors; never throws. Safe to repeat. */
  async close(): Promise<void> {
    await this.#open.close().catch(() => undefined);
    await this.#root.close().catch(() => undefined);
  }

  async #assertFiles(
    here: string,
    directory: string,
    files: readonly (readonly [string, WrittenFile])[],
  ): Promise<void> {
    for (let start = 0; start < files.length; start += STATS_AT_A_TIME) {
      const some = files.slice(start, start + STATS_AT_A_TIME);
      const found = await Promise.all(some.map(([base]) => this.#look(`${here}/${base}`)));
      for (const [index, [base, file]] of some.entries()) {
        const stats = found[index] ?? null;
        if (stats !== null && isAsWritten(stats, file)) continue;
        const what = stats?.isFile() ? 'is not the file that was written' : whatIs(stats);
        throw this.#changed(`${this.#place.path}/${directory === '' ? base : `${directory}/${base}`}`, what);
      }
    }
  }

  /** Works in a directory, which is made if needed; `''` is the root. `file`: what for. */
  #within<T>(directory: string, work: (here: string) => Promise<T>, file = directory): Promise<T> {
    const at = (here: string) => work(this.#hasProc ? here : `${this.#place.path}/${directory}`);
    if (directory === '') return this.#root.within(at);
    return this.#open.use(
      { path: directory, identity: '' },
      () => this.#openDirectory(directory, file),
      (opened) => opened.within(at),
    );
  }

  #openDirectory(name: string, file: string): Promise<DirectFile> {
    const { fileSystem } = this.#place;
    const { directory, base } = split(name);
    const open = async (here: string) => {
      const path = `${here}/${base}`;
      const isNew = !this.#written.has(name);
      try {
        if (isNew) await this.#make(path);
        const opened = await DirectFile.open(path, DIRECTORY_FLAGS, { direct: false, fileSystem });
        if (isNew) this.#written.set(name, new Map());
        return opened;
      } catch (error) {
        throw await this.#openError(error, { name, path, file });
      }
    };
    return this.#within(directory, open, file);
  }

  /** Two names may lead to one directory if the file system ignores case. */
  async #make(path: string): Promise<void> {
    await this.#place.fileSystem.mkdir(path).catch((error: unknown) => {
      if (errnoOf(error) !== 'EEXIST') throw error;
    });
  }

  /** Explains why `file`, or `name`, a directory above it, cannot be opened. */
  async #openError(
    error: unknown,
    { name, path, file }: { readonly name: string; readonly path: string; readonly file: string },
  ): Promise<unknown> {
    if (!IN_THE_WAY.has(errnoOf(error) ?? '')) return error;
    const found = await this.#look(path).catch(() => undefined);
    if (found === undefined) return error;
    if (found === null || !(found.isDirectory() || (await this.#isOwn(found))))
      return this.#changed(`${this.#place.path}/${name}`, whatIs(found), error);
    const { target } = this.#place;
    const what = `cannot hold ${JSON.stringify(file)} beside another file: both have the same name there, or one would lie inside the other`;
    const context = { path: target };
    return new CheckpointError('InvalidArgument', `${target} ${what}`, { context, cause: error });
  }

  /** Tells whether the file was created here. */
  async #isOwn(stats: BigIntStats): Promise<boolean> {
    const { identity } = writtenFile(stats);
    for (const [, file] of this.files()) if (file.identity === identity) return true;
    for (const file of this.#unfinished.values()) {
      const own = await file.stat().catch(() => null);
      if (own !== null && writtenFile(own).identity === identity) return true;
    }
    return false;
  }

  #look(path: string): Promise<BigIntStats | null> {
    return this.#place.fileSystem.lstat(path).catch((error: unknown) => {
      if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return null;
      throw error;
    });
  }

  #changed(path: string, what: string, cause?: unknown): CheckpointError {
    const { target } = this.#place;
    return changedMeanwhile(target, path, what, cause);
  }
}

function split(name: string): Split {
  const slash = name.lastIndexOf('/');
  return { directory: slash === -1 ? '' : name.slice(0, slash), base: name.slice(slash + 1) };
}
