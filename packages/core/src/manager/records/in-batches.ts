/** Many small requests, a few at a time. */

/** The results are in the order of `items`. After an error, no further batch starts. */
export async function inBatches<T, R>(
  items: readonly T[],
  batchSize: number,
  work: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += batchSize) {
    for (const result of await Promise.all(items.slice(at, at + batchSize).map(work))) results.push(result);
  }
  return results;
}
