/** Deletes objects: their files, the files that links stand for, and directories left empty. */

import { basename, dirname } from 'node:path';
import type { DeleteResult } from '@holdfast/core/contract';
import { type Check, errnoOf, type FileSystem, inDirectory, type OpenFiles } from '@holdfast/local-files';
import { storeError } from './errors.ts';
import type { ObjectFiles } from './object-files.ts';

/** Concurrent file-system calls of one `deleteMany`. */
const DELETES_AT_A_TIME = 64;

export interface DeletionParts {
  readonly uri: string;
  readonly fileSystem: FileSystem;
  readonly files: ObjectFiles;
  /** Files kept open for reads; a deleted one is closed. */
  readonly openFiles: OpenFiles;
}

export class ObjectDeletion {
  readonly #parts: DeletionParts;

  constructor(parts: DeletionParts) {
    this.#parts = parts;
  }

  /** As `ObjectStore.deleteMany`. Calls `check` between batches, which throws to stop it. */
  async deleteMany(keys: readonly string[], check: Check): Promise<DeleteResult[]> {
    const hasLinked = await this.#parts.fileSystem.stat(this.#parts.files.linkedDirectory).then(
      () => true,
      () => false,
    );
    const results: DeleteResult[] = [];
    for (let start = 0; start < keys.length; start += DELETES_AT_A_TIME) {
      check();
      const some = keys.slice(start, start + DELETES_AT_A_TIME);
      const byDirectory = Map.groupBy(some, (key) => dirname(this.#parts.files.pathOf(key)));
      const done = await Promise.all(
        [...byDirectory].map(([directory, its]) => this.#deleteIn(directory, its, hasLinked)),
      );
      const byKey = new Map(done.flat().map((result) => [result.key, result]));
      results.push(...some.map((key) => byKey.get(key) ?? { key }));
    }
    await this.#removeEmptyDirectories(keys);
    return results;
  }

  /** Deletes in that very directory: a link in its place would lead to files of other programs. */
  async #deleteIn(directory: string, keys: readonly string[], hasLinked: boolean): Promise<DeleteResult[]> {
    try {
      const { root } = this.#parts.files;
      return await inDirectory(
        this.#parts.fileSystem,
        directory,
        (here) => Promise.all(keys.map((key) => this.#delete(key, `${here}/${basename(key)}`, hasLinked))),
        root,
      );
    } catch (error) {
      const isNowhere = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG'].includes(errnoOf(error) ?? '');
      if (isNowhere) return keys.map((key) => ({ key })); // No object has such a name.
      return keys.map((key) => ({
        key,
        error: storeError(error, 'delete', { store: this.#parts.uri, key }),
      }));
    }
  }

  async #delete(key: string, here: string, hasLinked: boolean): Promise<DeleteResult> {
    const path = this.#parts.files.pathOf(key);
    this.#parts.openFiles.drop(path);
    try {
      const linked = hasLinked ? await this.#parts.files.linkedFile(path) : null;
      await this.#unlink(here);
      if (linked !== null) {
        this.#parts.openFiles.drop(linked);
        await this.#unlink(linked);
      }
      return { key };
    } catch (error) {
      return { key, error: storeError(error, 'delete', { store: this.#parts.uri, key }) };
    }
  }

  async #unlink(path: string): Promise<void> {
    try {
      await this.#parts.fileSystem.unlink(path);
    } catch (error) {
      const errno = errnoOf(error) ?? '';
      if (['ENOENT', 'ENOTDIR', 'EISDIR'].includes(errno)) return; // No object has this name.
      // Outside Linux, unlinking a directory is EPERM.
      if (errno === 'EPERM' && (await this.#parts.fileSystem.lstat(path)).isDirectory()) return;
      throw error;
    }
  }

  /**
   * A process that creates an object there at the same time makes the directory again: see
   * `ObjectWriter`.
   */
  async #removeEmptyDirectories(keys: readonly string[]): Promise<void> {
    const directories = new Set<string>();
    for (const key of keys) {
      for (let end = key.lastIndexOf('/'); end > 0; end = key.lastIndexOf('/', end - 1))
        directories.add(key.slice(0, end));
    }
    const deepestFirst = [...directories].sort((a, b) => b.length - a.length);
    // It is not empty, or gone, or cannot be removed. An empty directory does no harm.
    for (const directory of deepestFirst)
      await this.#parts.fileSystem.rmdir(this.#parts.files.pathOf(directory)).catch(() => undefined);
  }
}
