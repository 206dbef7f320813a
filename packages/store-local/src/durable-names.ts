/**
 * Makes durable what the store's answers depend on, even if another process made it. A process that
 * finds an object may commit a checkpoint that refers to it at once. But the process that made the
 * object may have died between the name and the fsync. So the process that finds it syncs it too.
 */

import { dirname } from 'node:path';
import type { DirectorySync } from '@holdfast/local-files';
import { notDurable } from './errors.ts';
import type { FoundObject, ObjectFiles } from './object-files.ts';

/**
 * Names older than this are already durable: file systems write them out after 5 to 60 seconds. The
 * margin covers power-saving settings and small clock differences.
 */
const YOUNG_MS = 10 * 60_000;

export interface DurableNamesParts {
  readonly uri: string;
  readonly files: ObjectFiles;
  readonly sync: DirectorySync;
  readonly nowMs: () => number;
}

/** All errors are `Unavailable`: the object may exist, and may be lost with the power. */
export class DurableNames {
  readonly #parts: DurableNamesParts;

  constructor(parts: DurableNamesParts) {
    this.#parts = parts;
  }

  /** Called before anything is written under the key. */
  assertTrusted(key: string): void {
    this.#explained(key, 'permanent', () => this.#parts.sync.assertTrusted(this.#directoryOf(key)));
  }

  /** Syncs a directory and what an object that has no name yet will depend on. */
  async prepared(key: string, directory: string): Promise<void> {
    await this.#translated(key, 'permanent', this.#parts.sync.sync(directory));
  }

  /**
   * Syncs an object to which this process has just given its name. Its bytes are durable already.
   */
  async made(key: string): Promise<void> {
    await this.#translated(key, 'exhausted', this.#parts.sync.sync(this.#directoryOf(key)));
  }

  /** Syncs the name and bytes of an object that was found, before it is shown to the caller. */
  async found(key: string, object: FoundObject): Promise<void> {
    this.#assertTrusted(key, object);
    if (object.namedAtMs > this.#parts.nowMs() - YOUNG_MS) await this.met(key, object);
  }

  /** Like `found`, but for any age: for an object that blocks the creation of another. */
  async met(key: string, { path }: Pick<FoundObject, 'path'>): Promise<void> {
    const { sync } = this.#parts;
    const syncing = [sync.syncFile(path), sync.sync(this.#directoryOf(key))];
    await this.#translated(key, 'exhausted', Promise.all(syncing));
  }

  /**
   * Syncs the names of the objects of a page. Their bytes were durable before they got their names,
   * and `found` checks that again. `nowMs`: when the page was requested.
   */
  async listed(
    objects: readonly { readonly key: string; readonly found: FoundObject }[],
    nowMs: number,
  ): Promise<void> {
    const young = new Map<string, string>();
    for (const { key, found } of objects) {
      this.#assertTrusted(key, found);
      if (found.namedAtMs > nowMs - YOUNG_MS) young.set(this.#directoryOf(key), key);
    }
    for (const [directory, key] of young)
      await this.#translated(key, 'exhausted', this.#parts.sync.sync(directory));
  }

  #assertTrusted(key: string, { path }: FoundObject): void {
    this.#explained(key, 'exhausted', () => {
      this.#parts.sync.assertTrusted(this.#directoryOf(key));
      this.#parts.sync.assertTrusted(path);
    });
  }

  #directoryOf(key: string): string {
    return dirname(this.#parts.files.pathOf(key));
  }

  #explained(key: string, status: Parameters<typeof notDurable>[2], look: () => void): void {
    try {
      look();
    } catch (error) {
      throw notDurable(error, { store: this.#parts.uri, key }, status);
    }
  }

  async #translated(
    key: string,
    status: Parameters<typeof notDurable>[2],
    syncing: Promise<unknown>,
  ): Promise<void> {
    await syncing.catch((error: unknown) => {
      throw notDurable(error, { store: this.#parts.uri, key }, status);
    });
  }
}
