/**
 * A directory that appears whole or not at all. Files go to a temporary sibling that only its owner can enter; `publish` makes them and
 * their names durable and renames the sibling into place.
 *
 * Replacing takes two renames, so there is an instant without either: the old directory goes aside (`.name.holdfast-….old`), the new one
 * into place, both names are made durable, and only then the old one is removed. After a crash in between, what is not under its name is
 * under the one beside it.
 */

import { constants } from 'node:fs';
import { basename, dirname, resolve, sep } from 'node:path';
import {
  CheckpointError,
  type ErrorCode,
  type RandomSink,
  type RestoreTarget,
  type SinkFile,
  systemRandom,
  type TargetOptions,
  throwIfAborted,
} from '@holdfast/core/contract';
import { DirectFile } from './direct-file.ts';
import { DirectorySync } from './directory-sync.ts';
import { errnoOf, fileError } from './errno.ts';
import { FileSink } from './file-sink.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { makeDirectories } from './make-directories.ts';
import { fileSystemAt } from './mounts.ts';

/** Bytes of the directory's name that its temporary sibling repeats: with the rest it stays below the 255 of a file name. */
const SIBLING_NAME_BYTES_MAX = 180;

/** See `LocalFiles.openTarget`. Missing parent directories are created. A symbolic link to a directory stands for that directory. */
export async function openTarget(
  directory: string,
  options: TargetOptions = {},
  fileSystem: FileSystem = nodeFileSystem,
): Promise<RestoreTarget> {
  throwIfAborted(options.signal);
  let path = resolve(directory);
  try {
    const mode = await existingMode(fileSystem, path, options.replace ?? false);
    if (mode !== null) path = await fileSystem.realpath(path);
    if (basename(path) === '') throw targetError('InvalidArgument', path, 'is the root of the file system');
    await makeDirectories(fileSystem, dirname(path));
    const sibling = `${dirname(path)}${sep}${siblingName(basename(path))}`;
    await fileSystem.mkdir(sibling);
    // The kernel has applied the umask: this is the mode that any new directory would have.
    const newMode = Number((await fileSystem.stat(sibling)).mode) & 0o7777;
    await fileSystem.chmod(sibling, 0o700);
    return new DirectoryTarget({
      fileSystem: fileSystem === nodeFileSystem ? await fileSystemAt(sibling) : fileSystem,
      path,
      sibling,
      mode: mode ?? newMode,
      replace: options.replace ?? false,
    });
  } catch (error) {
    throw fileError(error, `prepare ${path}`, { path });
  }
}

/** Permission bits of the directory in whose place the new one goes; `null` if there is none. */
async function existingMode(fileSystem: FileSystem, path: string, replace: boolean): Promise<number | null> {
  const stats = await fileSystem.stat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  });
  if (stats === null) {
    const isDangling = await fileSystem.lstat(path).then(
      () => true,
      () => false,
    );
    if (isDangling) throw targetError('TargetExists', path, 'is a symbolic link to nothing');
    return null;
  }
  if (!stats.isDirectory()) throw targetError('TargetExists', path, 'exists and is not a directory');
  if (!replace && (await fileSystem.readdir(path)).length > 0) {
    throw targetError('TargetExists', path, 'exists and is not empty');
  }
  return Number(stats.mode) & 0o7777;
}

/** Hidden, and of nobody else: `name` is to take its place later. */
export function siblingName(name: string): string {
  const start = Buffer.from(name)
    .subarray(0, SIBLING_NAME_BYTES_MAX)
    .toString('utf8')
    .replace(/\uFFFD$/, '');
  return `.${start}.holdfast-${systemRandom.hex(16)}`;
}

interface TargetParts {
  readonly fileSystem: FileSystem;
  readonly path: string;
  readonly sibling: string;
  readonly mode: number;
  readonly replace: boolean;
}

class DirectoryTarget implements RestoreTarget {
  readonly #parts: TargetParts;
  readonly #sync: DirectorySync;
  readonly #directories: Set<string>;
  readonly #sinks = new Set<FileSink>();
  #isSettled = false;

  constructor(parts: TargetParts) {
    this.#parts = parts;
    this.#sync = new DirectorySync({ fileSystem: parts.fileSystem });
    this.#directories = new Set([parts.sibling]);
  }

  async open(file: SinkFile): Promise<RandomSink> {
    const { fileSystem, sibling } = this.#parts;
    if (this.#isSettled) throw this.#error('InvalidArgument', 'is published or discarded already');
    const path = resolve(sibling, file.name);
    assertInside(sibling, path, file.name);
    try {
      await this.#makeDirectories(dirname(path));
      // The sibling is new and nobody else can enter it, so there is no link to follow; 'wx' would not follow one either.
      const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
      const sink = new FileSink(file, await DirectFile.open(path, flags, { fileSystem }));
      this.#sinks.add(sink);
      return sink;
    } catch (error) {
      throw this.#openError(error, file.name);
    }
  }

  async publish(): Promise<void> {
    const { fileSystem, sibling, mode, path } = this.#parts;
    if (this.#isSettled) throw this.#error('InvalidArgument', 'is published or discarded already');
    try {
      await fileSystem.chmod(sibling, mode);
      for (const directory of this.#directories) await this.#sync.sync(directory);
      await this.#moveIntoPlace();
    } catch (error) {
      throw fileError(error, `publish ${path}`, { path });
    }
  }

  async discard(): Promise<void> {
    this.#isSettled = true;
    for (const sink of this.#sinks) await sink.abandon();
    // What cannot be removed is a hidden directory that takes room; the failure that led here matters more.
    await this.#parts.fileSystem.removeAll(this.#parts.sibling).catch(() => undefined);
  }

  async #makeDirectories(directory: string): Promise<void> {
    if (this.#directories.has(directory)) return;
    await makeDirectories(this.#parts.fileSystem, directory);
    for (let path = directory; !this.#directories.has(path); path = dirname(path))
      this.#directories.add(path);
  }

  async #moveIntoPlace(): Promise<void> {
    const { fileSystem, sibling, path, replace } = this.#parts;
    const aside = `${sibling}.old`;
    const hasOld = replace && (await moved(fileSystem, path, aside));
    try {
      // Takes the place of an empty directory too.
      await fileSystem.rename(sibling, path);
    } catch (error) {
      if (hasOld) await fileSystem.rename(aside, path);
      const isFilled = ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(errnoOf(error) ?? '');
      throw isFilled ? this.#error('TargetExists', 'was filled by somebody else meanwhile') : error;
    }
    this.#isSettled = true;
    await this.#sync.sync(dirname(path));
    // The restore has succeeded; what is left of the old one, should this fail, is a hidden directory that takes room.
    if (hasOld) await fileSystem.removeAll(aside).catch(() => undefined);
  }

  #openError(error: unknown, name: string): CheckpointError {
    const errno = errnoOf(error) ?? '';
    if (['EEXIST', 'ENOTDIR', 'EISDIR'].includes(errno)) {
      return this.#error(
        'InvalidArgument',
        `cannot hold "${name}" beside another file: both have the same name there, or one would lie inside the other`,
        error,
      );
    }
    return fileError(error, `create "${name}" below ${this.#parts.path}`, { path: this.#parts.path, name });
  }

  #error(code: ErrorCode, what: string, cause?: unknown): CheckpointError {
    return targetError(code, this.#parts.path, what, cause);
  }
}

/** False: there is nothing to move. */
async function moved(fileSystem: FileSystem, from: string, to: string): Promise<boolean> {
  try {
    await fileSystem.rename(from, to);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/** The engine has checked names already. Whatever it missed, nothing is written outside. */
function assertInside(root: string, path: string, name: string): void {
  const isInside =
    path.startsWith(`${root}${sep}`) && path === `${root}${sep}${name}` && !name.includes('\0');
  if (isInside) return;
  throw new CheckpointError('InvalidArgument', `"${name}" is not a relative path without "." and ".."`, {
    context: { name },
  });
}

export function targetError(code: ErrorCode, path: string, what: string, cause?: unknown): CheckpointError {
  return new CheckpointError(code, `${path} ${what}`, { context: { path }, cause });
}
