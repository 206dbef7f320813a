/**
 * Concurrent work that stops at the first failure. The failure is thrown only after all of it has
 * ended.
 */

/**
 * Takes items in order, at most `atOnceMax` at a time. After a failure no further item is started.
 */
export async function eachAtOnce<T>(
  items: Iterable<T>,
  atOnceMax: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let hasFailed = false;
  const lane = async () => {
    while (!hasFailed) {
      const next = iterator.next();
      if (next.done === true) return;
      try {
        await work(next.value);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await allEnded(Array.from({ length: atOnceMax }, lane));
}

/** Waits for all, even after a failure; then throws the failure that is first in the list. */
export async function allEnded(work: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) if (result.status === 'rejected') throw result.reason;
}

/** A pool of reusable items; callers wait if none is free, first come first served. */
export class Pool<T> {
  readonly #free: T[];
  readonly #waiting: ((item: T) => void)[] = [];

  constructor(items: readonly T[]) {
    this.#free = [...items];
  }

  /** Never rejects: every item is given back, even after a failure. */
  take(): Promise<T> {
    const item = this.#free.pop();
    return item === undefined ? new Promise((resolve) => this.#waiting.push(resolve)) : Promise.resolve(item);
  }

  give(item: T): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free.push(item);
    else next(item);
  }
}
