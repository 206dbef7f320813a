import { startBlake3 } from '../format/checksum.ts';

/**
 * BLAKE3 of a file whose parts are read several at a time. Parts are hashed in the order in which
 * they are added, each while it is in memory. A part must have its memory assured before the next
 * one is added: otherwise it could wait for memory that a later part holds.
 */
export class OrderedHash {
  readonly #hash = startBlake3();
  #last: Promise<void> = Promise.resolve();

  /**
   * Settles when the bytes are hashed and no longer needed here. Rejects if they, or bytes before
   * them, could not be read.
   */
  add(reading: Promise<{ readonly bytes: Uint8Array }>): Promise<void> {
    const before = this.#last;
    const hashed = reading.then(async ({ bytes }) => {
      await before;
      this.#hash.update(bytes);
    });
    hashed.catch(() => undefined); // the reader of the bytes reports the error
    this.#last = hashed;
    return hashed;
  }

  async digest(): Promise<Uint8Array> {
    await this.#last;
    return this.#hash.digest();
  }
}
