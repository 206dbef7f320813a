/**
 * A directory that appears whole or not at all. Files go to a temporary sibling that only its owner
 * can enter. `publish` makes them and their names durable, checks that each is still there, and
 * renames the sibling into place.
 *
 * Replacing takes two renames, so for an instant neither directory has the name:
 * 1. The old directory is moved aside (`.name.holdfast-….old`).
 * 2. The old directory is examined again, because a program may have written to it until then.
 * 3. The new directory is moved into place, and both names are made durable.
 * 4. The old directory is examined once more, and removed.
 *
 * If a program has a file of the old directory open, what it writes after the last check is lost.
 * After a crash in between, the old directory still exists under its hidden name. The next target
 * of the same name puts it back.
 */

import { dirname, resolve, sep } from 'node:path';
import {
  CheckpointError,
  type ErrorCode,
  type RandomSink,
  type RestoreTarget,
  type SinkDirectory,
  type SinkFile,
  type TargetOptions,
  throwIfAborted,
} from '@holdfast/core/contract';
import { DirectorySync } from './directory-sync.ts';
import { errnoOf, fileError } from './errno.ts';
import { FileSink } from './file-sink.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { localPath } from './local-path.ts';
import { makeDirectories } from './make-directories.ts';
import { fileSystemAt } from './mounts.ts';
import { assertOutsideRuns, lookAtOld, never, type OldDirectory } from './old-directory.ts';
import { linuxProcesses, type Processes } from './processes.ts';
import { protectionOf } from './protected-directory.ts';
import {
  ASIDE_ENDING,
  clearSiblings,
  leadsTo,
  readNotes,
  removeNotesOfNothing,
  type SiblingParts,
  settleAside,
  siblingOf,
} from './siblings.ts';
import { StagingDirectory } from './staging-directory.ts';
import { directoryLine, madeDirectoryLine, NOTE_ENDING, noteLine, writeNote } from './target-note.ts';

/** What a test can replace, besides the system calls. */
export interface TargetSurroundings {
  readonly fileSystem?: FileSystem | undefined;
  readonly processes?: Processes | undefined;
}

/**
 * See `LocalFiles.openTarget`. Missing parent directories are created. A symbolic link to a
 * directory stands for that directory.
 */
export async function openTarget(
  directory: string,
  options: TargetOptions = {},
  { fileSystem = nodeFileSystem, processes = linuxProcesses() }: TargetSurroundings = {},
): Promise<RestoreTarget> {
  throwIfAborted(options.signal);
  const given = localPath(directory);
  try {
    const path = await leadsTo(fileSystem, given);
    await assertOutsideRuns(fileSystem, path);
    await clearSiblings(path, { fileSystem, processes }, options);
    const mode = await existingMode(fileSystem, path, given !== path && (await isLink(fileSystem, given)));
    const old = mode === null ? null : await unlessGone(oldDirectory(fileSystem, processes, path, options));
    if (old !== null) assertReplaced(path, old, options.replace);
    await makeDirectories(fileSystem, dirname(path));
    const sibling = await siblingOf(path, processes);
    const quickest = fileSystem === nodeFileSystem ? await fileSystemAt(dirname(sibling)) : fileSystem;
    const staging = await StagingDirectory.create({ fileSystem: quickest, path: sibling, target: path });
    return new DirectoryTarget({
      fileSystem: quickest,
      processes,
      path,
      sibling,
      staging,
      mode: mode ?? staging.newMode,
      options,
    });
  } catch (error) {
    throw fileError(error, `prepare ${given}`, { path: given });
  }
}

/**
 * Reports what replacing a directory would delete; `null`: nothing exists, or an empty directory.
 * Throws `TargetExists` if it is not a directory, `InvalidArgument` if it is never replaced.
 */
export async function inspectTarget(
  directory: string,
  options: Omit<TargetOptions, 'replace'> = {},
  { fileSystem = nodeFileSystem, processes = linuxProcesses() }: TargetSurroundings = {},
): Promise<OldDirectory | null> {
  const given = localPath(directory);
  try {
    const path = await leadsTo(fileSystem, given);
    await clearSiblings(path, { fileSystem, processes }, options);
    const mode = await existingMode(fileSystem, path, false);
    const replace = 'everything';
    await assertOutsideRuns(fileSystem, path);
    if (mode === null) return null;
    return await unlessGone(oldDirectory(fileSystem, processes, path, { ...options, replace }));
  } catch (error) {
    throw fileError(error, `look at ${given}`, { path: given });
  }
}

/**
 * Resolves to `null` if it is empty. Throws `InvalidArgument` if its place forbids replacing it,
 * empty or not.
 */
async function oldDirectory(
  fileSystem: FileSystem,
  processes: Processes,
  path: string,
  options: TargetOptions,
): Promise<OldDirectory | null> {
  const protection = await protectionOf(fileSystem, path);
  if (protection !== null) throw never(path, protection);
  if ((await fileSystem.readdir(path)).length === 0) return null;
  if (!options.replace) throw targetError('TargetExists', path, 'exists and is not empty');
  const made = options.isOwn ? new Set<string>() : await readNotes(path, path, { fileSystem, processes });
  return lookAtOld(fileSystem, path, { isOwn: options.isOwn, signal: options.signal, made });
}

/**
 * `null`: another process has just removed or renamed it. It is examined again before publishing.
 */
async function unlessGone(looking: Promise<OldDirectory | null>): Promise<OldDirectory | null> {
  try {
    return await looking;
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  }
}

function assertReplaced(path: string, old: OldDirectory, replace: TargetOptions['replace']): void {
  const { foreignCount, example } = old;
  if (foreignCount === 0 || replace === 'everything') return;
  const [one, many] = example?.endsWith('/')
    ? ['empty directory', 'files and empty directories']
    : ['file', 'files'];
  const count = foreignCount === 1 ? `1 ${one}` : `${foreignCount} ${many}`;
  const what = `${count} that Holdfast did not put there`;
  const message = `${path} holds ${what}, or that changed since, such as ${JSON.stringify(example)}`;
  throw new CheckpointError('TargetExists', message, { context: { path, foreignCount } });
}

async function isLink(fileSystem: FileSystem, path: string): Promise<boolean> {
  const stats = await fileSystem.lstat(path).catch(() => null);
  return stats?.isSymbolicLink() ?? false;
}

/** Permission bits of the directory that the new one replaces; `null`: no directory exists. */
async function existingMode(fileSystem: FileSystem, path: string, isByLink: boolean): Promise<number | null> {
  const stats = await fileSystem.stat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  });
  if (stats === null) {
    if (isByLink) throw irreplaceable(path, 'is a symbolic link to a directory that does not exist');
    return null;
  }
  if (!stats.isDirectory()) throw irreplaceable(path, 'exists and is not a directory');
  return Number(stats.mode) & 0o7777;
}

interface TargetParts extends SiblingParts {
  readonly path: string;
  readonly sibling: string;
  readonly staging: StagingDirectory;
  readonly mode: number;
  readonly options: TargetOptions;
}

class DirectoryTarget implements RestoreTarget {
  readonly #parts: TargetParts;
  readonly #sync: DirectorySync;
  readonly #sinks = new Set<FileSink>();
  #isSettled = false;

  constructor(parts: TargetParts) {
    this.#parts = parts;
    this.#sync = new DirectorySync({ fileSystem: parts.fileSystem });
  }

  async open(file: SinkFile): Promise<RandomSink> {
    const { sibling, staging, path } = this.#parts;
    const { name } = file;
    if (this.#isSettled) throw this.#error('InvalidArgument', 'is already published or discarded');
    assertInside(sibling, resolve(sibling, name), name);
    try {
      const opened = await staging.create(name);
      const sink = new FileSink(file, opened, (stats) => staging.noteWritten(name, stats));
      this.#sinks.add(sink);
      return sink;
    } catch (error) {
      throw fileError(error, `create "${name}" below ${path}`, { path, name });
    }
  }

  async makeDirectory({ name, mtimeMs }: SinkDirectory): Promise<void> {
    const { sibling, staging, path } = this.#parts;
    if (this.#isSettled) throw this.#error('InvalidArgument', 'is already published or discarded');
    assertInside(sibling, resolve(sibling, name), name);
    try {
      await staging.makeDirectory(name, mtimeMs);
    } catch (error) {
      throw fileError(error, `create the directory "${name}" below ${path}`, { path, name });
    }
  }

  async publish(): Promise<void> {
    const { staging, mode, path, options } = this.#parts;
    if (this.#isSettled) throw this.#error('InvalidArgument', 'is already published or discarded');
    try {
      await staging.chmod(mode);
      for (const directory of staging.directories()) {
        throwIfAborted(options.signal);
        await this.#sync.sync(directory);
      }
      await this.#writeNote();
      await this.#moveIntoPlace();
    } catch (error) {
      throw fileError(error, `publish ${path}`, { path });
    }
  }

  async discard(): Promise<void> {
    if (this.#isSettled) return;
    this.#isSettled = true;
    for (const sink of this.#sinks) await sink.abandon();
    const { fileSystem, sibling, staging } = this.#parts;
    const isInPlace = await staging.isInPlace();
    await staging.close();
    // A hidden directory that cannot be removed only takes room. The failure that led here matters
    // more.
    if (isInPlace) await fileSystem.removeAll(sibling).catch(() => undefined);
    await fileSystem.unlink(`${sibling}${NOTE_ENDING}`).catch(() => undefined);
  }

  /**
   * Written before the renames, so that it describes whichever directory is then in place. If there
   * is no room for it, the next target needs `replace: 'everything'`.
   */
  async #writeNote(): Promise<void> {
    const { fileSystem, sibling, staging, options } = this.#parts;
    if (options.isOwn !== undefined) return;
    const note = `${sibling}${NOTE_ENDING}`;
    const files = Array.from(staging.files(), ([name, file]) => noteLine(name, file));
    const lines = [...files, ...staging.directoryNames().map(madeDirectoryLine)];
    const about = directoryLine(await staging.inode());
    await writeNote(fileSystem, note, [about, ...lines]).catch(() =>
      fileSystem.unlink(note).catch(() => undefined),
    );
  }

  async #moveIntoPlace(): Promise<void> {
    const { fileSystem, sibling, staging, path, options } = this.#parts;
    const aside = `${sibling}${ASIDE_ENDING}`;
    const hasOld = await this.#moveAside(aside);
    try {
      if (hasOld) await this.#assertStillReplaced(aside);
      await staging.assertIntact();
      // Also replaces an empty directory.
      await fileSystem.rename(sibling, path).catch(async (error: unknown) => {
        // A network file system may lose the answer to a rename that took effect.
        await staging.assertAt(path).catch(() => {
          throw error;
        });
      });
    } catch (error) {
      if (hasOld) await this.#putBack(aside);
      const isFilled = ['ENOTEMPTY', 'EEXIST', 'ENOTDIR'].includes(errnoOf(error) ?? '');
      throw isFilled ? this.#error('TargetExists', 'was filled by another process meanwhile') : error;
    }
    this.#isSettled = true;
    // Another program may have put another directory there at the last moment.
    await staging.assertAt(path).finally(() => staging.close());
    await this.#sync.sync(dirname(path));
    if (hasOld) await settleAside(path, aside, this.#parts, options);
    await removeNotesOfNothing(path, this.#parts);
  }

  /** Examines the old directory again: hours may have passed. False: there is none to move. */
  async #moveAside(aside: string): Promise<boolean> {
    const { fileSystem, processes, path, options } = this.#parts;
    if (!options.replace) return false;
    const { replace, isOwn } = options;
    try {
      // Ignore the signal from here on: everything is written, and the rest takes no time.
      const old = await oldDirectory(fileSystem, processes, path, { replace, isOwn });
      if (old !== null) assertReplaced(path, old, replace);
      await fileSystem.rename(path, aside);
      return true;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return false;
      throw errnoOf(error) === 'ENOTDIR' ? irreplaceable(path, 'is no longer a directory') : error;
    }
  }

  /** A program may have added a file between the last check and the rename. */
  async #assertStillReplaced(aside: string): Promise<void> {
    const { fileSystem, path, options } = this.#parts;
    const made = options.isOwn ? new Set<string>() : await readNotes(aside, path, this.#parts);
    const old = await lookAtOld(fileSystem, aside, { isOwn: options.isOwn, made, movedFrom: path });
    assertReplaced(path, old, options.replace);
  }

  /** Throws `TargetExists` if the name is taken. The directory then stays where it is. */
  async #putBack(aside: string): Promise<void> {
    const { fileSystem, path } = this.#parts;
    await fileSystem.rename(aside, path).catch((error: unknown) => {
      const what = `was created by another process meanwhile, and the old directory is now at ${aside}`;
      throw this.#error('TargetExists', what, error);
    });
  }

  #error(code: ErrorCode, what: string, cause?: unknown): CheckpointError {
    return targetError(code, this.#parts.path, what, cause);
  }
}

/** The engine has checked names already. This is a second guard: nothing may be written outside. */
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

/** A `TargetExists` that no `replace` can override. The context says so. */
export function irreplaceable(path: string, what: string, cause?: unknown): CheckpointError {
  const context = { path, replaceable: false };
  return new CheckpointError('TargetExists', `${path} ${what}`, { context, cause });
}
