/** One watched directory, whose checkpoints become versions of one run. */

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CheckpointError,
  type FoundTree,
  isCheckpointError,
  type LocalFiles,
  type RunManager,
  type SaveOptions,
  type SaveResult,
  type ScanOptions,
  toCheckpointError,
} from '@holdfast/core/contract';
import { fileError, localFiles } from '@holdfast/local-files';
import { Claim } from './claim.ts';
import { Completeness } from './complete.ts';
import { leftBehindProblem } from './left-behind.ts';
import type { Pattern } from './pattern.ts';
import type { Rule } from './rule.ts';
import { type RunView, readRunView } from './run-view.ts';
import { changedNs, type Entry, readTree, type Tree } from './tree.ts';

export interface FolderOptions {
  readonly pattern: Pattern;
  readonly rule: Rule;
  /** A monotonic clock. */
  readonly nowMs: () => number;
  /** The clock of this machine. */
  readonly wallMs: () => number;
  /** Options of each save. */
  readonly save: SaveOptions;
  readonly onSaved: (entry: Entry, result: SaveResult) => void;
  /** It is looked at again. Called once for each reason. */
  readonly onNotSaved: (what: NotSaved) => void;
}

export interface NotSaved {
  /** The entry, or the directory if that cannot be read. */
  readonly path: string;
  /** `null`: the directory cannot be read. */
  readonly version: bigint | null;
  readonly why: CheckpointError;
  /** It never will be: the run has gone past it, or a rollback has left it behind. */
  readonly isPassedOver: boolean;
}

interface Decided {
  readonly place: string;
  /** It is passed over. Absent: the run has it. */
  readonly notSaved?: NotSaved;
}

export class Folder {
  readonly directory: string;
  readonly #options: FolderOptions;
  readonly #complete: Completeness;
  readonly #claims = new Map<string, Claim>();
  readonly #entries = new Map<string, Entry>();
  /** Why an entry was not saved, by its path. */
  readonly #told = new Map<string, string>();
  #notSaved = new Map<string, NotSaved>();
  /** By path: what was decided on an entry, and in which state of its files. */
  readonly #decided = new Map<string, Decided>();
  /** Read anew in each look that finds something to decide: a rollback may have come since. */
  #view: RunView | undefined;
  #hasJoined = false;
  readonly saved: bigint[] = [];

  constructor(directory: string, options: FolderOptions) {
    this.directory = directory;
    this.#options = options;
    this.#complete = new Completeness(options.rule, options.pattern, options.nowMs);
  }

  /** For the manager of the run: a scan of an entry claims it. */
  get files(): LocalFiles {
    return { ...localFiles, scan: (path, options) => this.#claim(path, options ?? {}) };
  }

  /**
   * Saves every complete checkpoint above the latest version, lowest first. Throws only `Fenced`,
   * and what a signal ends. Other errors are told, because the next look may not meet them.
   */
  async look(manager: RunManager): Promise<void> {
    this.#notSaved = new Map();
    this.#view = undefined;
    const entries = await this.#entriesNow();
    const paths = new Set(entries.map(({ path }) => path));
    for (const path of this.#decided.keys()) if (!paths.has(path)) this.#decided.delete(path);
    for (const entry of entries) {
      this.#options.save.signal?.throwIfAborted();
      try {
        await this.#saveIfComplete(manager, entry);
      } catch (error) {
        this.#tell(entry, toCheckpointError(error));
        if (isCheckpointError(error, 'Fenced') || this.#options.save.signal?.aborted) throw error;
      }
    }
  }

  /** What the last look found complete, and did not save, whatever the reason. */
  get notSaved(): readonly NotSaved[] {
    return [...this.#notSaved.values()];
  }

  async #saveIfComplete(manager: RunManager, entry: Entry): Promise<void> {
    const decided = this.#decided.get(entry.path);
    if (decided?.place === entry.place) {
      if (decided.notSaved) this.#notSaved.set(entry.path, decided.notSaved);
      return;
    }
    const tree = await readTree(entry);
    if (tree === null || !(await this.#complete.isComplete(entry, tree))) return;
    if (!(await this.#isWanted(manager, entry, tree))) return;
    await this.#save(manager, entry);
  }

  /** Whether the run lacks a complete checkpoint and may take it. */
  async #isWanted(manager: RunManager, entry: Entry, tree: Tree): Promise<boolean> {
    const { save, wallMs } = this.#options;
    const { path, place, version } = entry;
    for (;;) {
      this.#view ??= await readRunView(manager, wallMs, save.signal);
      const { committed, latest } = this.#view;
      if (committed.has(version)) {
        this.#decided.set(path, { place });
        return false;
      }
      const problem =
        version < latest
          ? olderThan(entry, latest)
          : await leftBehindProblem(manager, this.#view, { entry, tree, options: save });
      if (problem !== null) {
        this.#decided.set(path, { place, notSaved: this.#tell(entry, problem, { isPassedOver: true }) });
        return false;
      }
      if (this.#hasJoined || latest < 0n) return true;
      // From here on a rollback fences this process. One that came before it is seen now.
      await manager.join({ writer: save.writer, signal: save.signal });
      this.#hasJoined = true;
      this.#view = undefined;
    }
  }

  async #save(manager: RunManager, entry: Entry): Promise<void> {
    this.#entries.set(entry.path, entry);
    try {
      const result = await manager.save({ ...this.#options.save, dir: entry.path, version: entry.version });
      this.#decided.set(entry.path, { place: entry.place });
      this.saved.push(entry.version);
      this.#options.onSaved(entry, result);
    } catch (error) {
      // It may have been committed all the same, or by another process.
      this.#view = undefined;
      throw error;
    } finally {
      this.#entries.delete(entry.path);
      await this.#claims.get(entry.path)?.close();
      this.#claims.delete(entry.path);
      this.#complete.forget(entry);
    }
  }

  async #claim(path: string, options: ScanOptions): Promise<FoundTree> {
    const entry = this.#entries.get(path);
    if (entry === undefined) return localFiles.scan(path, options);
    const { claim, tree } = await Claim.open(entry, options, {
      isComplete: (found) => this.#complete.isComplete(entry, found),
      isRenamed: this.#options.rule.kind === 'rename',
    });
    await this.#claims.get(path)?.close();
    this.#claims.set(path, claim);
    return tree;
  }

  #tell(
    { path, version }: { readonly path: string; readonly version: bigint | null },
    why: CheckpointError,
    { isPassedOver = false } = {},
  ): NotSaved {
    const notSaved = { path, version, why, isPassedOver };
    this.#notSaved.set(path, notSaved);
    // Messages about the store name an object, which changes from look to look.
    const reason = why.context.key === undefined ? why.message : why.code;
    if (this.#told.get(path) === reason || this.#options.save.signal?.aborted) return notSaved;
    this.#told.set(path, reason);
    this.#options.onNotSaved(notSaved);
    return notSaved;
  }

  /** Ordered by version. Only one entry of each version. */
  async #entriesNow(): Promise<Entry[]> {
    const found = new Map<bigint, Entry>();
    for (const name of await this.#names()) {
      const version = this.#options.pattern.versionIn(name);
      if (version === null) continue;
      const path = join(this.directory, name);
      const stats = await stat(path).catch(() => null);
      if (stats === null) continue;
      const other = found.get(version);
      if (other === undefined) {
        const place = `${stats.ino} ${stats.mtimeMs} ${await changedNs({ path, isDirectory: stats.isDirectory() })}`;
        found.set(version, { name, path, version, place, isDirectory: stats.isDirectory() });
      } else this.#tell({ path, version }, twiceThere(path, other));
    }
    return [...found.values()].sort((one, other) => (one.version < other.version ? -1 : 1));
  }

  /** The shortest first: of `step-7` and `step-07`, the trainer writes the former. */
  async #names(): Promise<string[]> {
    const path = this.directory;
    try {
      const names = await readdir(path);
      this.#told.delete(path);
      return names.sort((one, other) => one.length - other.length);
    } catch (error) {
      this.#tell({ path, version: null }, fileError(error, `read the directory ${path}`, { path }));
      return [];
    }
  }
}

function twiceThere(path: string, { path: other, version }: Entry): CheckpointError {
  const message = `${path} is version ${version} as well as ${other}`;
  return new CheckpointError('InvalidArgument', message, { context: { path, version } });
}

function olderThan({ path, version }: Entry, latest: bigint): CheckpointError {
  const message = `${path} is older than version ${latest} of the run; if training went back to an earlier version, roll the run back`;
  return new CheckpointError('InvalidArgument', message, { context: { path, version } });
}
