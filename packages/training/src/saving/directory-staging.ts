/** Copies on a fast disk, or in a file system in memory. */

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

/** Of files, through memory. One read and one write of it take a few milliseconds. */
const PIECE_BYTES = 8 * 1024 * 1024;

export interface DirectoryStagingOptions {
  /** Of a fast disk, or `/dev/shm`. It has to be there: one that is not is more likely a disk that is not mounted than one that is to be made. */
  directory: string;
  /** Of all copies of a save together. Default: what there is room for. */
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
 * The copies of a save lie in one file, which loses its name as soon as it is open: whatever becomes of the process, the file goes with it.
 * So `ls` does not show it, and `df` does. Nothing is made durable.
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
    // Nothing was to be durable, so a close that fails has nothing to report.
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

  /** Of files, empty ones, whose processes were killed before they could. To take it from one that lives does no harm either. */
  async #removeNames(): Promise<void> {
    for (const { name } of await this.#fileSystem.readdir(this.directory)) {
      const text = name.toString();
      // Other people's files stay where they are: they take no room.
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
