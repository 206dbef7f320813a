/** An invariant of docs/format.md does not hold. The message begins with its number. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

export function violated(invariant: string, what: string): never {
  throw new InvariantError(`${invariant}: ${what}`);
}
