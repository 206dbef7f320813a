/**
 * Opens the files that a trainer names. The agent has rights that a caller may lack, so it opens
 * only what the caller may hand over: regular files of its own user, below a declared root or in
 * the caller's staging directory, or memory of the caller's process. A path is judged by what was
 * opened, not by its text.
 */

import { constants } from 'node:fs';
import { lstat, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { CheckpointError, compareUtf8, type FoundFile, type RandomSource } from '@holdfast/core/contract';
import {
  DirectFile,
  FileSource,
  type FileSystem,
  fileError,
  isAtOrBelow,
  nodeFileSystem,
} from '@holdfast/local-files';
import type { SourceFile } from '../api/shapes.ts';
import type { WorkInside } from '../staging/held-directory.ts';
import { OpenSegment } from './descriptor-source.ts';
import { type MemoryOfTrainer, openTrainerMemory } from './trainer-memory.ts';

const SEGMENT_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;

export interface SourceRules {
  /** The caller's staging directory, without links. */
  readonly stage: string;
  /** See `Stage.within`, of the caller's staging directory. */
  readonly inStage: <Result>(work: WorkInside<Result>) => Promise<Result>;
  /** Directories of other files, without links. */
  readonly roots: readonly string[];
  /** User ids whose files may be read. */
  readonly owners: readonly number[];
  /** Names the caller's process: its memory bears this name. */
  readonly life: string;
}

/**
 * One file at a time is synced for all saves: a sync lasts as long as its disk needs. Meanwhile it
 * holds a thread, and this process has only a few of them to read files.
 */
let syncs: Promise<unknown> = Promise.resolve();

interface OpenedFile {
  readonly sizeBytes: number;
  /** See `FileSource.state`. */
  readonly state?: string;
  /** The trainer's own, which it might change. */
  readonly own?: FileSource;
  range(): RandomSource;
}

/** The open files of one save, by their names in the checkpoint. */
export class OpenedSources {
  readonly #files = new Map<string, OpenedFile>();
  readonly #toClose: FileSource[] = [];
  /** Segments by path or descriptor: many files may lie in one. */
  readonly #segments = new Map<string, Promise<OpenSegment>>();
  readonly #rules: SourceRules;
  #settling: Promise<void> = Promise.resolve();
  /** It is closed when its sync has ended, for which no save waits. */
  #syncing: FileSource | undefined;
  #sizeBytes = 0;
  #isClosed = false;

  constructor(rules: SourceRules) {
    this.#rules = rules;
  }

  /** The sum of all files that were added, also after `close`. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /**
   * All or none. Resolves to the files, each of the trainer's own with its state, by which another
   * agent sees that it has changed since. Staged files only their trainer writes.
   * `InvalidArgument`, `Denied`, `NotFound`: names the file. `SourceChanged`: it is not in the
   * given state, or it lost its path before all were opened. `Aborted`: closed meanwhile.
   */
  async add(files: readonly SourceFile[]): Promise<SourceFile[]> {
    const opened = new Map<string, OpenedFile>();
    for (const { name, source } of files) {
      if (this.#files.has(name) || opened.has(name)) throw twice(name);
      opened.set(name, await this.#open(name, source));
    }
    await assertStillThere(files, opened);
    if (this.#isClosed) {
      await this.close();
      throw new CheckpointError('Aborted', 'the save has ended');
    }
    for (const [name, file] of opened) {
      this.#files.set(name, file);
      this.#sizeBytes += file.sizeBytes;
    }
    const own = [...opened.values()].flatMap(({ own: file }) => file ?? []);
    this.#settling = this.#settling.then(() => this.#settle(own));
    // The reading of its bytes finds a change too. This concerns the next agent alone.
    this.#settling.catch(() => undefined);
    return files.map(({ name, source }) => {
      const state = opened.get(name)?.state;
      return { name, source: state === undefined ? source : { ...source, state } };
    });
  }

  /**
   * Resolves when the times of all files that were added show every change since then. Rejects if
   * one has changed, or may have.
   */
  settled(): Promise<void> {
    return this.#settling;
  }

  /** In the order of their names. Each may be opened repeatedly. */
  found(): FoundFile[] {
    return [...this.#files]
      .sort(([a], [b]) => compareUtf8(a, b))
      .map(([name, file]) => ({ name, sizeBytes: file.sizeBytes, open: async () => file.range() }));
  }

  /** Safe to repeat. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#files.clear();
    const files = this.#toClose.splice(0);
    const busy = files.filter((file) => file === this.#syncing);
    for (const file of busy) void file.close().catch(() => undefined);
    const idle = files.filter((file) => !busy.includes(file));
    await Promise.allSettled(idle.map((file) => file.close()));
    const segments = [...this.#segments.values()];
    this.#segments.clear();
    await Promise.allSettled(segments.map(async (segment) => (await segment).close()));
  }

  async #open(name: string, source: SourceFile['source']): Promise<OpenedFile> {
    const { offset = 0 } = source;
    if ('pid' in source) {
      const memory = { ...source, life: this.#rules.life };
      const key = `${source.pid} ${source.fd} ${source.segment}`;
      const segment = await this.#segment(key, () => this.#openMemory(memory));
      return part(name, segment, { offset, length: source.length });
    }
    const { path, length, state } = source;
    if (path.startsWith(`${this.#rules.stage}/`)) {
      const segment = await this.#segment(path, () => this.#openStaged(path));
      return part(name, segment, { offset, length });
    }
    if (offset !== 0 || length !== undefined)
      throw notAccepted(name, 'only a staged file can be saved in part: leave out offset and length');
    const file = await this.#openBelowRoots(path);
    this.#toClose.push(file);
    if (state !== undefined && state !== file.state) throw changedSince(path);
    return { sizeBytes: file.sizeBytes, state: file.state, own: file, range: () => unclosed(file) };
  }

  async #settle(files: readonly FileSource[]): Promise<void> {
    for (const file of files) {
      const sync = syncs.then(() => this.#sync(file));
      syncs = sync.catch(() => undefined);
      await sync;
    }
  }

  async #sync(file: FileSource): Promise<void> {
    if (this.#isClosed) throw new CheckpointError('Aborted', 'the save has ended');
    this.#syncing = file;
    try {
      await file.settle();
    } finally {
      this.#syncing = undefined;
    }
  }

  #segment(key: string, open: () => Promise<OpenSegment>): Promise<OpenSegment> {
    const found = this.#segments.get(key);
    if (found !== undefined) return found;
    const opening = open();
    this.#segments.set(key, opening);
    opening.catch(() => this.#segments.delete(key));
    return opening;
  }

  /** By the descriptor of the directory: another user may have given its name to another one. */
  #openStaged(path: string): Promise<OpenSegment> {
    const { stage, inStage } = this.#rules;
    return inStage(async (directory, fileSystem) => {
      const held = `${directory}${path.slice(stage.length)}`;
      if (!(await liesIn([stage], held, fileSystem))) throw denied(path, 'leads elsewhere');
      const file = await openFile(held, SEGMENT_FLAGS, { fileSystem, shown: path });
      return this.#checked(file, path, (place) => place.startsWith(`${stage}/`));
    });
  }

  async #openMemory(memory: MemoryOfTrainer): Promise<OpenSegment> {
    const { file, stats, path } = await openTrainerMemory(memory, (at, uid) => this.#assertOwner(at, uid));
    return new OpenSegment(file, path, stats);
  }

  async #checked(
    file: DirectFile,
    path: string,
    isAllowed: (place: string) => boolean,
  ): Promise<OpenSegment> {
    try {
      const [stats, place] = await Promise.all([file.stat(), file.place()]);
      if (!stats.isFile()) throw notAccepted(path, 'is not a regular file');
      if (place === null || !isAllowed(place)) throw denied(path, 'leads elsewhere');
      this.#assertOwner(path, Number(stats.uid));
      return new OpenSegment(file, path, stats);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  async #openBelowRoots(path: string): Promise<FileSource> {
    if (!path.startsWith('/')) throw notAccepted(path, 'is not an absolute path');
    const { roots } = this.#rules;
    const outside = () =>
      denied(path, `lies outside the directories that this agent reads (${roots.join(', ') || 'none'})`);
    if (!(await liesIn(roots, path))) throw outside();
    const failed = (error: unknown) => {
      throw fileError(error, `open ${path}`, { path });
    };
    const before = await lstat(path).catch(failed);
    if (before.isSymbolicLink()) throw denied(path, 'is a symbolic link');
    const realPath = await realpath(path).catch(failed);
    // A directory above it may have become a link meanwhile.
    if (!roots.some((root) => isAtOrBelow(realPath, root))) throw outside();
    const { dev, ino, uid } = await stat(realPath, { bigint: true }).catch(failed);
    this.#assertOwner(path, Number(uid));
    return FileSource.open(realPath, undefined, {
      scanned: { realPath, dev, ino },
      // Trainers remove old checkpoints while they are still sent.
      mayBeRemoved: true,
    });
  }

  #assertOwner(path: string, uid: number): void {
    if (!this.#rules.owners.includes(uid)) throw denied(path, `belongs to user ${uid}`);
  }
}

/**
 * A directory may be replaced by another one while its files are opened, or a link above them may
 * be changed. Each path must still lead to its file when all are open.
 */
async function assertStillThere(
  files: readonly SourceFile[],
  opened: ReadonlyMap<string, OpenedFile>,
): Promise<void> {
  for (const { name, source } of files) {
    const own = opened.get(name)?.own;
    if (own && 'path' in source && !(await own.isAt(source.path))) throw changedSince(source.path);
  }
}

/**
 * Whether the directory of a path lies in one of `places`, which have no links. If it does not
 * exist, the nearest one above it decides. So the answer for a path elsewhere never depends on what
 * exists there, and neither does what a link leads to.
 */
async function liesIn(
  places: readonly string[],
  path: string,
  fileSystem = nodeFileSystem,
): Promise<boolean> {
  for (let above = dirname(path); ; above = dirname(above)) {
    const real = await fileSystem.realpath(above).catch(() => undefined);
    if (real !== undefined) return places.some((place) => isAtOrBelow(real, place));
    const isLink = (await fileSystem.lstat(above).catch(() => undefined))?.isSymbolicLink();
    if (isLink || above === '/') return false;
  }
}

async function openFile(
  path: string,
  flags: number,
  { fileSystem, shown }: { readonly fileSystem: FileSystem; readonly shown: string },
): Promise<DirectFile> {
  try {
    return await DirectFile.open(path, flags, { direct: false, fileSystem });
  } catch (error) {
    throw fileError(error, `open ${shown}`, { path: shown });
  }
}

function part(
  name: string,
  segment: OpenSegment,
  { offset, length = segment.sizeBytes - offset }: { offset: number; length?: number | undefined },
): OpenedFile {
  if (length < 0 || offset + length > segment.sizeBytes) {
    const end = offset + Math.max(length, 0);
    throw notAccepted(name, `ends at byte ${end} of a segment of ${segment.sizeBytes} bytes`);
  }
  return { sizeBytes: length, range: () => segment.range(offset, length) };
}

/** The save closes the file itself, once. */
function unclosed(file: FileSource): RandomSource {
  return {
    sizeBytes: file.sizeBytes,
    mode: file.mode,
    mtimeMs: file.mtimeMs,
    mayHideChanges: file.mayHideChanges,
    readInto: (offsetBytes, buffer) => file.readInto(offsetBytes, buffer),
    assertUnchanged: () => file.assertUnchanged(),
    close: async () => undefined,
  };
}

function twice(name: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `the save names "${name}" twice`, { context: { name } });
}

function notAccepted(path: string, what: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `${path} ${what}`, { context: { path } });
}

function changedSince(path: string): CheckpointError {
  const message = `${path} was changed or replaced after its trainer had begun to save it`;
  return new CheckpointError('SourceChanged', message, { context: { path } });
}

function denied(path: string, what: string): CheckpointError {
  return new CheckpointError('Denied', `${path} ${what}`, { context: { path } });
}
