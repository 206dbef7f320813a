import { startBlake3 } from '../format/checksum.ts';

/**
 * BLAKE3 of a file whose parts are read several at a time. They are hashed in the order in which they are added, each while it is in
 * memory. A part must have been promised its memory before the next one is added: then it never waits for a later one.
 */
export class OrderedHash {
  readonly #hash = startBlake3();
  #last: Promise<void> = Promise.resolve();

  /** Settles when the bytes are hashed, and so are no longer needed here; rejects if they, or those before them, could not be read. */
  add(reading: Promise<{ readonly bytes: Uint8Array }>): Promise<void> {
    const before = this.#last;
    const hashed = reading.then(async ({ bytes }) => {
      await before;
      this.#hash.update(bytes);
    });
    hashed.catch(() => undefined); // whoever reads them says so
    this.#last = hashed;
    return hashed;
  }

  async digest(): Promise<Uint8Array> {
    await this.#last;
    return this.#hash.digest();
  }
}
