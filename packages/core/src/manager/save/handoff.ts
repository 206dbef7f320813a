/** Lets a writer that pushes feed a reader that pulls, one chunk at a time. */

export class Handoff implements AsyncIterable<Uint8Array> {
  #waiting: ((next: IteratorResult<Uint8Array, undefined>) => void) | undefined;
  #failWaiting: ((error: unknown) => void) | undefined;
  #offered: { chunk: Uint8Array; taken: () => void; refused: (error: unknown) => void } | undefined;
  #current: { taken: () => void; refused: (error: unknown) => void } | undefined;
  #isEnded = false;
  #error: { reason: unknown } | undefined;

  /** Resolves when the reader asks for the next chunk: it then no longer uses this one. */
  push(chunk: Uint8Array): Promise<void> {
    if (this.#error) return Promise.reject(this.#error.reason);
    return new Promise((taken, refused) => {
      this.#offered = { chunk, taken, refused };
      this.#match();
    });
  }

  end(): void {
    this.#isEnded = true;
    this.#match();
  }

  /** Both sides fail with `reason`. */
  fail(reason: unknown): void {
    this.#error ??= { reason };
    this.#current?.refused(reason);
    this.#offered?.refused(reason);
    this.#failWaiting?.(reason);
    this.#current = this.#offered = this.#waiting = this.#failWaiting = undefined;
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return {
      next: () => {
        if (this.#error) return Promise.reject(this.#error.reason);
        this.#current?.taken();
        this.#current = undefined;
        return new Promise((resolve, reject) => {
          this.#waiting = resolve;
          this.#failWaiting = reject;
          this.#match();
        });
      },
      // The reader has failed. The code that started the reading gets the error and passes it to
      // `fail`.
      return: async () => ({ done: true, value: undefined }),
    };
  }

  #match(): void {
    if (!this.#waiting) return;
    if (this.#offered) {
      const { chunk, taken, refused } = this.#offered;
      this.#current = { taken, refused };
      this.#offered = undefined;
      this.#resolve({ done: false, value: chunk });
    } else if (this.#isEnded) {
      this.#resolve({ done: true, value: undefined });
    }
  }

  #resolve(next: IteratorResult<Uint8Array, undefined>): void {
    this.#waiting?.(next);
    this.#waiting = this.#failWaiting = undefined;
  }
}
