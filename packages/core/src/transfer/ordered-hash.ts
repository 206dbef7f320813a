import type { HashOfParts, Workers } from './workers.ts';

/**
 * BLAKE3 of a file whose parts are read several at a time. Parts are hashed in the order in which
 * they are added, each while it is in memory. Hashing stops when no known file can be equal any
 * more. Add a part only when the part before it has its memory. Otherwise that part could wait for
 * memory that this one holds.
 */
export class OrderedHash {
  readonly #workers: Workers;
  readonly #pays: () => boolean;
  #hash: HashOfParts | undefined;
  /** A part came for which hashing did not pay, or no digest is wanted any more. */
  #isOver = false;
  #last: Promise<void> = Promise.resolve();

  /**
   * `pays` is asked before each part is hashed, when that part and all before it have been read.
   * Once it returns false, nothing more is hashed.
   */
  constructor(workers: Workers, pays: () => boolean) {
    this.#workers = workers;
    this.#pays = pays;
  }

  /**
   * Settles when the bytes are hashed and no longer needed here. Rejects if they, or bytes before
   * them, could not be read.
   */
  add(reading: Promise<{ readonly bytes: Uint8Array }>): Promise<void> {
    const before = this.#last;
    const hashed = reading.then(async ({ bytes }) => {
      await before;
      if (!this.#pays()) this.end();
      if (this.#isOver) return;
      this.#hash ??= this.#workers.startHash();
      await this.#hash.update(bytes);
    });
    hashed.catch(() => undefined); // the reader of the bytes reports the error
    this.#last = hashed;
    return hashed;
  }

  /** `undefined`: not all bytes were hashed. At least one part was added. */
  async digest(): Promise<Uint8Array | undefined> {
    await this.#last;
    const hash = this.#hash;
    this.#hash = undefined;
    return hash?.digest();
  }

  /** Nothing more is hashed. Safe to repeat. */
  end(): void {
    this.#isOver = true;
    this.#hash?.drop();
    this.#hash = undefined;
  }
}
