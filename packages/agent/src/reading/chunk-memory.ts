/** Memory of chunks, used again: new memory for each would be cleared and collected each time. */

/** Memory that is kept although nothing uses it. */
const FREE_BYTES_MAX = 64 * 1024 * 1024;

export class ChunkMemory {
  readonly #free: Uint8Array[] = [];
  #freeBytes = 0;

  take(sizeBytes: number): Uint8Array {
    const index = this.#free.findIndex(({ byteLength }) => byteLength >= sizeBytes);
    const [found] = index === -1 ? [] : this.#free.splice(index, 1);
    if (found === undefined) return new Uint8Array(sizeBytes);
    this.#freeBytes -= found.byteLength;
    return found.subarray(0, sizeBytes);
  }

  /** Only what nothing refers to any more. */
  giveBack({ buffer }: Uint8Array): void {
    if (this.#freeBytes + buffer.byteLength > FREE_BYTES_MAX) return;
    this.#free.push(new Uint8Array(buffer));
    this.#freeBytes += buffer.byteLength;
  }
}
