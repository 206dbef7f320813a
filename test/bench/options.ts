/** Values of command-line options that several benchmarks share. */

export function positive(option: string, text: string): number {
  const value = Number(text);
  if (!(value > 0 && value < 1000))
    throw new Error(`${option} is "${text}"; it takes a number above 0 and below 1000`);
  return value;
}

/** Comma-separated names out of `known`, in the order of `known`. */
export function chosen<Name extends string>(option: string, text: string, known: readonly Name[]): Name[] {
  const names = text.split(',');
  const unknown = names.filter((name) => !known.includes(name as Name));
  if (unknown.length > 0)
    throw new Error(`${option} has ${unknown.join(', ')}; there are ${known.join(', ')}`);
  return known.filter((name) => names.includes(name));
}

/** Prints progress on stderr. */
export function say(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** A whole number from 1 on. */
export function countOf(option: string, text: string): number {
  const count = Number(text);
  if (Number.isSafeInteger(count) && count >= 1) return count;
  throw new Error(`${option} is "${text}"; it takes a whole number from 1 on`);
}
