/**
 * Writes protobuf messages with open places for large fields: the positions are known, and the
 * caller fills them.
 */

import { encodeIds, idsBytes } from './write-ids.ts';

/** The content for a place: the elements of a dense variable, or the rows or ids of a table. */
export interface Content {
  readonly kind: 'dense' | 'values' | 'ids';
  /** Name of the variable or table. */
  readonly name: string;
  readonly lengthBytes: number;
}

export type MessagePart = Uint8Array | Content;

const VARINT = 0;
const LENGTH_DELIMITED = 2;

/**
 * `value` is an integer from -2^53 to 2^53. A negative one takes 10 bytes, as in protobuf's int32
 * and int64.
 */
export function encodeVarint(value: number): Uint8Array {
  const id = BigInt64Array.of(BigInt(value));
  const bytes = new Uint8Array(idsBytes(id));
  encodeIds(id, bytes);
  return bytes;
}

/**
 * Fields are written in the order of the calls. As in proto3, a number of 0 and an empty text, list
 * or content are omitted.
 */
export class Message {
  readonly parts: MessagePart[] = [];
  lengthBytes = 0;

  number(field: number, value: number): this {
    return value === 0 ? this : this.#add([encodeVarint(field * 8 + VARINT), encodeVarint(value)]);
  }

  text(field: number, text: string): this {
    return text === '' ? this : this.key(field, text);
  }

  /** Writes a text even if it is empty, as for the key of a map's entry. */
  key(field: number, text: string): this {
    const bytes = new TextEncoder().encode(text);
    return this.#head(field, bytes.length).#add([bytes]);
  }

  packed(field: number, values: readonly number[]): this {
    if (values.length === 0) return this;
    const varints = values.map(encodeVarint);
    return this.#head(field, sum(varints.map((bytes) => bytes.length))).#add(varints);
  }

  content(field: number, content: Content): this {
    return content.lengthBytes === 0 ? this : this.#head(field, content.lengthBytes).#add([content]);
  }

  /** Written even if it is empty. */
  message(field: number, message: Message): this {
    return this.#add(joined([...headOf(field, message.lengthBytes), ...message.parts]));
  }

  #head(field: number, lengthBytes: number): this {
    return this.#add(headOf(field, lengthBytes));
  }

  #add(parts: readonly MessagePart[]): this {
    for (const part of parts) {
      this.parts.push(part);
      this.lengthBytes += part instanceof Uint8Array ? part.length : part.lengthBytes;
    }
    return this;
  }
}

function headOf(field: number, lengthBytes: number): Uint8Array[] {
  return [encodeVarint(field * 8 + LENGTH_DELIMITED), encodeVarint(lengthBytes)];
}

/**
 * Joins adjacent bytes. A model may have a million variables, and an array takes hundreds of bytes
 * besides its content.
 */
export function joined(parts: readonly MessagePart[]): MessagePart[] {
  const found: MessagePart[] = [];
  let literals: Uint8Array[] = [];
  const endLiteral = () => {
    const [first, second] = literals;
    if (first !== undefined) found.push(second === undefined ? first : Buffer.concat(literals));
    literals = [];
  };
  for (const part of parts) {
    if (part instanceof Uint8Array) literals.push(part);
    else {
      endLiteral();
      found.push(part);
    }
  }
  endLiteral();
  return found;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
