/**
 * Where saved bytes come from and restored bytes go to. The engine touches no file system: paths are opened by a
 * `LocalFiles` that is passed in (`@holdfast/local-files`).
 */

import type { CallOptions } from './object-store.ts';

/** Bytes of known length that can be read at any position. */
export interface RandomSource {
  readonly sizeBytes: number;
  /** POSIX permission bits, where there are some. */
  readonly mode?: number | undefined;
  /** When it was last modified, milliseconds since 1970, where that is known. */
  readonly mtimeMs?: number | undefined;
  /**
   * True: a change may show in the bytes alone, and `assertUnchanged` does not see it. So it is with a
   * file that another program has mapped into its memory. A reader that must be sure reads all of it
   * a second time before `assertUnchanged`, as a save does, and compares: see `readAgain`.
   */
  readonly mayHideChanges?: boolean | undefined;
  /**
   * Fills `buffer` from `offsetBytes` on; the range lies inside the source.
   * `SourceChanged` if the source has become shorter. `buffer` is the source's until this settles.
   */
  readInto(offsetBytes: number, buffer: Uint8Array): Promise<void>;
  /**
   * `SourceChanged` if the source is not what it was when it was opened (size, time of change), as far
   * as that can be seen without reading it: see `mayHideChanges`. Called after the last read.
   */
  assertUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/** One file that a directory scan found. */
export interface FoundFile {
  /** Logical name: path relative to the directory, segments joined by '/'. */
  readonly name: string;
  /** When it was found. */
  readonly sizeBytes: number;
  /** As `openSource`. */
  open(): Promise<RandomSource>;
}

/** What a directory scan found. */
export interface FoundTree {
  /** Sorted by name (UTF-8 bytes). */
  readonly files: readonly FoundFile[];
  /** Those below which nothing was found. Sorted likewise. */
  readonly directories: readonly FoundDirectory[];
}

export interface FoundDirectory {
  /** As of a file. */
  readonly name: string;
  /** As of a `RandomSource`. */
  readonly mtimeMs?: number | undefined;
}

/** Bytes that are written at any position. */
export interface RandomSink {
  /** Writes all of `buffer` at `offsetBytes`. Ranges of one sink do not overlap. `buffer` is the sink's until this settles. */
  writeAt(offsetBytes: number, buffer: Uint8Array): Promise<void>;
  /** After the last write: the file is complete and durable, where it is one. */
  close(): Promise<void>;
}

export interface SinkFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly mode?: number | undefined;
  /** To be set as its time of modification, milliseconds since 1970, 1 to `TIME_MS_MAX`. Default: the time of writing. */
  readonly mtimeMs?: number | undefined;
}

export interface SinkDirectory {
  readonly name: string;
  /** As of a file. */
  readonly mtimeMs?: number | undefined;
}

/** A set of files that appears whole or not at all. Settled by exactly one of `publish` and `discard`. */
export interface RestoreTarget {
  open(file: SinkFile): Promise<RandomSink>;
  /**
   * Makes a directory, with those above it; succeeds if it is there. Called when all files are closed,
   * and for a directory in another one before it is called for that.
   * Absent: empty directories are not restored.
   */
  makeDirectory?(directory: SinkDirectory): Promise<void>;
  /**
   * Everything is written: make it visible and durable. `Conflict`: another program has changed what was
   * written, and nothing is visible; or it has replaced it in the very moment that it became visible.
   */
  publish(): Promise<void>;
  /** Removes what was written. Safe to repeat; never throws. */
  discard(): Promise<void>;
}

/**
 * What may be lost when a new directory takes the place of one that is not empty. `true`: files that Holdfast has put there and nothing has
 * written to since. `'everything'`: all others too. Never, whatever is said: a run or a part of one, a mount point, `/`, the working
 * directory, a home directory, and any directory that holds one of these.
 */
export type Replace = boolean | 'everything';

export interface TargetOptions extends CallOptions {
  /** Default: nothing is replaced. */
  replace?: Replace | undefined;
  /** Where names tell it: is a file of the old directory of the kind that goes there? Default: a note that each target leaves beside tells it. */
  isOwn?: ((name: string) => boolean) | undefined;
  /** Hears of each old directory that stays beside the new one, also of those that earlier targets of the same name have left. */
  onLeft?: ((left: LeftDirectory) => void) | undefined;
}

/** An old directory whose place was taken. */
export interface LeftDirectory {
  /** Where it is now. */
  readonly path: string;
  /** Why it stays: it holds files that may not go, or it cannot be removed. For people. */
  readonly reason: string;
}

export interface ScanOptions extends CallOptions {
  /** Told the logical name of a file, link or directory: it is left out, with all below. Default: nothing is. */
  isExcluded?: ((name: string) => boolean) | undefined;
  /**
   * Of symbolic links below the directory: `refuse` (default) them; `skip` them; or `follow` them, so that the file, or all files of the
   * directory, that one leads to are found under the name of the link. One that leads nowhere, or to a directory that holds it, is
   * `InvalidArgument` then.
   */
  links?: 'refuse' | 'skip' | 'follow' | undefined;
}

export interface LocalFiles {
  /**
   * All regular files below a directory, and the directories below it that hold nothing that was found:
   * be they empty, or all in them left out. `NotFound`: no such directory; `InvalidArgument`: it is no directory,
   * holds no file at all, or holds a symbolic link that is not asked for, or a special file (named in the message).
   */
  scan(directory: string, options?: ScanOptions): Promise<FoundTree>;
  /** `NotFound`, `Denied`, or `InvalidArgument` if it is no regular file. */
  openSource(path: string): Promise<RandomSource>;
  /**
   * Prepares a directory: files go to a temporary sibling, and `publish` renames it into place. What a process that is certainly gone has
   * left beside it is removed first, and an old directory that it had moved aside is put back.
   * `TargetExists` if `directory` exists and is not empty, unless `replace` covers all that is in it (context `foreignCount`: how many files
   * it does not cover), or is no directory (context `replaceable`: false); `InvalidArgument` if it is never replaced, be it empty, or lies in a run.
   */
  openTarget(directory: string, options?: TargetOptions): Promise<RestoreTarget>;
}
