import type { BodyLimit } from './body-plan.ts';
import { DirectHttpError } from './errors.ts';

const EMPTY = new Uint8Array(0);

/** Collects a body of unknown length in its own memory, which doubles up to the limit. */
export class CollectedBody {
  readonly #bytesMax: number;
  readonly #codeIfLarger: BodyLimit['codeIfLarger'];
  #bytes: Uint8Array = EMPTY;
  #lengthBytes = 0;

  constructor({ bytesMax, codeIfLarger }: BodyLimit) {
    this.#bytesMax = bytesMax;
    this.#codeIfLarger = codeIfLarger;
  }

  get lengthBytes(): number {
    return this.#lengthBytes;
  }

  /** Throws `TOO_LARGE`, or `BAD_BODY` for the text of an error. */
  append(source: Uint8Array, start: number, end: number): void {
    const lengthBytes = this.#lengthBytes + end - start;
    if (lengthBytes > this.#bytesMax) {
      const message = `the body has more than the ${this.#bytesMax} bytes that are collected`;
      throw new DirectHttpError(this.#codeIfLarger, message, { phase: 'body', bytes: this.#lengthBytes });
    }
    if (lengthBytes > this.#bytes.length) {
      const grown = new Uint8Array(Math.min(this.#bytesMax, Math.max(lengthBytes, 2 * this.#bytes.length)));
      grown.set(this.#bytes.subarray(0, this.#lengthBytes));
      this.#bytes = grown;
    }
    this.#bytes.set(source.subarray(start, end), this.#lengthBytes);
    this.#lengthBytes = lengthBytes;
  }

  /** The collected bytes, without another copy. */
  take(): Uint8Array {
    return this.#bytes.subarray(0, this.#lengthBytes);
  }
}
