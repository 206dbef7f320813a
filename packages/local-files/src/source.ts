import { type BigIntStats, constants } from 'node:fs';
import { CheckpointError, type RandomSource } from '@holdfast/core/contract';
import { DirectFile } from './direct-file.ts';
import { errnoOf, fileError } from './errno.ts';
import { type FileSystem, nodeFileSystem } from './file-system.ts';
import { millisecondsOf } from './mtime.ts';

/** A file as found by a scan of its directory. */
export interface ScannedFile {
  /** Without links. */
  readonly realPath: string;
  readonly dev: bigint;
  /** `null`: its file system gives it no number that stays. */
  readonly ino: bigint | null;
}

export interface FileSourceOptions {
  /** Required location of the file. Default: the one that `path` leads to. */
  readonly scanned?: ScannedFile | undefined;
  readonly nowMs?: (() => number) | undefined;
  /** The file may be removed meanwhile, which changes nothing in it. Default: that is a change. */
  readonly mayBeRemoved?: boolean | undefined;
}

/** Below this size, reading the file twice takes a few milliseconds, no longer than a sync. */
const SYNC_BYTES_MIN = 16 * 1024 * 1024;
/** After this time the system has usually written the file out, so that a sync takes no time. */
const QUIET_MS = 60_000;
const PROC = 0x9fa0n;
/** ext2 to ext4, XFS, btrfs: the first write to a page after its write-out updates the times. */
const FILE_SYSTEMS_THAT_TELL = new Set([0xef53n, 0x58465342n, 0x9123683en]);

/**
 * A file to save. It is read through the page cache: a trainer has just written it, so it is
 * usually cached, and otherwise read-ahead is enough. The cache is left as it is.
 */
export class FileSource implements RandomSource {
  readonly path: string;
  readonly sizeBytes: number;
  readonly mode: number;
  readonly mtimeMs: number;
  readonly mayHideChanges: boolean;
  readonly #file: DirectFile;
  readonly #fileSystem: FileSystem;
  readonly #opened: BigIntStats;
  readonly #mayBeRemoved: boolean;

  private constructor(
    path: string,
    { file, fileSystem }: { file: DirectFile; fileSystem: FileSystem },
    opened: BigIntStats,
    { mayHideChanges, mayBeRemoved }: { mayHideChanges: boolean; mayBeRemoved: boolean },
  ) {
    this.path = path;
    this.#fileSystem = fileSystem;
    this.#mayBeRemoved = mayBeRemoved;
    this.mayHideChanges = mayHideChanges;
    this.#file = file;
    this.#opened = opened;
    this.sizeBytes = Number(opened.size);
    this.mode = Number(opened.mode) & 0o777;
    this.mtimeMs = millisecondsOf(opened);
  }

  /**
   * Throws `NotFound` or `Denied`; `InvalidArgument` if it is not a regular file, or does not tell
   * its size. A symbolic link given by name is followed. A `scanned` file is opened only where the
   * scan found it: `InvalidArgument` if it is now a link, `SourceChanged` if the path leads
   * elsewhere.
   */
  static async open(
    path: string,
    fileSystem: FileSystem = nodeFileSystem,
    { scanned, nowMs = Date.now, mayBeRemoved = false }: FileSourceOptions = {},
  ): Promise<FileSource> {
    try {
      // O_NONBLOCK: opening a pipe would wait for its writer. It has no effect on a regular file.
      const flags = constants.O_RDONLY | constants.O_NONBLOCK | (scanned ? constants.O_NOFOLLOW : 0);
      const file = await DirectFile.open(path, flags, { direct: false, fileSystem });
      try {
        const stats = await file.stat();
        if (!stats.isFile()) throw notRegular(path, kindOf(stats));
        if (scanned && !(await isWhere(scanned, file, stats))) throw movedAway(path);
        if (stats.size === 0n) await assertEmpty(path, file);
        const mayHideChanges = !(await willTell(file, stats, nowMs()));
        return new FileSource(path, { file, fileSystem }, stats, { mayHideChanges, mayBeRemoved });
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
   * Size, modification time and change time in nanoseconds, when it was opened. A file that has the
   * same state later was not changed meanwhile, as far as its times show it.
   */
  get state(): string {
    const { size, mtimeNs, ctimeNs } = this.#opened;
    return `${size} ${mtimeNs} ${ctimeNs}`;
  }

  /**
   * Compares size, modification time and change time of the open file. A program that replaces the
   * file does not affect the bytes read. But it changes the link count, and with it the change
   * time, so the replacement is reported too.
   */
  async assertUnchanged(): Promise<void> {
    const now = await this.#file.stat().catch((error: unknown) => {
      throw fileError(error, `look at ${this.path}`, { path: this.path });
    });
    if (now.size !== this.#opened.size) {
      throw this.#changed(`has ${now.size} bytes now, and had ${this.sizeBytes} when it was opened`);
    }
    const hasLostName = this.#mayBeRemoved && now.nlink < this.#opened.nlink;
    if (now.mtimeNs !== this.#opened.mtimeNs || (now.ctimeNs !== this.#opened.ctimeNs && !hasLostName)) {
      throw this.#changed('was changed or replaced, or its attributes changed, since it was opened');
    }
  }

  /** Whether a path leads to this very file now. False if it leads nowhere. */
  async isAt(path: string): Promise<boolean> {
    const now = await this.#fileSystem.stat(path).catch((error: unknown) => {
      if (['ENOENT', 'ENOTDIR'].includes(errnoOf(error) ?? '')) return null;
      throw fileError(error, `look at ${path}`, { path });
    });
    return now?.dev === this.#opened.dev && now.ino === this.#opened.ino;
  }

  /**
   * Writes the file out, and compares it with its state when it was opened. After that, the times
   * show also a write through a shared mapping, on file systems whose times show such writes at
   * all: such a write updates them only if it is the first to its page since the write-out. Takes
   * as long as the disk needs. Rejects if the file cannot be synced. `SourceChanged`: see
   * `assertUnchanged`.
   */
  async settle(): Promise<void> {
    await this.#file.datasync().catch((error: unknown) => {
      throw fileError(error, `sync ${this.path}`, { path: this.path });
    });
    await this.assertUnchanged();
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  #changed(what: string): CheckpointError {
    return new CheckpointError('SourceChanged', `${this.path} ${what}`, { context: { path: this.path } });
  }
}

/**
 * Tells whether the file's times will show every change from now on. A write through a shared
 * mapping updates them only if it is the first to its page since the write-out, and never on tmpfs.
 * So the file is synced, unless that could take long. If it was written meanwhile, a page may be
 * open for writing again.
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
    return false; // It is read twice instead.
  }
}

/**
 * It must be the file that the scan found. A directory above may have become a link since the scan,
 * or during it. O_NOFOLLOW does not detect that, so the path of the open file is compared if the
 * system reports it.
 */
async function isWhere(scanned: ScannedFile, file: DirectFile, stats: BigIntStats): Promise<boolean> {
  const { dev, ino } = scanned;
  if (stats.dev !== dev || (ino !== null && stats.ino !== ino)) return false;
  const place = await file.place();
  // The file may have lost its name since it was opened; proc_pid_fd(5) describes the link then.
  return place === null || place === scanned.realPath || place === `${scanned.realPath} (deleted)`;
}

/** Files of /proc and of similar file systems say that they are empty, and have bytes. */
async function assertEmpty(path: string, file: DirectFile): Promise<void> {
  const count = await file.read(0, new Uint8Array(1)).catch(async (error: unknown) => {
    if ((await file.fileSystemType()) !== PROC) throw error;
    throw notRegular(path, 'a file of /proc that cannot be read from its beginning');
  });
  if (count === 0) return;
  const isStillZero = (await file.stat()).size === 0n;
  const [code, what] = isStillZero
    ? (['InvalidArgument', 'has bytes and says that it has none, as files of /proc do; save a copy'] as const)
    : (['SourceChanged', 'was written to while it was opened'] as const);
  throw new CheckpointError(code, `${path} ${what}`, { context: { path } });
}

function movedAway(path: string): CheckpointError {
  const message = `${path} no longer leads to the file that it led to when its directory was read`;
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
