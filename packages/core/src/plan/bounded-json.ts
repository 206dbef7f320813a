/**
 * Parses JSON that may be hostile: the number of its values is checked before it is parsed, because
 * each of them takes memory. Pure.
 */

const STRUCTURE: ReadonlySet<number> = new Set([...'[{,:'].map((character) => character.charCodeAt(0)));

/** Brackets, commas and colons. Each stands for a value that the parsed JSON keeps in memory. */
export function structureOf(json: Uint8Array): number {
  let count = 0;
  for (const byte of json) if (STRUCTURE.has(byte)) count += 1;
  return count;
}

/** `undefined`: it is not JSON in UTF-8, or not an object. */
export function parseObject(json: Uint8Array): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(json));
    return isJsonObject(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isJsonObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function areCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => Number.isSafeInteger(each) && each >= 0);
}
