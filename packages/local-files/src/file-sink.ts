import type { BigIntStats } from 'node:fs';
import { CheckpointError, type RandomSink, type SinkFile } from '@holdfast/core/contract';
import type { DirectFile } from './direct-file.ts';
import { fileError } from './errno.ts';

/** Writes one file of a target. `close` fails if the file does not have its declared size. */
export class FileSink implements RandomSink {
  readonly #target: SinkFile;
  readonly #file: DirectFile;
  readonly #onClosed: (stats: BigIntStats) => void;

  /** `onClosed`: receives the file's stats when all of it is written and durable. */
  constructor(target: SinkFile, file: DirectFile, onClosed: (stats: BigIntStats) => void = () => undefined) {
    this.#target = target;
    this.#file = file;
    this.#onClosed = onClosed;
  }

  async writeAt(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    const { name, sizeBytes } = this.#target;
    if (offsetBytes < 0 || offsetBytes + buffer.byteLength > sizeBytes) {
      const range = `bytes ${offsetBytes} to ${offsetBytes + buffer.byteLength}`;
      throw new CheckpointError('InvalidArgument', `${range} lie outside "${name}", which has ${sizeBytes}`, {
        context: { name },
      });
    }
    await this.#translated('write', () => this.#file.write(offsetBytes, buffer));
  }

  async close(): Promise<void> {
    const { name, sizeBytes, mode, mtimeMs } = this.#target;
    try {
      if (mtimeMs !== undefined)
        await this.#translated('set the time of', () => this.#file.setModified(mtimeMs));
      const stats = await this.#translated('look at', () => this.#file.stat());
      const written = Number(stats.size);
      if (written !== sizeBytes) {
        const message = `"${name}" should have ${sizeBytes} bytes, but ${written} were written`;
        throw new CheckpointError('InvalidArgument', message, { context: { name } });
      }
      if (mode !== undefined) await this.#translated('set the mode of', () => this.#file.chmod(mode & 0o777));
      await this.#translated('make durable', () => this.#file.datasync());
      this.#onClosed(stats);
    } finally {
      await this.abandon();
    }
  }

  /** Releases the descriptors; never throws. */
  async abandon(): Promise<void> {
    // After fdatasync, close has nothing left to report. An abandoned file is removed.
    await this.#file.close().catch(() => undefined);
  }

  async #translated<T>(action: string, call: () => Promise<T>): Promise<T> {
    const { name } = this.#target;
    try {
      return await call();
    } catch (error) {
      throw fileError(error, `${action} "${name}"`, { name });
    }
  }
}
