/**
 * Room that is kept back, in a file of its own: on a full disk nothing can be deleted before the
 * catalog says so, and an entry of the catalog needs room. What is given up for that is kept back
 * again when there is room.
 */

import { constants } from 'node:fs';
import { DirectFile, errnoOf, type FileSystem } from '@holdfast/local-files';
import type { ObjectFiles } from './object-files.ts';
import { isOwnName, RESERVE_FILE } from './own-names.ts';

/** Some decisions of a collection, of a run with a thousand checkpoints. */
export const RESERVE_BYTES = 1024 * 1024;
/** With less room than so many times as much, it is left to what is being saved. */
const ROOM_FACTOR_MIN = 6;
/** What `getRandomValues` gives at once. */
const RANDOM_BYTES_MAX = 65_536;

export interface ReserveParts {
  readonly sizeBytes: number;
  readonly files: ObjectFiles;
  readonly fileSystem: FileSystem;
}

export class Reserve {
  readonly #parts: ReserveParts;
  readonly #path: string;
  #wasGivenUp = false;
  #wasMade = false;

  constructor(parts: ReserveParts) {
    this.#parts = parts;
    this.#path = `${parts.files.root}/${RESERVE_FILE}`;
  }

  /**
   * Of any number of processes one keeps it. Never throws: a store without it works, until it is
   * full.
   */
  async keep(): Promise<void> {
    try {
      const { sizeBytes } = this.#parts;
      if (sizeBytes === 0 || (await this.#isKept())) return;
      const { bavail, bsize } = await this.#parts.fileSystem.statfs(this.#parts.files.root);
      if (bavail * bsize < BigInt(sizeBytes * ROOM_FACTOR_MIN)) return;
      await this.#make();
      this.#wasMade = true;
      this.#wasGivenUp = false;
    } catch {
      // There is no room, or it may not be written.
    }
  }

  /** Keeps it back again after it was given up. */
  async keepAgain(): Promise<void> {
    if (this.#wasGivenUp) await this.keep();
  }

  /** False: there is none. */
  async giveUp(): Promise<boolean> {
    try {
      await this.#parts.fileSystem.unlink(this.#path);
      this.#wasGivenUp = true;
      return true;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return false;
      throw error;
    }
  }

  /**
   * Whoever tries a directory out leaves nothing in it: a store without an object keeps nothing
   * back. Never throws.
   */
  async leave(): Promise<void> {
    if (!this.#wasMade) return;
    const entries = await this.#parts.fileSystem.readdir(this.#parts.files.root).catch(() => null);
    const isEmpty = entries?.every(({ name }) => isOwnName(name.toString('utf8'))) ?? false;
    if (isEmpty) await this.giveUp().catch(() => undefined);
  }

  /** One of a process that was killed while it made it is too short. */
  async #isKept(): Promise<boolean> {
    return this.#parts.fileSystem.lstat(this.#path).then(
      (stats) => stats.size >= this.#parts.sizeBytes,
      () => false,
    );
  }

  /** Two that do it at once write the same file, and do no harm. */
  async #make(): Promise<void> {
    const { fileSystem, sizeBytes } = this.#parts;
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;
    const file = await DirectFile.open(this.#path, flags, { direct: false, fileSystem });
    try {
      // What could be compressed would take no room.
      const piece = new Uint8Array(RANDOM_BYTES_MAX);
      for (let offset = 0; offset < sizeBytes; offset += piece.byteLength)
        await file.write(offset, crypto.getRandomValues(piece.subarray(0, sizeBytes - offset)));
    } catch (error) {
      await fileSystem.unlink(this.#path);
      throw error;
    } finally {
      await file.close();
    }
  }
}
