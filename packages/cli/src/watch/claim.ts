/**
 * A checkpoint is claimed by opening all its files. From then on the trainer may rename or remove
 * them. The claim is not good if they turn out to be of several saves: a file was written to or
 * replaced, or another one was added, while they were read.
 */

import { join } from 'node:path';
import {
  CheckpointError,
  type FoundFile,
  type FoundTree,
  type RandomSource,
  type ScanOptions,
} from '@holdfast/core/contract';
import { FileSource, localFiles } from '@holdfast/local-files';
import { findRemoval } from './removal.ts';
import { type Entry, isSameTree, readTree, type Tree } from './tree.ts';

export interface Claiming {
  isComplete(tree: Tree): Promise<boolean>;
  /** The trainer gives a checkpoint its name when it is complete. */
  readonly isRenamed: boolean;
}

export class Claim {
  readonly #entry: Entry;
  readonly #options: ScanOptions;
  readonly #sources: FileSource[] = [];
  readonly #unread = new Set<string>();
  #before: Tree = new Map();

  private constructor(entry: Entry, options: ScanOptions) {
    this.#entry = entry;
    this.#options = options;
  }

  /**
   * Opens all files. `isComplete` is asked when they are open. `SourceChanged`: it is not complete,
   * changes, or has lost files. `NotFound`: it is gone.
   */
  static async open(
    entry: Entry,
    options: ScanOptions,
    { isComplete, isRenamed }: Claiming,
  ): Promise<{ readonly claim: Claim; readonly tree: FoundTree }> {
    const claim = new Claim(entry, options);
    try {
      const before = await readTree(entry);
      if (before === null) throw gone(entry);
      claim.#before = before;
      const losing = entry.isDirectory ? await findRemoval(entry, { isRenamed }) : null;
      if (losing !== null) throw hasLost(entry, losing);
      const tree = await claim.#openAll();
      await claim.#assertAllOpened(tree);
      if (!(await isComplete(before))) throw claim.#changed('is not complete any more');
      await claim.#assertSame();
      return { claim, tree };
    } catch (error) {
      await claim.close();
      throw error;
    }
  }

  /** Safe to repeat. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#sources.splice(0).map((source) => source.close()));
  }

  async #openAll(): Promise<FoundTree> {
    const { path, name, isDirectory } = this.#entry;
    if (!isDirectory) return { files: [await this.#opened(name, path)], directories: [] };
    const { files, directories } = await localFiles.scan(path, this.#options);
    const opened: FoundFile[] = [];
    for (const file of files) opened.push(await this.#opened(file.name, join(path, file.name)));
    return { files: opened, directories };
  }

  /** A file that is neither opened nor there any more was removed since the first look. */
  async #assertAllOpened({ files }: FoundTree): Promise<void> {
    const opened = new Set(files.map(({ name }) => name));
    const excluded = [...this.#before.keys()].filter((name) => name !== '' && !opened.has(name));
    if (excluded.length === 0) return;
    const now = await readTree(this.#entry);
    if (!excluded.every((name) => now?.has(name))) throw this.#changed('lost files before they were opened');
  }

  async #opened(name: string, path: string): Promise<FoundFile> {
    const source = await FileSource.open(path, undefined, { mayBeRemoved: true });
    this.#sources.push(source);
    this.#unread.add(name);
    return { name, sizeBytes: source.sizeBytes, open: async () => this.#shared(name, source) };
  }

  /** The claim closes the file itself. */
  #shared(name: string, source: FileSource): RandomSource {
    return {
      sizeBytes: source.sizeBytes,
      mode: source.mode,
      mtimeMs: source.mtimeMs,
      mayHideChanges: source.mayHideChanges,
      readInto: (offsetBytes, buffer) => source.readInto(offsetBytes, buffer),
      assertUnchanged: async () => {
        await source.assertUnchanged();
        this.#unread.delete(name);
        if (this.#unread.size === 0) await this.#assertSame();
      },
      close: async () => undefined,
    };
  }

  /** Files that are gone were removed as a whole, or are being removed: that changes nothing. */
  async #assertSame(): Promise<void> {
    const now = await readTree(this.#entry);
    if (now === null) return;
    const left = new Map([...this.#before].filter(([name]) => now.has(name)));
    if (!isSameTree(left, now)) throw this.#changed('was written to or replaced while it was read');
  }

  #changed(what: string): CheckpointError {
    const { path } = this.#entry;
    return new CheckpointError('SourceChanged', `${path} ${what}`, { context: { path } });
  }
}

function hasLost({ path }: Entry, directory: string): CheckpointError {
  const message =
    `the last change in ${directory} was a removal, so the checkpoint may not be whole; ` +
    'a trainer that removes files of its own should write one after that';
  return new CheckpointError('SourceChanged', message, { context: { path } });
}

function gone({ path }: Entry): CheckpointError {
  return new CheckpointError('NotFound', `${path} is gone`, { context: { path } });
}
