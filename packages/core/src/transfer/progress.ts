import type { TransferOptions } from './api.ts';

/** Tells the caller how far one file is, so that it never goes back and ends at the total, once. */
export class FileProgress {
  readonly #name: string;
  readonly #totalBytes: number | undefined;
  readonly #onBytes: TransferOptions['onBytes'];
  #doneBytes = 0;
  #reportedBytes = 0;

  /** `totalBytes` is left out where it is not known yet. */
  constructor(name: string, totalBytes: number | undefined, options: TransferOptions) {
    this.#name = name;
    this.#totalBytes = totalBytes;
    this.#onBytes = options.onBytes;
  }

  add(bytes: number): void {
    this.#doneBytes += bytes;
    const totalBytes = this.#totalBytes ?? this.#doneBytes + 1;
    // All bytes are there (or there again, when a file is sent once more), but only `finish` says that it is complete.
    if (this.#doneBytes <= this.#reportedBytes || this.#doneBytes >= totalBytes) return;
    this.#reportedBytes = this.#doneBytes;
    this.#onBytes?.(this.#name, this.#doneBytes, totalBytes);
  }

  /** The file is begun anew, in another way. */
  restart(): void {
    this.#doneBytes = 0;
  }

  finish(totalBytes: number): void {
    this.#onBytes?.(this.#name, totalBytes, totalBytes);
  }
}
