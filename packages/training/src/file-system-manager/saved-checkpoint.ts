import { constants } from 'node:fs';
import { sep } from 'node:path';
import { CheckpointError } from '@holdfast/core/contract';
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

  openOutputStream(_key: string): WritableStream<Uint8Array> {
    const message = `checkpoint ${this.version} is committed: it cannot be written any more`;
    throw new CheckpointError('InvalidArgument', message);
  }

  /** The file is opened by the first read. The stream fails with `NotFound` if there is none. */
  openInputStream(key: string): ReadableStream<Uint8Array> {
    checkKey(key);
    return ReadableStream.from(readChunks(`${this.#path}${sep}${key}`, this.#fileSystem));
  }

  async commit(): Promise<void> {} // it is

  async discard(): Promise<void> {} // after commit: does nothing
}

async function* readChunks(path: string, fileSystem: FileSystem): AsyncGenerator<Uint8Array, void, void> {
  let descriptor: number | null = null;
  try {
    descriptor = await fileSystem.open(path, constants.O_RDONLY);
    for (let offsetBytes = 0; ; ) {
      const buffer = new Uint8Array(CHUNK_BYTES);
      const transfer = { buffer, start: 0, lengthBytes: CHUNK_BYTES, offsetBytes };
      const count = await fileSystem.read(descriptor, transfer);
      if (count === 0) return;
      offsetBytes += count;
      yield buffer.subarray(0, count);
    }
  } catch (error) {
    throw fileError(error, `read ${path}`, { path });
  } finally {
    if (descriptor !== null) await fileSystem.close(descriptor);
  }
}
