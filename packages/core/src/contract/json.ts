/**
 * `JSON.stringify` throws on a bigint, and versions are bigints. Results therefore have a `toJSON`
 * that writes bigints as decimal strings. It is not enumerable: a result has no additional names,
 * and copies by spreading or `structuredClone` are plain.
 */

/**
 * Makes `JSON.stringify` work on `value` and on each part of it. Returns `value` itself. Class
 * instances in it are left alone.
 */
export function jsonReady<T>(value: T): T {
  if (Array.isArray(value)) mark(value, value);
  else if (isPlainObject(value)) mark(value, Object.values(value));
  return value;
}

function mark(value: object, parts: readonly unknown[]): void {
  let hasBigInt = false;
  for (const part of parts) {
    if (typeof part === 'bigint') hasBigInt = true;
    else if (typeof part === 'object' && part !== null) jsonReady(part);
  }
  if (!hasBigInt) return;
  Object.defineProperty(value, 'toJSON', { value: toJson, configurable: true, writable: true });
}

function toJson(this: object): unknown {
  if (Array.isArray(this)) return this.map(jsonScalar);
  return Object.fromEntries(Object.entries(this).map(([name, part]) => [name, jsonScalar(part)]));
}

/** `JSON.stringify` calls `toJSON` of nested parts itself. */
function jsonScalar(part: unknown): unknown {
  return typeof part === 'bigint' ? String(part) : part;
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}
