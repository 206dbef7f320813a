import { constants } from 'node:fs';
import { sep } from 'node:path';
import { CheckpointError, whenDropped } from '@holdfast/core/contract';
import { type FileSystem, fileError } from '@holdfast/local-files';
import type { TrainingCheckpoint } from '../checkpoints.ts';
import { checkKey } from './key.ts';

/** Large enough that the calls do not count, small enough to wait for. */
const CHUNK_BYTES = 1024 * 1024;

/** One that is committed. */
export class SavedCheckpoint implements TrainingCheckpoint {
  readonly version: bigint;
  readonly #path: string;
  readonly #fileSystem: FileSystem;

  constructor(version: bigint, path: string, fileSystem: FileSystem) {
    this.version = version;
    this.#path = path;
    this.#fileSystem = fileSystem;
  }

  /** `JSON.stringify` takes no bigint. */
  toJSON(): { readonly version: string } {
    return { version: String(this.version) };
  }

  openOutputStream(_key: string): WritableStream<Uint8Array> {
    const message = `checkpoint ${this.version} is committed: it cannot be written any more`;
    throw new CheckpointError('InvalidArgument', message);
  }

  /** The file is opened by the first read. The stream fails with `NotFound` if there is none. */
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

  async commit(): Promise<void> {} // it is

  async discard(): Promise<void> {} // after commit: does nothing
}

/** A file from its beginning to its end. It is closed after the last chunk, at the first error, at `end`, or when its stream was dropped. */
class ChunkFile {
  readonly #path: string;
  readonly #fileSystem: FileSystem;
  #descriptor: number | null = null;
  #offsetBytes = 0;
  #isOver = false;
  /** The call under way: a descriptor that is closed under it may be another file's already. */
  #running: Promise<unknown> = Promise.resolve();
  #forget: () => void = () => undefined;

  constructor(path: string, fileSystem: FileSystem) {
    this.#path = path;
    this.#fileSystem = fileSystem;
  }

  /** `null`: there are no more. */
  async next(): Promise<Uint8Array | null> {
    try {
      const reading = this.#isOver ? Promise.resolve(null) : this.#read();
      this.#running = reading.catch(() => undefined); // the reader hears of it
      const chunk = await reading;
      if (chunk === null) await this.#close();
      return chunk;
    } catch (error) {
      await this.#close().catch(() => undefined); // the first error is the one to tell
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
    this.#forget = whenDropped(stream, () => void this.end().catch(() => undefined)); // no one is left to hear of it
  }

  async #read(): Promise<Uint8Array | null> {
    this.#descriptor ??= await this.#fileSystem.open(this.#path, constants.O_RDONLY);
    const buffer = new Uint8Array(CHUNK_BYTES);
    const transfer = { buffer, start: 0, lengthBytes: CHUNK_BYTES, offsetBytes: this.#offsetBytes };
    const count = await this.#fileSystem.read(this.#descriptor, transfer);
    this.#offsetBytes += count;
    return count === 0 ? null : buffer.subarray(0, count);
  }

  async #close(): Promise<void> {
    this.#isOver = true;
    this.#forget();
    const descriptor = this.#descriptor;
    this.#descriptor = null;
    if (descriptor !== null) await this.#fileSystem.close(descriptor);
  }
}
