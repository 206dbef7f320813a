/** One watched directory, whose checkpoints become versions of one run. */

import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  CheckpointError,
  type ErrorCode,
  type FoundTree,
  isCheckpointError,
  type LocalFiles,
  type RunManager,
  type SaveOptions,
  type SaveResult,
  type ScanOptions,
  toCheckpointError,
} from '@holdfast/core/contract';
import { errnoOf, fileError, localFiles } from '@holdfast/local-files';
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
  /** The entry stays as it is, and is looked at again. Called once for each reason. */
  readonly onNotSaved: (entry: Entry, why: CheckpointError) => void;
}

/** The next look may find another state of the entry, of the store or of the other writers. */
const PASSING: readonly ErrorCode[] = [
  'InvalidArgument',
  'NotFound',
  'SourceChanged',
  'Unavailable',
  'Throttled',
  'TimedOut',
  'StorageFull',
  'Incomplete',
  'OutcomeUnknown',
];

export class Folder {
  readonly directory: string;
  readonly #options: FolderOptions;
  readonly #complete: Completeness;
  readonly #claims = new Map<string, Claim>();
  readonly #entries = new Map<string, Entry>();
  /** Why an entry was not saved, by its path. */
  readonly #told = new Map<string, string>();
  #committed: Set<bigint> | undefined;
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
   * Saves every complete checkpoint above the latest version, lowest first. An error that the next
   * look may not meet is told; others are thrown, such as `Fenced`.
   */
  async look(manager: RunManager): Promise<void> {
    const entries = await this.#entriesNow();
    for (const entry of entries) {
      this.#options.save.signal?.throwIfAborted();
      try {
        await this.#saveIfComplete(manager, entry);
      } catch (error) {
        this.#tellOrThrow(entry, error);
      }
    }
  }

  async #saveIfComplete(manager: RunManager, entry: Entry): Promise<void> {
    const committed = await this.#committedVersions(manager);
    if (committed.has(entry.version)) return;
    const tree = await readTree(entry);
    if (tree === null || !(await this.#complete.isComplete(entry, tree))) return;
    if (entry.version < this.#latest) {
      this.#tellOnce(entry, 'older', olderThan(entry, this.#latest));
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
    const isComplete = (tree: ReadonlyMap<string, string>) => this.#complete.isComplete(entry, tree);
    const { claim, tree } = await Claim.open(entry, options, isComplete);
    await this.#claims.get(path)?.close();
    this.#claims.set(path, claim);
    return tree;
  }

  async #committedVersions(manager: RunManager): Promise<ReadonlySet<bigint>> {
    if (this.#committed !== undefined) return this.#committed;
    const listed = await manager.list({ signal: this.#options.save.signal });
    this.#committed = new Set();
    for (const { version, isLeftBehind } of listed) if (!isLeftBehind) this.#noteCommitted(version);
    return this.#committed;
  }

  #noteCommitted(version: bigint): void {
    this.#committed?.add(version);
    if (version > this.#latest) this.#latest = version;
  }

  #tellOrThrow(entry: Entry, error: unknown): void {
    const why = toCheckpointError(error);
    this.#options.save.signal?.throwIfAborted();
    const isPassing = PASSING.includes(why.code) || isCheckpointError(error, 'Conflict');
    if (!isPassing) throw why;
    this.#tellOnce(entry, why.message, why);
  }

  #tellOnce(entry: Entry, reason: string, why: CheckpointError): void {
    if (this.#told.get(entry.path) === reason) return;
    this.#told.set(entry.path, reason);
    this.#options.onNotSaved(entry, why);
  }

  async #entriesNow(): Promise<Entry[]> {
    const found: Entry[] = [];
    for (const name of await this.#names()) {
      const version = this.#options.pattern.versionIn(name);
      if (version === null) continue;
      const path = join(this.directory, name);
      const stats = await stat(path).catch(() => null);
      if (stats !== null) found.push({ name, path, version, isDirectory: stats.isDirectory() });
    }
    return found.sort((one, other) => (one.version < other.version ? -1 : 1));
  }

  /** The trainer may not have made the directory yet. */
  async #names(): Promise<string[]> {
    try {
      return await readdir(this.directory);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return [];
      throw fileError(error, `read the directory ${this.directory}`, { path: this.directory });
    }
  }
}

function olderThan({ path, version }: Entry, latest: bigint): CheckpointError {
  const message = `${path} is older than version ${latest} of the run; if training went back to an earlier version, roll the run back`;
  return new CheckpointError('InvalidArgument', message, { context: { path, version } });
}
