/**
 * Reserves space in a file of its own, and some files (inodes) beside it. On a full disk a deletion
 * needs entries in the catalog first, and each entry needs space and a file. The reserve is freed
 * for that, and made again when there is space.
 */

import { constants } from 'node:fs';
import { DirectFile, errnoOf, type FileSystem } from '@holdfast/local-files';
import type { ObjectFiles } from './object-files.ts';
import { isOwnName, RESERVE_FILE, RESERVED_FILES_DIRECTORY } from './own-names.ts';

/** Enough for some decisions of a collection, in a run with a thousand checkpoints. */
export const RESERVE_BYTES = 1024 * 1024;
/** Make no reserve if the free space is less than this multiple of it. Saves need the space. */
const ROOM_FACTOR_MIN = 6;
/** Enough for the decisions that retire and remove a checkpoint, repeated once. */
const RESERVED_FILES = 8;
/** Limit of one `getRandomValues` call. */
const RANDOM_BYTES_MAX = 65_536;

export interface ReserveParts {
  readonly sizeBytes: number;
  readonly files: ObjectFiles;
  readonly fileSystem: FileSystem;
}

export class Reserve {
  readonly #parts: ReserveParts;
  readonly #path: string;
  readonly #filesDirectory: string;
  #wasGivenUp = false;
  #isThere = false;

  constructor(parts: ReserveParts) {
    this.#parts = parts;
    this.#path = `${parts.files.root}/${RESERVE_FILE}`;
    this.#filesDirectory = `${parts.files.root}/${RESERVED_FILES_DIRECTORY}`;
  }

  /**
   * Makes the reserve if it is missing. Any number of processes share one. Never throws: without it
   * the store works until the disk is full.
   */
  async keep(): Promise<void> {
    try {
      const { sizeBytes } = this.#parts;
      if (sizeBytes === 0) return;
      if (await this.#isKept()) {
        this.#isThere = true;
        return;
      }
      const { bavail, bsize } = await this.#parts.fileSystem.statfs(this.#parts.files.root);
      if (bavail * bsize < BigInt(sizeBytes * ROOM_FACTOR_MIN)) return;
      await this.#makeFiles();
      await this.#make();
      this.#isThere = true;
      this.#wasGivenUp = false;
    } catch {
      // There is no space, or the directory is not writable.
    }
  }

  /** Makes the reserve again after it was given up. */
  async keepAgain(): Promise<void> {
    if (this.#wasGivenUp) await this.keep();
  }

  /** Frees the reserve. False: there is none. */
  async giveUp(): Promise<boolean> {
    try {
      await this.#parts.fileSystem.unlink(this.#path);
      this.#wasGivenUp = true;
      await this.#parts.fileSystem.removeAll(this.#filesDirectory);
      return true;
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return false;
      throw error;
    }
  }

  /**
   * Removes the reserve from a store without objects, so that trying out a directory leaves nothing
   * in it. Never throws.
   */
  async leave(): Promise<void> {
    if (!this.#isThere) return;
    const entries = await this.#parts.fileSystem.readdir(this.#parts.files.root).catch(() => null);
    const isEmpty = entries?.every(({ name }) => isOwnName(name.toString('utf8'))) ?? false;
    if (isEmpty) await this.giveUp().catch(() => undefined);
  }

  /** False for a file that is too short: its process was killed while making it. */
  async #isKept(): Promise<boolean> {
    return this.#parts.fileSystem.lstat(this.#path).then(
      (stats) => stats.size >= this.#parts.sizeBytes,
      () => false,
    );
  }

  /** Before the reserve itself, which stands for both. */
  async #makeFiles(): Promise<void> {
    const { fileSystem } = this.#parts;
    await fileSystem.mkdir(this.#filesDirectory).catch((error: unknown) => {
      if (errnoOf(error) !== 'EEXIST') throw error;
    });
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;
    for (let index = 0; index < RESERVED_FILES; index += 1)
      await fileSystem.close(await fileSystem.open(`${this.#filesDirectory}/${index}`, flags, 0o600));
  }

  /** Two concurrent calls write the same file, without harm. */
  async #make(): Promise<void> {
    const { fileSystem, sizeBytes } = this.#parts;
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW;
    const file = await DirectFile.open(this.#path, flags, { direct: false, fileSystem });
    try {
      // Random bytes: compressible data might take no space.
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
