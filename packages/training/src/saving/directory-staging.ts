/** A staging that copies the files of a save to a fast disk, or to a file system in memory. */

import { constants } from 'node:fs';
import { join } from 'node:path';
import {
  type CallOptions,
  checkOptions,
  having,
  type NamedStagingSource,
  optional,
  type RandomSource,
  type Rules,
  type Stage,
  type Staging,
  systemRandom,
  text,
  throwIfAborted,
  wholeNumber,
} from '@holdfast/core/contract';
import {
  DirectFile,
  errnoOf,
  type FileSystem,
  fileError,
  localPath,
  nodeFileSystem,
} from '@holdfast/local-files';
import { stageOf, stageStillHeld } from './copied-source.ts';
import { copySources, type Room } from './copy-sources.ts';

const NAME_PREFIX = '.holdfast-staging-';
const NAME_DIGITS = 16;

/** Files are copied through memory in pieces. Reading and writing one takes a few milliseconds. */
const PIECE_BYTES = 8 * 1024 * 1024;

export interface DirectoryStagingOptions {
  /**
   * On a fast disk, or `/dev/shm`. It must exist and is not created: a missing directory most
   * likely means that a disk is not mounted.
   */
  directory: string;
  /** Limit for all copies of a save together. Default: limited only by the disk. */
  bytesMax?: number | undefined;
  /** Default: this machine's. */
  fileSystem?: FileSystem | undefined;
}

const OPTIONS: Rules<DirectoryStagingOptions> = {
  directory: text,
  bytesMax: optional(wholeNumber(1)),
  fileSystem: optional(having('open', 'unlink')),
};

/**
 * The copies of a save are in one file, which is unlinked as soon as it is open. So the file
 * disappears with the process, however that ends. `ls` does not show the file, but `df` counts it.
 * Nothing is made durable.
 */
export class DirectoryStaging implements Staging {
  readonly directory: string;
  readonly bytesMax: number;
  readonly #fileSystem: FileSystem;
  #isHeld = false;

  constructor(options: DirectoryStagingOptions) {
    checkOptions(options, OPTIONS);
    this.directory = localPath(options.directory);
    this.bytesMax = options.bytesMax ?? Number.MAX_SAFE_INTEGER;
    this.#fileSystem = options.fileSystem ?? nodeFileSystem;
  }

  async stage(sources: readonly NamedStagingSource[], { signal }: CallOptions = {}): Promise<Stage> {
    if (this.#isHeld) throw stageStillHeld();
    this.#isHeld = true;
    try {
      return await this.#stage(sources, signal);
    } catch (error) {
      this.#isHeld = false;
      throw fileError(error, `copy to ${this.directory}`, { path: this.directory });
    }
  }

  async #stage(sources: readonly NamedStagingSource[], signal: AbortSignal | undefined): Promise<Stage> {
    const file = await this.#openNameless();
    // Nothing has to be durable, so ignore a failed close.
    const close = () => file.close().catch(() => undefined);
    try {
      const room = new FileRoom(file, signal);
      const copied = await copySources(sources, { room, bytesMax: this.bytesMax, signal });
      const read: RandomSource['readInto'] = async (offsetBytes, buffer) => {
        const count = await file.read(offsetBytes, buffer);
        if (count < buffer.byteLength) throw new Error(`the copies end at byte ${offsetBytes + count}`);
      };
      const readTranslated: RandomSource['readInto'] = (offsetBytes, buffer) =>
        read(offsetBytes, buffer).catch((error: unknown) => {
          throw fileError(error, `read a copy in ${this.directory}`, { path: this.directory });
        });
      return stageOf(copied, readTranslated, async () => {
        await close();
        this.#isHeld = false;
      });
    } catch (error) {
      await close();
      throw error;
    }
  }

  async #openNameless(): Promise<DirectFile> {
    await this.#removeNames();
    const path = join(this.directory, `${NAME_PREFIX}${systemRandom.hex(NAME_DIGITS)}`);
    const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL;
    // Through the page cache: the copies are read again soon.
    const file = await DirectFile.open(path, flags, {
      direct: false,
      mode: 0o600,
      fileSystem: this.#fileSystem,
    });
    try {
      await this.#removeName(path);
    } catch (error) {
      await file.close().catch(() => undefined);
      throw error;
    }
    return file;
  }

  /**
   * Removes the names of empty files whose processes were killed before they could unlink them.
   * Removing the name of a live process's file does no harm.
   */
  async #removeNames(): Promise<void> {
    for (const { name } of await this.#fileSystem.readdir(this.directory)) {
      const text = name.toString();
      // Ignore failures: files of other users cannot be removed, but these are empty and take no
      // space.
      if (text.startsWith(NAME_PREFIX))
        await this.#removeName(join(this.directory, text)).catch(() => undefined);
    }
  }

  async #removeName(path: string): Promise<void> {
    await this.#fileSystem.unlink(path).catch((error: unknown) => {
      if (errnoOf(error) !== 'ENOENT') throw error;
    });
  }
}

class FileRoom implements Room {
  readonly #file: DirectFile;
  readonly #check: () => void;
  #usedBytes = 0;
  #piece: Uint8Array | undefined;

  constructor(file: DirectFile, signal: AbortSignal | undefined) {
    this.#file = file;
    this.#check = () => throwIfAborted(signal);
  }

  async append(bytes: Uint8Array): Promise<void> {
    await this.#file.write(this.#usedBytes, bytes, this.#check);
    this.#usedBytes += bytes.byteLength;
  }

  async fill(
    sizeBytes: number,
    read: (offsetBytes: number, buffer: Uint8Array) => Promise<void>,
  ): Promise<void> {
    this.#piece ??= new Uint8Array(PIECE_BYTES);
    for (let done = 0; done < sizeBytes; ) {
      const piece = this.#piece.subarray(0, sizeBytes - done);
      await read(done, piece);
      await this.append(piece);
      done += piece.byteLength;
    }
  }
}
