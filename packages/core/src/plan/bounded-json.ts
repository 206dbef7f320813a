/**
 * Parses JSON that may be hostile. The memory of its values is estimated before it is parsed,
 * because a few bytes of text can become hundreds of bytes in memory. Pure.
 */

const [QUOTE, BACKSLASH, COLON, COMMA, BRACKET, BRACE] = [...'"\\:,[{'].map((character) =>
  character.charCodeAt(0),
);
const ASCII_MAX = 0x7f;

/** Bytes of memory for each value: at least what V8 allocates. */
const COST = {
  object: 80,
  list: 48,
  /** The slot of a value, and the value if it is a number. */
  slot: 24,
  /** A member with a name of its own, which gives its object a hidden class of its own. */
  member: 240,
  /** In addition to its characters. */
  string: 40,
} as const;
/** Members of every tensor in a header of safetensors. These objects share one hidden class. */
const USUAL_NAMES: ReadonlySet<string> = new Set(['dtype', 'shape', 'data_offsets', 'saved_offsets']);
const USUAL_CHARS_MIN = 5;
const USUAL_CHARS_MAX = 16;

/**
 * An estimate, never too low, of the memory for the text and its values. It makes one pass over the
 * bytes, even if they are not JSON, and stops above `maxBytes`.
 */
export function jsonMemory(json: Uint8Array, maxBytes: number): number {
  let memory = 0;
  let isPlain = true;
  for (let at = 0; at < json.byteLength && memory <= maxBytes; at += 1) {
    const byte = json[at] as number;
    if (byte === QUOTE) {
      const end = endOfString(json, at + 1);
      memory += COST.string + 2 * (end - at);
      if (json[end + 1] === COLON && isUsual(json.subarray(at + 1, end))) memory -= COST.member;
      at = end;
    } else if (byte === COLON) memory += COST.member + COST.slot;
    else if (byte === COMMA) memory += COST.slot;
    else if (byte === BRACKET) memory += COST.list + COST.slot;
    else if (byte === BRACE) memory += COST.object;
    else if (byte > ASCII_MAX) isPlain = false;
  }
  return memory + (isPlain ? 1 : 2) * json.byteLength;
}

/** Place of the quote that ends a string. */
function endOfString(json: Uint8Array, start: number): number {
  for (let at = start; at < json.byteLength; at += 1) {
    if (json[at] === BACKSLASH) at += 1;
    else if (json[at] === QUOTE) return at;
  }
  return json.byteLength;
}

function isUsual(name: Uint8Array): boolean {
  const { byteLength } = name;
  if (byteLength < USUAL_CHARS_MIN || byteLength > USUAL_CHARS_MAX) return false;
  return USUAL_NAMES.has(Buffer.from(name).toString());
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
