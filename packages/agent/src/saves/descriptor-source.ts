/**
 * An open file that several sources read, each a range of it. It is read by its descriptor: a file
 * that was removed or renamed since is still the one that was opened.
 */

import type { BigIntStats } from 'node:fs';
import { CheckpointError, type RandomSource } from '@holdfast/core/contract';
import { type DirectFile, fileError } from '@holdfast/local-files';

export class OpenSegment {
  readonly #file: DirectFile;
  readonly #name: string;
  readonly #opened: BigIntStats;

  constructor(file: DirectFile, name: string, opened: BigIntStats) {
    this.#file = file;
    this.#name = name;
    this.#opened = opened;
  }

  get sizeBytes(): number {
    return Number(this.#opened.size);
  }

  /** Closing the range leaves the file open. */
  range(offsetBytes: number, sizeBytes: number): RandomSource {
    const readInto = async (atBytes: number, buffer: Uint8Array): Promise<void> => {
      const count = await this.#file.read(offsetBytes + atBytes, buffer).catch((error: unknown) => {
        throw fileError(error, `read ${this.#name}`, { path: this.#name });
      });
      if (count !== buffer.byteLength) throw this.#changed('has become shorter');
    };
    // A trainer does not write to a segment before the agent has given it back.
    return {
      sizeBytes,
      mayHideChanges: false,
      readInto,
      assertUnchanged: () => this.#assertUnchanged(),
      close: async () => undefined,
    };
  }

  close(): Promise<void> {
    return this.#file.close();
  }

  async #assertUnchanged(): Promise<void> {
    const { size, mtimeNs } = await this.#file.stat();
    if (size !== this.#opened.size) throw this.#changed(`has ${size} bytes now, and had ${this.sizeBytes}`);
    if (mtimeNs !== this.#opened.mtimeNs) throw this.#changed('was written to since the save began');
  }

  #changed(what: string): CheckpointError {
    const context = { path: this.#name };
    return new CheckpointError('SourceChanged', `${this.#name} ${what}`, { context });
  }
}
