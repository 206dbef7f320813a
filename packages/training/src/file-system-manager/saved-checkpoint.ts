import { constants } from 'node:fs';
import { sep } from 'node:path';
import { CheckpointError, whenDropped } from '@holdfast/core/contract';
import { closeRead, type FileSystem, fileError } from '@holdfast/local-files';
import type { TrainingCheckpoint } from '../checkpoints.ts';
import { checkKey } from './key.ts';

/** Large enough that the cost of calls does not matter, small enough for a quick read. */
const CHUNK_BYTES = 1024 * 1024;

/** A committed checkpoint. */
export class SavedCheckpoint implements TrainingCheckpoint {
  readonly version: bigint;
  readonly #path: string;
  readonly #fileSystem: FileSystem;

  constructor(version: bigint, path: string, fileSystem: FileSystem) {
    this.version = version;
    this.#path = path;
    this.#fileSystem = fileSystem;
  }

  /** `JSON.stringify` does not accept a bigint. */
  toJSON(): { readonly version: string } {
    return { version: String(this.version) };
  }

  openOutputStream(_key: string): WritableStream<Uint8Array> {
    const message = `checkpoint ${this.version} is committed: it can no longer be written`;
    throw new CheckpointError('InvalidArgument', message);
  }

  /** The first read opens the file. The stream fails with `NotFound` if the file does not exist. */
  openInputStream(key: string): ReadableStream<Uint8Array> {
    checkKey(key);
    const file = new ChunkFile(`${this.#path}${sep}${key}`, this.#fileSystem);
    const stream = new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const chunk = await file.next();
          if (chunk) controller.enqueue(chunk);
          else controller.close();
        },
        cancel: () => file.end(),
      },
      { highWaterMark: 0 },
    );
    file.endWith(stream);
    return stream;
  }

  async commit(): Promise<void> {} // already committed

  async discard(): Promise<void> {} // does nothing after commit
}

/**
 * Reads a file from start to end. Closes it after the last chunk, at the first error, at `end`, or
 * when its stream was garbage-collected.
 */
class ChunkFile {
  readonly #path: string;
  readonly #fileSystem: FileSystem;
  #descriptor: number | null = null;
  #offsetBytes = 0;
  #isOver = false;
  /**
   * The call in progress. Closing the descriptor during it is unsafe: the number may already belong
   * to another file.
   */
  #running: Promise<unknown> = Promise.resolve();
  #forget: () => void = () => undefined;

  constructor(path: string, fileSystem: FileSystem) {
    this.#path = path;
    this.#fileSystem = fileSystem;
  }

  /** `null`: the file has ended. */
  async next(): Promise<Uint8Array | null> {
    try {
      const reading = this.#isOver ? Promise.resolve(null) : this.#read();
      this.#running = reading.catch(() => undefined); // the reader gets this error
      const chunk = await reading;
      if (chunk === null) await this.#close();
      return chunk;
    } catch (error) {
      await this.#close().catch(() => undefined); // throw the first error, not this one
      throw fileError(error, `read ${this.#path}`, { path: this.#path });
    }
  }

  async end(): Promise<void> {
    this.#isOver = true;
    await this.#running;
    await this.#close().catch((error: unknown) => {
      throw fileError(error, `close ${this.#path}`, { path: this.#path });
    });
  }

  endWith(stream: object): void {
    // no caller is left to get an error
    this.#forget = whenDropped(stream, () => void this.end().catch(() => undefined));
  }

  async #read(): Promise<Uint8Array | null> {
    this.#descriptor ??= await this.#fileSystem.open(this.#path, constants.O_RDONLY);
    const buffer = new Uint8Array(CHUNK_BYTES);
    const position = { buffer, start: 0, lengthBytes: CHUNK_BYTES, offsetBytes: this.#offsetBytes };
    const count = await this.#fileSystem.read(this.#descriptor, position);
    this.#offsetBytes += count;
    return count === 0 ? null : buffer.subarray(0, count);
  }

  async #close(): Promise<void> {
    this.#isOver = true;
    this.#forget();
    const descriptor = this.#descriptor;
    this.#descriptor = null;
    if (descriptor !== null) await closeRead(this.#fileSystem, descriptor);
  }
}
