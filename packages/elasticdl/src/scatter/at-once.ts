/** Concurrent work: see also `atATime` of the contract. */

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
