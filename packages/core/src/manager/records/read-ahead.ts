/** Runs many small reads, a few of them ahead of the reader. */

/**
 * Yields the results in the order of `items`. At most `count` items are worked on at once. A reader
 * that stops early stops the work: `signal` fires for pending work, and all of it has settled when
 * the generator has ended.
 */
export async function* readAhead<T, R>(
  items: Iterable<T> | AsyncIterable<T>,
  { count, signal }: { readonly count: number; readonly signal: AbortSignal | undefined },
  work: (item: T, signal: AbortSignal) => Promise<R>,
): AsyncGenerator<R, void, void> {
  const rest = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]();
  const stop = new AbortController();
  const until = signal ? AbortSignal.any([signal, stop.signal]) : stop.signal;
  const underWay: Promise<R>[] = [];
  let hasMore = true;
  try {
    for (;;) {
      while (hasMore && underWay.length < count) {
        const next = await rest.next();
        if (next.done) hasMore = false;
        else underWay.push(begun(() => work(next.value, until)));
      }
      const first = underWay.shift();
      if (first === undefined) return;
      yield await first;
    }
  } finally {
    stop.abort();
    await rest.return?.();
    await Promise.allSettled(underWay);
  }
}

/** A failure is thrown when its turn comes. Until then it must not count as unhandled. */
function begun<R>(work: () => Promise<R>): Promise<R> {
  const result = work();
  result.catch(() => undefined);
  return result;
}
