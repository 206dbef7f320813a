/**
 * Sources of saved bytes and destinations of restored bytes. The engine does not touch the file
 * system: a `LocalFiles` that is passed in (`@holdfast/local-files`) opens paths.
 */

import type { CallOptions } from './object-store.ts';

/** Bytes of known length that can be read at any position. */
export interface RandomSource {
  readonly sizeBytes: number;
  /** POSIX permission bits, if any. */
  readonly mode?: number | undefined;
  /** When it was last modified, milliseconds since 1970, if known. */
  readonly mtimeMs?: number | undefined;
  /**
   * True: the bytes may change without `assertUnchanged` noticing. That is so for a file that
   * another program has mapped into its memory. To be sure, a reader must read all of it a second
   * time before `assertUnchanged`, and compare, as a save does. `readAgain` of `@holdfast/core`
   * does this.
   */
  readonly mayHideChanges?: boolean | undefined;
  /**
   * Fills `buffer` from `offsetBytes` on; the range lies inside the source. `SourceChanged` if the
   * source has become shorter. `buffer` belongs to the source until this settles. With transfer
   * workers it lies in a `SharedArrayBuffer`.
   */
  readInto(offsetBytes: number, buffer: Uint8Array): Promise<void>;
  /**
   * `SourceChanged` if the source has changed since it was opened (size, time of change), as far as
   * that is visible without reading it: see `mayHideChanges`. Call it after the last read.
   */
  assertUnchanged(): Promise<void>;
  close(): Promise<void>;
}

/** Some of the bytes of a file. */
export interface FileBytes {
  /** Position of the first byte, from 0; default 0. */
  readonly offsetBytes?: number | undefined;
  /** Default: to the end of the file. */
  readonly lengthBytes?: number | undefined;
}

export interface InputStreamOptions extends FileBytes {
  /**
   * Called for each chunk, and returns exactly this many bytes of memory for it. Memory that is
   * used again and again costs far less than new memory for each chunk: the system need not clear
   * it, nor the runtime collect it. Default: new memory.
   */
  readonly memory?: ((sizeBytes: number) => Uint8Array) | undefined;
}

/** One file that a directory scan found. */
export interface FoundFile {
  /** Logical name: path relative to the directory, segments joined by '/'. */
  readonly name: string;
  /** Size when the scan found it. */
  readonly sizeBytes: number;
  /** Like `openSource`. */
  open(): Promise<RandomSource>;
}

/** What a directory scan found. */
export interface FoundTree {
  /** Sorted by name (UTF-8 bytes). */
  readonly files: readonly FoundFile[];
  /** Directories below which nothing was found, sorted likewise. */
  readonly directories: readonly FoundDirectory[];
  /**
   * `SourceChanged` if a name of `files` now leads to another file than when the directory was
   * read, to a file that was written to since, or to none. So what was read is the directory of one
   * moment. Call it after the last read of the last file. Cost: one look at each file. Absent: not
   * known, or not wanted.
   */
  assertUnchanged?(): Promise<void>;
}

export interface FoundDirectory {
  /** Logical name, as for a file. */
  readonly name: string;
  /** As for a `RandomSource`. */
  readonly mtimeMs?: number | undefined;
}

/** A destination that takes bytes at any position. */
export interface RandomSink {
  /**
   * Writes all of `buffer` at `offsetBytes`. Ranges of one sink do not overlap. `buffer` belongs to
   * the sink until this settles. With transfer workers it lies in a `SharedArrayBuffer`.
   */
  writeAt(offsetBytes: number, buffer: Uint8Array): Promise<void>;
  /**
   * Call it after the last write. When it resolves, the file is complete and, if it is a real file,
   * durable.
   */
  close(): Promise<void>;
}

export interface SinkFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly mode?: number | undefined;
  /**
   * Modification time to set, milliseconds since 1970, 1 to `TIME_MS_MAX`. Default: the time of
   * writing.
   */
  readonly mtimeMs?: number | undefined;
}

export interface SinkDirectory {
  readonly name: string;
  /** As for a file. */
  readonly mtimeMs?: number | undefined;
}

/**
 * A set of files that appears completely or not at all. When all is written, call `publish`. To
 * give up, also after a failed `publish`, call `discard`.
 */
export interface RestoreTarget {
  open(file: SinkFile): Promise<RandomSink>;
  /**
   * Makes a directory and its parents; succeeds if it exists. Called when all files are closed, and
   * for an inner directory before the outer one. Absent: empty directories are not restored.
   */
  makeDirectory?(directory: SinkDirectory): Promise<void>;
  /**
   * Makes everything that was written visible and durable. `Conflict`: another program interfered.
   * Either it changed what was written, and nothing was published. Or it replaced or removed the
   * result at the moment of publishing.
   */
  publish(): Promise<void>;
  /** Removes what was written. Safe to repeat; never throws. */
  discard(): Promise<void>;
}

/**
 * What may be lost when a new directory replaces one that is not empty. `false`: nothing. `true`:
 * files that Holdfast has written and that have not changed since. `'everything'`: all other files
 * too. Some directories are never replaced: a run or a part of one, a mount point, `/`, the working
 * directory, a home directory, and any directory that holds one of these.
 */
export type Replace = boolean | 'everything';

export interface TargetOptions extends CallOptions {
  /** Default: nothing is replaced. */
  replace?: Replace | undefined;
  /**
   * For a format whose names show what may be replaced: true if a file of the old directory may be
   * deleted. Default: a target leaves a note beside its directory that lists the files it wrote,
   * and only files in this note may be deleted.
   */
  isOwn?: ((name: string) => boolean) | undefined;
  /**
   * Called for each old directory that remains beside the new one, including those left by earlier
   * targets of the same name.
   */
  onLeft?: ((left: LeftDirectory) => void) | undefined;
}

/** An old directory that was replaced but still exists. */
export interface LeftDirectory {
  /** Its present path. */
  readonly path: string;
  /**
   * Why it remains: it holds files that may not be deleted, or it cannot be removed. For people.
   */
  readonly reason: string;
}

export interface ScanOptions extends CallOptions {
  /**
   * Receives the logical name of a file, link or directory. True: exclude it, with everything
   * below. Default: nothing is excluded.
   */
  isExcluded?: ((name: string) => boolean) | undefined;
  /**
   * How to treat symbolic links below the directory: `refuse` (default) rejects them and `skip`
   * ignores them. `follow` treats a link as what it leads to, a file or a directory with all its
   * files, under the name of the link. With `follow`, a link that leads nowhere, or to a directory
   * that holds it, is `InvalidArgument`.
   */
  links?: 'refuse' | 'skip' | 'follow' | undefined;
  /**
   * With `follow`, receives the path of each file and directory to which a link leads, without
   * links. What it throws ends the scan.
   */
  onFollowed?: ((path: string) => void) | undefined;
}

export interface LocalFiles {
  /**
   * All regular files below a directory, and the directories below it without a file found in them:
   * empty ones, or those whose contents are all excluded. `NotFound`: no such directory.
   * `InvalidArgument`: it is not a directory, holds no file at all, or holds a symbolic link that
   * the options do not allow, or a special file (named in the message).
   */
  scan(directory: string, options?: ScanOptions): Promise<FoundTree>;
  /** `NotFound`, `Denied`, or `InvalidArgument` if it is not a regular file. */
  openSource(path: string): Promise<RandomSource>;
  /**
   * Prepares a directory: files are written to a temporary sibling, and `publish` renames it into
   * place. First it cleans up after processes that have certainly ended: it removes what they left
   * beside the directory, and moves back an old directory that they had moved aside.
   *
   * `TargetExists`: the path is not a directory (context `replaceable`: false). Or the directory is
   * not empty, and `replace` does not allow the loss of all its files (context `foreignCount`: the
   * number of files and empty directories that may not be lost). `InvalidArgument`: the directory
   * is one of those that are never replaced, even if empty, or it lies in a run.
   */
  openTarget(directory: string, options?: TargetOptions): Promise<RestoreTarget>;
}
