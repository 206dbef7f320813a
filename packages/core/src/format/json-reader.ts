/**
 * Reads canonical JSON from bytes, one token after another, and charges each value to a budget
 * before creating it. `JSON.parse` would create all values first: 16 MiB of `[],` become a gigabyte
 * of arrays.
 */

import { COST, type MemoryBudget, NESTING_MAX, STRING_BYTES_MAX, stringCost } from './limits.ts';
import { numberToJson } from './scalars.ts';
import { ValuePath, ValueProblem } from './value-problem.ts';

/** The bytes are not the canonical spelling of a value, or not JSON at all. */
export class JsonProblem extends Error {
  /** Offset of the first wrong byte. */
  readonly at: number;
  /** Expected content; `undefined`: the bytes are not JSON. */
  readonly expected: string | undefined;

  constructor(at: number, expected?: string) {
    super(expected === undefined ? `invalid JSON at byte ${at}` : `byte ${at} should begin ${expected}`);
    this.at = at;
    this.expected = expected;
  }
}

const EXCERPT_BYTES = 24;

export function excerpt(bytes: Uint8Array, at: number): string {
  return JSON.stringify(Buffer.from(bytes.subarray(at, at + EXCERPT_BYTES)).toString());
}

export const BYTE = {
  quote: 0x22,
  comma: 0x2c,
  minus: 0x2d,
  colon: 0x3a,
  backslash: 0x5c,
  openBracket: 0x5b,
  closeBracket: 0x5d,
  openBrace: 0x7b,
  closeBrace: 0x7d,
  newline: 0x0a,
} as const;

const LITERALS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
]);
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/;
/** Maximum length of a number as ECMAScript writes it. */
const NUMBER_CHARS_MAX = 32;
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

export class JsonReader {
  /** Offset of the next byte. */
  at: number;
  readonly budget: MemoryBudget;
  /** Position of the value being read. */
  readonly path = new ValuePath();
  readonly #bytes: Buffer;
  #depth: number;

  /** `depth`: number of objects already open. */
  constructor(bytes: Uint8Array, start: { at: number; depth: number; budget: MemoryBudget }) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = start.at;
    this.budget = start.budget;
    this.#depth = start.depth;
  }

  /** The next byte; `undefined` at the end. */
  get next(): number | undefined {
    return this.#bytes[this.at];
  }

  take(byte: number): void {
    if (this.#bytes[this.at] !== byte) throw this.unexpected(byte);
    this.at++;
  }

  takeIf(byte: number): boolean {
    if (this.#bytes[this.at] !== byte) return false;
    this.at++;
    return true;
  }

  /** Begins an array or object. */
  open(byte: number): void {
    this.take(byte);
    if (++this.#depth > NESTING_MAX)
      throw new ValueProblem(this.path.text, `nested at most ${NESTING_MAX} levels deep`, 'nested deeper');
  }

  close(byte: number): void {
    this.take(byte);
    this.#depth--;
  }

  /** The name of a member and its colon. */
  name(): string {
    const name = this.string(STRING_BYTES_MAX);
    if (!name.isWellFormed())
      throw new ValueProblem(this.path.text, 'below a key that UTF-8 can express', name);
    this.take(BYTE.colon);
    return name;
  }

  /** Names of members are in ascending order without duplicates. `at`: offset of `name`. */
  assertOrder(at: number, before: string | undefined, name: string): void {
    if (before === undefined || before < name) return;
    throw new JsonProblem(at, `a name after ${JSON.stringify(before.slice(0, EXCERPT_BYTES))}`);
  }

  /** Consumes these bytes if they come next; returns whether they did. */
  takeBytes(wanted: Uint8Array): boolean {
    for (let index = 0; index < wanted.length; index++) {
      if (this.#bytes[this.at + index] !== wanted[index]) return false;
    }
    this.at += wanted.length;
    return true;
  }

  string(bytesMax: number): string {
    if (this.next !== BYTE.quote) throw this.unexpected(BYTE.quote);
    const start = this.at + 1;
    const { end, isAscii, isEscaped } = this.#endOfString(start);
    const length = end - start;
    if (length > bytesMax)
      throw new ValueProblem(this.path.text, `at most ${bytesMax} bytes`, `${length} bytes`);
    this.budget.charge(stringCost(length, isAscii && !isEscaped));
    const text = isAscii ? this.#bytes.toString('latin1', start, end) : this.#utf8(start, end);
    this.at = end + 1;
    return isEscaped ? this.#unescaped(text, start) : text;
  }

  #endOfString(start: number): { end: number; isAscii: boolean; isEscaped: boolean } {
    const bytes = this.#bytes;
    let isEscaped = false;
    let all = 0;
    for (let at = start; ; at++) {
      const byte = bytes[at];
      if (byte === BYTE.quote) return { end: at, isAscii: all < 0x80, isEscaped };
      if (byte === undefined || byte < 0x20) throw new JsonProblem(at);
      all |= byte;
      if (byte !== BYTE.backslash) continue;
      isEscaped = true;
      at++;
    }
  }

  #utf8(start: number, end: number): string {
    try {
      return UTF8.decode(this.#bytes.subarray(start, end));
    } catch {
      throw new JsonProblem(start);
    }
  }

  #unescaped(text: string, start: number): string {
    let value: string;
    try {
      value = JSON.parse(`"${text}"`) as string;
    } catch {
      throw new JsonProblem(start);
    }
    const canonical = JSON.stringify(value);
    if (canonical.length === text.length + 2 && canonical.slice(1, -1) === text) return value;
    throw new JsonProblem(start - 1, JSON.stringify(canonical.slice(0, EXCERPT_BYTES)));
  }

  /**
   * A number, string, boolean or null. An empty array or object stands for one whose content is not
   * read.
   */
  scalar(stringBytesMax: number): unknown {
    const { next } = this;
    if (next === BYTE.quote) return this.string(stringBytesMax);
    if (next === BYTE.openBracket) return [];
    if (next === BYTE.openBrace) return {};
    this.budget.charge(COST.number);
    return this.#bareWord();
  }

  #bareWord(): number | boolean | null {
    const start = this.at;
    let end = start;
    while (end - start <= NUMBER_CHARS_MAX && isWordByte(this.#bytes[end])) end++;
    const text = this.#bytes.toString('latin1', start, end);
    const literal = LITERALS.get(text);
    if (literal === undefined && !NUMBER.test(text)) throw this.unexpected(undefined);
    this.at = end;
    if (literal !== undefined) return literal;
    return Number(text);
  }

  /** Checks that the number just read, which begins at `at`, is spelled as ECMAScript spells it. */
  assertSpelling(at: number, value: number): void {
    const canonical = numberToJson(value);
    if (canonical === this.#bytes.toString('latin1', at, this.at)) return;
    throw new JsonProblem(at, JSON.stringify(canonical));
  }

  /**
   * The error for a byte other than `byte`; `undefined`: no value begins here. Leading white space
   * is reported separately.
   */
  unexpected(byte: number | undefined): JsonProblem {
    let after = this.at;
    while (isWhiteSpace(this.#bytes[after])) after++;
    const isOnlyWhiteSpace =
      after > this.at &&
      (byte === undefined ? this.#bytes[after] !== undefined : this.#bytes[after] === byte);
    return new JsonProblem(this.at, isOnlyWhiteSpace ? excerpt(this.#bytes, after) : undefined);
  }

  /** The end of the record: a newline, and no byte after it. */
  end(): void {
    const rest = this.#bytes.subarray(this.at, this.at + 2);
    if (rest.length === 1 && rest[0] === BYTE.newline) return;
    if (rest.every(isWhiteSpace)) throw new JsonProblem(this.at, '"\\n"');
    throw new JsonProblem(this.at);
  }
}

function isWhiteSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === BYTE.newline || byte === 0x0d || byte === 0x09;
}

/** Bytes that may occur in numbers and in `true`, `false`, `null`. */
function isWordByte(byte: number | undefined): boolean {
  if (byte === undefined) return false;
  return (
    (byte >= 0x30 && byte <= 0x39) ||
    (byte >= 0x61 && byte <= 0x7a) ||
    byte === 0x2d ||
    byte === 0x2b ||
    byte === 0x2e ||
    byte === 0x45
  );
}
