/**
 * One file that appears whole or not at all. It is written to a temporary sibling that only its
 * owner can read. `publish` gives it its name when its bytes are durable. A link never replaces a
 * file that another program has made meanwhile. A rename replaces atomically.
 */

import { constants } from 'node:fs';
import { dirname } from 'node:path';
import {
  type CallOptions,
  type CheckpointError,
  type ErrorCode,
  type RandomSink,
  type RestoreTarget,
  type SinkFile,
  throwIfAborted,
} from '@holdfast/core/contract';
import { changedMeanwhile, isAsWritten, type WrittenFile, whatIs, writtenFile } from './as-written.ts';
import { DirectFile } from './direct-file.ts';
import { DirectorySync } from './directory-sync.ts';
import { errnoOf, fileError } from './errno.ts';
import { FileSink } from './file-sink.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { localPath } from './local-path.ts';
import { makeDirectories } from './make-directories.ts';
import { fileSystemAt } from './mounts.ts';
import { assertOutsideRuns } from './old-directory.ts';
import { linuxProcesses, type Processes } from './processes.ts';
import { clearSiblings, leadsTo, siblingOf } from './siblings.ts';
import { irreplaceable, targetError } from './target.ts';

export interface TargetFileOptions extends CallOptions {
  /** Replace an existing file. */
  replace?: boolean | undefined;
}

/** Errors of `link` without hard links. Linux reports `EPERM` (link(2)). */
const NO_LINKS = new Set(['EPERM', 'ENOSYS', 'ENOTSUP', 'EOPNOTSUPP', 'EMLINK']);

/**
 * Prepares a file at `path`, as `LocalFiles.openTarget` prepares a directory. Its one `open`
 * returns the sink, for any name. `publish`, after the sink is closed, makes the file visible and
 * durable. Missing parent directories are created. With `replace`, a symbolic link stands for the
 * file that it names, and the new file takes the mode of the old one.
 *
 * Throws:
 * - `TargetExists`: a file exists, without `replace`, or the path is not a regular file.
 * - `InvalidArgument`: the path lies in a run, or would.
 * - `Unsupported`: the file system has no hard links, which are needed to avoid replacing a file.
 */
export async function openTargetFile(
  path: string,
  options: TargetFileOptions = {},
  fileSystem: FileSystem = nodeFileSystem,
  processes: Processes = linuxProcesses(),
): Promise<RestoreTarget> {
  throwIfAborted(options.signal);
  const replace = options.replace ?? false;
  let target = localPath(path);
  try {
    const mode = await existingMode(fileSystem, target, replace);
    await assertOutsideRuns(fileSystem, await leadsTo(fileSystem, target));
    if (mode !== null) target = await fileSystem.realpath(target);
    await makeDirectories(fileSystem, dirname(target));
    const quickest = fileSystem === nodeFileSystem ? await fileSystemAt(dirname(target)) : fileSystem;
    await clearSiblings(target, { fileSystem, processes });
    const sibling = await siblingOf(target, processes);
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
    const file = await DirectFile.open(sibling, flags, { fileSystem: quickest });
    const parts = { fileSystem: quickest, path: target, sibling, replace, mode, file };
    return await FileTarget.prepare(parts);
  } catch (error) {
    throw fileError(error, `prepare ${target}`, { path: target });
  }
}

/** Permission bits of the file that is replaced; `null`: no file exists. */
async function existingMode(fileSystem: FileSystem, path: string, replace: boolean): Promise<number | null> {
  const found = await fileSystem.lstat(path).catch((error: unknown) => {
    if (errnoOf(error) === 'ENOENT') return null;
    throw error;
  });
  if (found === null) return null;
  const stats = await fileSystem.stat(path).catch((error: unknown) => {
    throw errnoOf(error) === 'ENOENT'
      ? irreplaceable(path, 'is a symbolic link to a file that does not exist', error)
      : error;
  });
  if (!stats.isFile()) throw irreplaceable(path, 'exists and is not a regular file');
  if (!replace) throw targetError('TargetExists', path, 'exists');
  return Number(stats.mode) & 0o777;
}

interface TargetParts {
  readonly fileSystem: FileSystem;
  readonly path: string;
  readonly sibling: string;
  readonly replace: boolean;
  /** Mode of the file; `null`: that of any new file. */
  readonly mode: number | null;
  readonly file: DirectFile;
}

class FileTarget implements RestoreTarget {
  readonly #parts: TargetParts;
  #sink: FileSink | undefined;
  #written: WrittenFile | undefined;
  #state: 'empty' | 'open' | 'closed' | 'settled' = 'empty';

  private constructor(parts: TargetParts) {
    this.#parts = parts;
  }

  static async prepare(parts: TargetParts): Promise<FileTarget> {
    const target = new FileTarget(parts);
    try {
      // The kernel has applied the umask: any new file would have this mode.
      const newMode = Number((await parts.file.stat()).mode) & 0o777;
      await parts.file.chmod(0o600);
      return new FileTarget({ ...parts, mode: parts.mode ?? newMode });
    } catch (error) {
      await target.discard();
      throw error;
    }
  }

  async open(file: SinkFile): Promise<RandomSink> {
    if (this.#state !== 'empty') throw this.#error('InvalidArgument', 'takes only one file, once');
    this.#state = 'open';
    const mode = file.mode ?? this.#parts.mode ?? undefined;
    const sink = new FileSink({ ...file, mode }, this.#parts.file, (stats) => {
      this.#written = writtenFile(stats);
    });
    this.#sink = sink;
    return {
      writeAt: (offsetBytes, buffer) => sink.writeAt(offsetBytes, buffer),
      close: async () => {
        await sink.close();
        if (this.#state === 'open') this.#state = 'closed';
      },
    };
  }

  async publish(): Promise<void> {
    const { path, fileSystem } = this.#parts;
    if (this.#state === 'settled') throw this.#error('InvalidArgument', 'is already published or discarded');
    if (this.#state !== 'closed') throw this.#error('InvalidArgument', 'is not completely written yet');
    try {
      await this.#assertWritten(this.#parts.sibling);
      await this.#moveIntoPlace();
      this.#state = 'settled';
      // Another program may have put another file there at the last moment.
      await this.#assertWritten(path);
      await new DirectorySync({ fileSystem }).sync(dirname(path));
    } catch (error) {
      throw fileError(error, `publish ${path}`, { path });
    }
  }

  async discard(): Promise<void> {
    if (this.#state === 'settled') return;
    this.#state = 'settled';
    const { file, fileSystem, sibling } = this.#parts;
    await (this.#sink?.abandon() ?? file.close().catch(() => undefined));
    // A hidden file that cannot be removed only takes room. The failure that led here matters more.
    await fileSystem.unlink(sibling).catch(() => undefined);
  }

  /** Throws `Conflict` if the path does not lead to the file that was written. */
  async #assertWritten(at: string): Promise<void> {
    const { fileSystem, path } = this.#parts;
    const stats = await fileSystem.lstat(at).catch((error: unknown) => {
      if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return null;
      throw error;
    });
    if (stats && this.#written && isAsWritten(stats, this.#written)) return;
    throw changedMeanwhile(path, at, stats?.isFile() ? 'is not the file that was written' : whatIs(stats));
  }

  async #moveIntoPlace(): Promise<void> {
    const { fileSystem, sibling, path, replace } = this.#parts;
    if (replace) return fileSystem.rename(sibling, path);
    try {
      await fileSystem.link(sibling, path);
    } catch (error) {
      const errno = errnoOf(error) ?? '';
      if (errno === 'EEXIST') throw this.#error('TargetExists', 'was created by another process meanwhile');
      if (!NO_LINKS.has(errno)) throw error;
      throw this.#error(
        'Unsupported',
        'is on a file system without hard links; replace the file there',
        error,
      );
    }
    // The file is in place. If this fails, only a second, hidden name stays.
    await fileSystem.unlink(sibling).catch(() => undefined);
  }

  #error(code: ErrorCode, what: string, cause?: unknown): CheckpointError {
    return targetError(code, this.#parts.path, what, cause);
  }
}
