/**
 * The file-system calls that Holdfast makes, under their POSIX names; descriptors are numbers. They
 * are passed in, so that a test can make any of them fail. Errors are Node's, with the errno name
 * in `code`; `errno.ts` translates them.
 */

import {
  type BigIntStats,
  type BigIntStatsFs,
  chmod,
  close,
  closeSync,
  type Dirent,
  fchmod,
  fchmodSync,
  fdatasync,
  fstat,
  fstatSync,
  fsync,
  ftruncate,
  futimes,
  link,
  lstat,
  lstatSync,
  mkdir,
  open,
  openSync,
  read,
  readdir,
  readFile,
  readlink,
  readlinkSync,
  readSync,
  realpath,
  realpathSync,
  rename,
  renameSync,
  rmdir,
  stat,
  statfs,
  statfsSync,
  statSync,
  symlink,
  unlink,
  unlinkSync,
  write,
  writeSync,
} from 'node:fs';
import { promisify } from 'node:util';
import { removeTree } from './remove-tree.ts';

/** The bytes that a read or write moves: their position in a file and in a buffer. */
export interface IoPosition {
  readonly buffer: Uint8Array;
  /** First byte of `buffer`. */
  readonly start: number;
  readonly lengthBytes: number;
  readonly offsetBytes: number;
}

export interface FileSystem {
  open(path: string, flags: number, mode?: number): Promise<number>;
  close(descriptor: number): Promise<void>;
  /** One system call: may read less than asked for; 0 at the end of the file. */
  read(descriptor: number, position: IoPosition): Promise<number>;
  /** One system call: may write less than asked for. */
  write(descriptor: number, position: IoPosition): Promise<number>;
  fsync(descriptor: number): Promise<void>;
  fdatasync(descriptor: number): Promise<void>;
  ftruncate(descriptor: number, sizeBytes: number): Promise<void>;
  fchmod(descriptor: number, mode: number): Promise<void>;
  /** In seconds since 1970. */
  futimes(descriptor: number, accessed: number, modified: number): Promise<void>;
  fstat(descriptor: number): Promise<BigIntStats>;
  stat(path: string): Promise<BigIntStats>;
  statfs(path: string): Promise<BigIntStatsFs>;
  lstat(path: string): Promise<BigIntStats>;
  chmod(path: string, mode: number): Promise<void>;
  link(existing: string, path: string): Promise<void>;
  symlink(target: string, path: string): Promise<void>;
  readlink(path: string): Promise<string>;
  rename(from: string, to: string): Promise<void>;
  unlink(path: string): Promise<void>;
  mkdir(path: string): Promise<void>;
  rmdir(path: string): Promise<void>;
  /** Removes a tree without following links; succeeds if it is not there. */
  removeAll(path: string): Promise<void>;
  /** Names as bytes: they need not be UTF-8. */
  readdir(path: string): Promise<Dirent<Buffer>[]>;
  realpath(path: string): Promise<string>;
  readText(path: string): Promise<string>;
}

const nodeOpen = promisify(open);
const nodeRead = promisify(read);
const nodeWrite = promisify(write);
const nodeFstat = promisify(fstat);
const nodeStat = promisify(stat);
const nodeStatfs = promisify(statfs);
const nodeLstat = promisify(lstat);
const nodeMkdir = promisify(mkdir);
const nodeReaddir = promisify(readdir);
const nodeReadFile = promisify(readFile);
const nodeSymlink = promisify(symlink);

/** The system calls of this machine. Each takes one trip through libuv's thread pool. */
export const nodeFileSystem: FileSystem = {
  open: (path, flags, mode) => nodeOpen(path, flags, mode),
  close: promisify(close),
  read: async (descriptor, { buffer, start, lengthBytes, offsetBytes }) =>
    (await nodeRead(descriptor, buffer, start, lengthBytes, offsetBytes)).bytesRead,
  write: async (descriptor, { buffer, start, lengthBytes, offsetBytes }) =>
    (await nodeWrite(descriptor, buffer, start, lengthBytes, offsetBytes)).bytesWritten,
  fsync: promisify(fsync),
  fdatasync: promisify(fdatasync),
  ftruncate: promisify(ftruncate),
  fchmod: promisify(fchmod),
  futimes: promisify(futimes),
  fstat: (descriptor) => nodeFstat(descriptor, { bigint: true }),
  stat: (path) => nodeStat(path, { bigint: true }),
  statfs: (path) => nodeStatfs(path, { bigint: true }),
  lstat: (path) => nodeLstat(path, { bigint: true }),
  chmod: promisify(chmod),
  link: promisify(link),
  symlink: (target, path) => nodeSymlink(target, path),
  readlink: promisify(readlink),
  rename: promisify(rename),
  unlink: promisify(unlink),
  mkdir: (path) => nodeMkdir(path),
  rmdir: promisify(rmdir),
  removeAll: removeTree,
  readdir: (path) => nodeReaddir(path, { withFileTypes: true, encoding: 'buffer' }),
  realpath: promisify(realpath.native),
  readText: (path) => nodeReadFile(path, 'utf8'),
};

/**
 * Closes a file through which nothing was written, so an error of the call means nothing. Network
 * file systems and FUSE may report here the errors of other processes that write to the file.
 */
export async function closeRead(fileSystem: FileSystem, descriptor: number): Promise<void> {
  await fileSystem.close(descriptor).catch(() => undefined);
}

/**
 * For a file system whose `fstat`, `fchmod` and `close` touch only memory (`isLocalDisk`). There
 * the trip through the thread pool costs ten times the call, so these calls are made in place. On a
 * network they wait for a server, and would block the whole process.
 */
export const diskFileSystem: FileSystem = {
  ...nodeFileSystem,
  fstat: async (descriptor) => fstatSync(descriptor, { bigint: true }),
  fchmod: async (descriptor, mode) => fchmodSync(descriptor, mode),
  close: async (descriptor) => closeSync(descriptor),
};

/** The page cache copies this much in a few microseconds. */
const SMALL_BYTES = 64 * 1024;
/** A read that takes longer went to the disk. */
const CACHED_READ_MS = 1;
/** So many reads after a slow one go through the thread pool. */
const READS_AFTER_SLOW = 100;

/**
 * For the files of one scan; makes fast calls in place. The scan has just brought the directory
 * entries into memory, so opening a file does not wait for the disk. A trainer has usually just
 * written the files, so small reads do not wait either: they too are made in place (synchronously)
 * until one of them is slow.
 */
export function scannedFileSystem(): FileSystem {
  let readsElsewhere = 0;
  return {
    ...diskFileSystem,
    open: async (path, flags, mode) => openSync(path, flags, mode),
    readlink: async (path) => readlinkSync(path),
    stat: async (path) => statSync(path, { bigint: true }),
    read: async (descriptor, position) => {
      const { buffer, start, lengthBytes, offsetBytes } = position;
      if (lengthBytes > SMALL_BYTES) return diskFileSystem.read(descriptor, position);
      if (readsElsewhere > 0) {
        readsElsewhere -= 1;
        return diskFileSystem.read(descriptor, position);
      }
      const startMs = performance.now();
      const count = readSync(descriptor, buffer, start, lengthBytes, offsetBytes);
      if (performance.now() - startMs > CACHED_READ_MS) readsElsewhere = READS_AFTER_SLOW;
      return count;
    },
  };
}

/**
 * For a file system in memory, such as tmpfs: none of these calls waits for a device. In place each
 * takes some microseconds. Through the thread pool it may wait behind large reads of other files.
 */
export const memoryFileSystem: FileSystem = {
  ...diskFileSystem,
  open: async (path, flags, mode) => openSync(path, flags, mode),
  write: async (descriptor, position) => {
    const { buffer, start, lengthBytes, offsetBytes } = position;
    if (lengthBytes > SMALL_BYTES) return diskFileSystem.write(descriptor, position);
    return writeSync(descriptor, buffer, start, lengthBytes, offsetBytes);
  },
  lstat: async (path) => lstatSync(path, { bigint: true }),
  readlink: async (path) => readlinkSync(path),
  statfs: async (path) => statfsSync(path, { bigint: true }),
  rename: async (from, to) => renameSync(from, to),
  unlink: async (path) => unlinkSync(path),
  realpath: async (path) => realpathSync.native(path),
};
