import { type Blake3, startBlake3 } from '../format/checksum.ts';

/**
 * BLAKE3 of a file whose parts are read several at a time. Parts are hashed in the order in which
 * they are added, each while it is in memory, and only as long as that pays. A part must have its
 * memory assured before the next one is added: otherwise it could wait for memory that a later part
 * holds.
 */
export class OrderedHash {
  readonly #pays: () => boolean;
  /** `undefined`: a part came for which hashing did not pay. */
  #hash: Blake3 | undefined = startBlake3();
  #last: Promise<void> = Promise.resolve();

  /**
   * `pays` is asked before each part is hashed, when that part and all before it have been read.
   * Once it returns false, nothing more is hashed.
   */
  constructor(pays: () => boolean) {
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
      if (!this.#pays()) this.#hash = undefined;
      this.#hash?.update(bytes);
    });
    hashed.catch(() => undefined); // the reader of the bytes reports the error
    this.#last = hashed;
    return hashed;
  }

  /** `undefined`: not all bytes were hashed. */
  async digest(): Promise<Uint8Array | undefined> {
    await this.#last;
    return this.#hash?.digest();
  }
}
