/** Limits the bytes that calls running at the same time hold together. */
export class ByteGate {
  readonly #limitBytes: number;
  #heldBytes = 0;
  readonly #waiting: { readonly bytes: number; readonly enter: () => void }[] = [];

  constructor(limitBytes: number) {
    this.#limitBytes = limitBytes;
  }

  /**
   * Calls `work` when there is room for `bytes`, in the order of the calls. More than the limit has
   * room when nothing else is held.
   */
  async run<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    const wanted = Math.min(bytes, this.#limitBytes);
    if (this.#waiting.length > 0 || !this.#hasRoom(wanted))
      await new Promise<void>((enter) => this.#waiting.push({ bytes: wanted, enter }));
    else this.#heldBytes += wanted;
    try {
      return await work();
    } finally {
      this.#heldBytes -= wanted;
      this.#admit();
    }
  }

  #admit(): void {
    for (let [next] = this.#waiting; next && this.#hasRoom(next.bytes); [next] = this.#waiting) {
      this.#waiting.shift();
      this.#heldBytes += next.bytes;
      next.enter();
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#heldBytes + bytes <= this.#limitBytes;
  }
}
