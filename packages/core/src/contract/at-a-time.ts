/**
 * Calls `work` for each item in order, at most `limit` at a time; each item is taken when its turn
 * comes. Results are in the order of the items. After the first failure no further item is taken.
 * The failure is thrown when all pending calls have ended.
 */
export async function atATime<Item, Result>(
  items: Iterable<Item>,
  limit: number,
  work: (item: Item, index: number) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  const rest = items[Symbol.iterator]();
  let taken = 0;
  let failure: { readonly error: unknown } | undefined;
  const lane = async () => {
    while (failure === undefined) {
      try {
        const next = rest.next();
        if (next.done === true) return;
        const index = taken++;
        results[index] = await work(next.value, index);
      } catch (error) {
        failure ??= { error };
      }
    }
  };
  await Promise.all(Array.from({ length: limit }, lane));
  if (failure !== undefined) throw (failure as { readonly error: unknown }).error;
  return results;
}
