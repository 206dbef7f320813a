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
import type { Pattern } from './pattern.ts';
import type { Rule } from './rule.ts';
import { type Entry, readTree } from './tree.ts';

export interface FolderOptions {
  readonly pattern: Pattern;
  readonly rule: Rule;
  /** A monotonic clock. */
  readonly nowMs: () => number;
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
  /** It never will be: the run has gone past it. */
  readonly isPassedOver: boolean;
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
  #committed: Set<bigint> | undefined;
  /** Places of entries whose versions the run has, as they were when that was seen. */
  readonly #seen = new Map<string, string>();
  #latest = -1n;
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
    for (const entry of await this.#entriesNow()) {
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
    if (await this.#isCommitted(manager, entry)) return;
    const tree = await readTree(entry);
    if (tree === null || !(await this.#complete.isComplete(entry, tree))) return;
    if (entry.version < this.#latest) {
      this.#tell(entry, olderThan(entry, this.#latest), { isPassedOver: true });
      return;
    }
    this.#entries.set(entry.path, entry);
    try {
      const result = await manager.save({ ...this.#options.save, dir: entry.path, version: entry.version });
      this.#noteCommitted(entry.version);
      this.saved.push(entry.version);
      this.#options.onSaved(entry, result);
    } catch (error) {
      // It may have been committed all the same, or by another process.
      this.#committed = undefined;
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

  /** A trainer writes a version again after a rollback: then the run is asked anew. */
  async #isCommitted(manager: RunManager, { path, place, version }: Entry): Promise<boolean> {
    const before = this.#seen.get(path);
    if (before !== undefined && before !== place) this.#committed = undefined;
    this.#seen.set(path, place);
    return (await this.#committedVersions(manager)).has(version);
  }

  async #committedVersions(manager: RunManager): Promise<ReadonlySet<bigint>> {
    if (this.#committed !== undefined) return this.#committed;
    const listed = await manager.list({ signal: this.#options.save.signal });
    this.#committed = new Set();
    this.#latest = -1n;
    for (const { version, isLeftBehind } of listed) if (!isLeftBehind) this.#noteCommitted(version);
    return this.#committed;
  }

  #noteCommitted(version: bigint): void {
    this.#committed?.add(version);
    if (version > this.#latest) this.#latest = version;
  }

  #tell(
    { path, version }: { readonly path: string; readonly version: bigint | null },
    why: CheckpointError,
    { isPassedOver = false } = {},
  ): void {
    const notSaved = { path, version, why, isPassedOver };
    this.#notSaved.set(path, notSaved);
    // Messages about the store name an object, and those of an older version the latest one. Both
    // change from look to look.
    const isOfStore = why.context.key !== undefined;
    const reason = isPassedOver ? 'passed over' : isOfStore ? why.code : why.message;
    if (this.#told.get(path) === reason || this.#options.save.signal?.aborted) return;
    this.#told.set(path, reason);
    this.#options.onNotSaved(notSaved);
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
        const place = `${stats.ino} ${stats.mtimeMs}`;
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
