import type { TransferOptions } from './options.ts';

/** Reports the progress of one file. It never decreases, and it reaches the total exactly once. */
export class FileProgress {
  readonly #name: string;
  readonly #totalBytes: number | undefined;
  readonly #onBytes: TransferOptions['onBytes'];
  #doneBytes = 0;
  #reportedBytes = 0;

  /** `totalBytes`: left out if it is not known yet. */
  constructor(name: string, totalBytes: number | undefined, options: TransferOptions) {
    this.#name = name;
    this.#totalBytes = totalBytes;
    this.#onBytes = options.onBytes;
  }

  add(bytes: number): void {
    this.#doneBytes += bytes;
    const totalBytes = this.#totalBytes ?? this.#doneBytes + 1;
    // The count may reach the total early, or once more when a file is sent again. But only
    // `finish` reports that the file is complete.
    if (this.#doneBytes <= this.#reportedBytes || this.#doneBytes >= totalBytes) return;
    this.#reportedBytes = this.#doneBytes;
    this.#onBytes?.(this.#name, this.#doneBytes, totalBytes);
  }

  /** The file is sent again from its beginning. */
  restart(): void {
    this.#doneBytes = 0;
  }

  finish(totalBytes: number): void {
    this.#onBytes?.(this.#name, totalBytes, totalBytes);
  }
}
