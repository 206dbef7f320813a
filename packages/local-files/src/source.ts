import { type BigIntStats, constants } from 'node:fs';
import { CheckpointError, type RandomSource } from '@holdfast/core/contract';
import { DirectFile } from './direct-file.ts';
import { fileError } from './errno.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { millisecondsOf } from './mtime.ts';

/** A file as a scan of its directory has found it. */
export interface ScannedFile {
  /** Without links. */
  readonly realPath: string;
  readonly dev: bigint;
  readonly ino: bigint;
}

export interface FileSourceOptions {
  /** Where the file has to be. Default: wherever `path` leads. */
  readonly scanned?: ScannedFile | undefined;
  readonly nowMs?: (() => number) | undefined;
}

/** A second reading of less takes a few milliseconds: no longer than to sync it. */
const SYNC_BYTES_MIN = 16 * 1024 * 1024;
/** By then the system has written the file out, as a rule, so that a sync takes no time. */
const QUIET_MS = 60_000;
/** ext2 to ext4, XFS, btrfs: the first write to a page since it was written out moves the times. */
const FILE_SYSTEMS_THAT_TELL = new Set([0xef53n, 0x58465342n, 0x9123683en]);

/**
 * A file to save. It is read through the page cache: a trainer has just written it, so it is
 * usually there, and reading ahead does the rest where it is not. The cache is left as it is.
 */
export class FileSource implements RandomSource {
  readonly path: string;
  readonly sizeBytes: number;
  readonly mode: number;
  readonly mtimeMs: number;
  readonly mayHideChanges: boolean;
  readonly #file: DirectFile;
  readonly #opened: BigIntStats;

  private constructor(path: string, file: DirectFile, opened: BigIntStats, mayHideChanges: boolean) {
    this.path = path;
    this.mayHideChanges = mayHideChanges;
    this.#file = file;
    this.#opened = opened;
    this.sizeBytes = Number(opened.size);
    this.mode = Number(opened.mode) & 0o777;
    this.mtimeMs = millisecondsOf(opened);
  }

  /**
   * `NotFound`, `Denied`; `InvalidArgument` if it is no regular file. A symbolic link given by name
   * is followed. One that was `scanned` is opened only where the scan has found it:
   * `InvalidArgument` if it is a link by now, `SourceChanged` if the path leads elsewhere.
   */
  static async open(
    path: string,
    fileSystem: FileSystem = nodeFileSystem,
    { scanned, nowMs = Date.now }: FileSourceOptions = {},
  ): Promise<FileSource> {
    try {
      // O_NONBLOCK: opening a pipe would wait for its writer. It means nothing to a regular file.
      const flags = constants.O_RDONLY | constants.O_NONBLOCK | (scanned ? constants.O_NOFOLLOW : 0);
      const file = await DirectFile.open(path, flags, { direct: false, fileSystem });
      try {
        const stats = await file.stat();
        if (!stats.isFile()) throw notRegular(path, kindOf(stats));
        if (scanned && !(await isWhere(scanned, file, stats))) throw movedAway(path);
        return new FileSource(path, file, stats, !(await willTell(file, stats, nowMs())));
      } catch (error) {
        await file.close();
        throw error;
      }
    } catch (error) {
      const isSocket = error instanceof Error && 'code' in error && error.code === 'ENXIO';
      throw isSocket ? notRegular(path, 'a socket or a device') : fileError(error, `open ${path}`, { path });
    }
  }

  async readInto(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    const count = await this.#file.read(offsetBytes, buffer).catch((error: unknown) => {
      throw fileError(error, `read ${this.path}`, { path: this.path });
    });
    if (count === buffer.byteLength) return;
    throw this.#changed(
      `ends at byte ${offsetBytes + count}, and had ${this.sizeBytes} bytes when it was opened`,
    );
  }

  /**
   * Compares size, time of modification and time of change of the file that was opened. A program
   * that puts another file in its place meanwhile does no harm to the bytes read; but it changes
   * the link count, and with it the time of change, so it is reported too.
   */
  async assertUnchanged(): Promise<void> {
    const now = await this.#file.stat().catch((error: unknown) => {
      throw fileError(error, `look at ${this.path}`, { path: this.path });
    });
    if (now.size !== this.#opened.size) {
      throw this.#changed(`has ${now.size} bytes by now, and had ${this.sizeBytes} when it was opened`);
    }
    if (now.mtimeNs !== this.#opened.mtimeNs || now.ctimeNs !== this.#opened.ctimeNs) {
      throw this.#changed('was written to, replaced, or given other attributes since it was opened');
    }
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  #changed(what: string): CheckpointError {
    return new CheckpointError('SourceChanged', `${this.path} ${what}`, { context: { path: this.path } });
  }
}

/**
 * Whether the file's times will tell of every change from now on. A write through a shared mapping
 * moves them only when it is the first to its page since that was written out, and on tmpfs never.
 * So the file is synced, unless that could take long. If something was written in the meantime, a
 * page may be open for writing again.
 */
async function willTell(file: DirectFile, opened: BigIntStats, nowMs: number): Promise<boolean> {
  const times = [opened.mtimeNs, opened.ctimeNs];
  const isQuiet = times.every((timeNs) => nowMs - Number(timeNs / 1_000_000n) >= QUIET_MS);
  if (!isQuiet || opened.size < SYNC_BYTES_MIN) return false;
  const type = await file.fileSystemType();
  if (type === null || !FILE_SYSTEMS_THAT_TELL.has(type)) return false;
  try {
    await file.datasync();
    const { mtimeNs, ctimeNs } = await file.stat();
    return mtimeNs === opened.mtimeNs && ctimeNs === opened.ctimeNs;
  } catch {
    return false; // it is read twice instead
  }
}

/**
 * A directory above may have become a link since the scan, or during it: O_NOFOLLOW does not see
 * that. The open file tells where it lies; where the system does not, it has to be the one that was
 * found.
 */
async function isWhere(scanned: ScannedFile, file: DirectFile, stats: BigIntStats): Promise<boolean> {
  const place = await file.place();
  if (place === null) return stats.dev === scanned.dev && stats.ino === scanned.ino;
  // It may have lost its name since it was opened; proc_pid_fd(5) says what the link is then.
  return place === scanned.realPath || place === `${scanned.realPath} (deleted)`;
}

function movedAway(path: string): CheckpointError {
  const message = `${path} leads to another place than when its directory was read; links are not followed`;
  return new CheckpointError('SourceChanged', message, { context: { path } });
}

function notRegular(path: string, kind: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${path} is ${kind}; only regular files can be saved`, {
    context: { path },
  });
}

function kindOf(stats: BigIntStats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a named pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}
