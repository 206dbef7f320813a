/** Work that is under way together: it stops at the first failure, and nobody hears of the failure before all of it has ended. */

/** Takes items in order, at most `atOnceMax` at a time. After a failure no further item is begun. */
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

/** Waits for all, whatever becomes of them; then throws the failure that is first in the list. */
export async function allEnded(work: readonly Promise<unknown>[]): Promise<void> {
  for (const result of await Promise.allSettled(work)) if (result.status === 'rejected') throw result.reason;
}

/** Things that are lent and given back; whoever finds none waits, first come first served. */
export class Pool<T> {
  readonly #free: T[];
  readonly #waiting: ((item: T) => void)[] = [];

  constructor(items: readonly T[]) {
    this.#free = [...items];
  }

  /** Never rejects: everything that is lent is given back, after a failure too. */
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
