/**
 * Files of this machine: sources to save, targets to restore to, and the base of the local store.
 */

import type { LocalFiles } from '@holdfast/core/contract';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { localPath } from './local-path.ts';
import type { Processes } from './processes.ts';
import { scanDirectory } from './scan.ts';
import { FileSource } from './source.ts';
import { openTarget } from './target.ts';

export { type Check, DIRECT_ALIGNMENT_BYTES, DirectFile, type DirectFileOptions } from './direct-file.ts';
export { DirectorySync, type DirectorySyncOptions, SyncFailedBefore } from './directory-sync.ts';
export { ERRNO_MEANINGS, errnoOf, fileError } from './errno.ts';
export {
  closeRead,
  diskFileSystem,
  type FileSystem,
  type IoPosition,
  memoryFileSystem,
  nodeFileSystem,
} from './file-system.ts';
export { filesBeside } from './files-beside.ts';
export { inDirectory } from './in-directory.ts';
export { type OwnedEntry, ownedEntries, ownedName, removeAbandoned } from './left-behind.ts';
export { isAtOrBelow, localPath } from './local-path.ts';
export { makeDirectories } from './make-directories.ts';
export { bucketMount, isLocalDisk, isPseudoFileSystem, type Mount, mountOfDirectory } from './mounts.ts';
export { assertOutsideRuns, type OldDirectory, runAround } from './old-directory.ts';
export { OpenFiles } from './open-files.ts';
export {
  linuxProcesses,
  type Processes,
  type ProcessIdentity,
  processOfText,
  processText,
} from './processes.ts';
export { FileSource, type ScannedFile } from './source.ts';
export { inspectTarget, type TargetSurroundings } from './target.ts';
export { openTargetFile } from './target-file.ts';
export { subdirectories, type TreeEntry, type WalkOptions, walkTree } from './tree.ts';

/**
 * Files through the given system calls and clock. A test passes calls that fail, and its own time.
 */
export function createLocalFiles(
  fileSystem: FileSystem,
  processes?: Processes,
  nowMs: () => number = Date.now,
): LocalFiles {
  return {
    scan: (directory, options) => scanDirectory(directory, options, fileSystem),
    openSource: async (path) => FileSource.open(localPath(path), fileSystem, { nowMs }),
    openTarget: (directory, options) => openTarget(directory, options, { fileSystem, processes }),
  };
}

/** The files of this machine. */
export const localFiles: LocalFiles = createLocalFiles(nodeFileSystem);
