/**
 * Calls `work` for each item, at most `limit` at a time. Results are in the order of the items.
 * After the first failure no new call begins. The failure is thrown when all pending calls have
 * ended.
 */
export async function atATime<Item, Result>(
  items: readonly Item[],
  limit: number,
  work: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = new Array(items.length);
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const worker = async () => {
    while (next < items.length && failure === undefined) {
      const index = next++;
      try {
        results[index] = await work(items[index] as Item, index);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker));
  if (failure !== undefined) throw (failure as { readonly error: unknown }).error;
  return results;
}
