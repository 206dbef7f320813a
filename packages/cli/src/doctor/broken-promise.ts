/** The store breaks the contract. The message is what was observed. */
export class BrokenPromise extends Error {
  override readonly name = 'BrokenPromise';
}

export function expectThat(isKept: boolean, seen: string): asserts isKept {
  if (!isKept) throw new BrokenPromise(seen);
}
