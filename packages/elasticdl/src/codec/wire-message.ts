/**
 * Reads the fields of one message, without the contents of large ones. The forms can be
 * distinguished only when all fields of a message are known. So this code knows nothing about forms
 * except where a message may contain a message.
 */

import { NAME_BYTES_MAX, SHORT_BYTES_MAX } from './limits.ts';
import { quoted } from './read-errors.ts';
import { type FieldHeader, WIRE, type WireCursor } from './wire-cursor.ts';

/** Values kept of consecutive varints. A shape has fewer. Longer lists are ids, read elsewhere. */
const VALUES_MAX = 255;
/**
 * Limit for one message. No form has more than 17 fields; only ids in many runs could exceed that,
 * and no known writer produces them.
 */
const FIELDS_MAX = 65_536;

export interface BytesField {
  readonly kind: 'bytes';
  readonly number: number;
  readonly offsetBytes: number;
  readonly lengthBytes: number;
  /**
   * A copy of the bytes if they are short enough for a name or a shape and were not read as a
   * message.
   */
  readonly bytes: Uint8Array | null;
  /** The fields if it was read as a message. */
  readonly fields: readonly Field[] | null;
}

/** One varint, or any number of consecutive ones of the same field. */
export interface VarintsField {
  readonly kind: 'varints';
  readonly number: number;
  /** Offset of the first tag. */
  readonly offsetBytes: number;
  /** Length including the tags. */
  readonly lengthBytes: number;
  readonly count: number;
  /** At most the first 255. */
  readonly values: readonly bigint[];
}

export interface FixedField {
  readonly kind: 'fixed';
  readonly number: number;
  readonly offsetBytes: number;
}

export type Field = BytesField | VarintsField | FixedField;

/**
 * Decides whether a field holds a message to be read at once, and returns the rule for that
 * message's own fields.
 */
export type Nesting = (header: FieldHeader, isLast: boolean, before: readonly Field[]) => Nesting | null;

export const noNesting: Nesting = () => null;

/** Reads from the cursor's position to `endBytes`, and leaves the cursor there. */
export async function readFields(cursor: WireCursor, endBytes: number, nesting: Nesting): Promise<Field[]> {
  const fields: Field[] = [];
  while (cursor.position < endBytes) {
    if (fields.length === FIELDS_MAX) {
      throw cursor.corrupt(cursor.position, `a message has more than ${FIELDS_MAX} fields`);
    }
    const header = await cursor.header(endBytes);
    if (header.wireType === WIRE.varint) fields.push(await readVarints(cursor, header, endBytes));
    else if (header.wireType === WIRE.bytes) {
      const isLast = header.offsetBytes + header.lengthBytes === endBytes;
      const field = await readBytes(cursor, header, nesting(header, isLast, fields));
      fields.push(field);
      cursor.what ??= nameOf(field);
    } else {
      fields.push({ kind: 'fixed', number: header.number, offsetBytes: header.tagOffsetBytes });
      cursor.position = header.offsetBytes + header.lengthBytes;
    }
  }
  return fields;
}

/** Name of an entry, for error messages: its first 1,024 bytes. `null`: this is not its name. */
function nameOf(field: BytesField): string | null {
  const bytes = field.number === 1 ? field.bytes?.subarray(0, 1024) : undefined;
  return bytes?.every((byte) => byte >= 0x20) ? quoted(new TextDecoder().decode(bytes)) : null;
}

async function readBytes(
  cursor: WireCursor,
  header: FieldHeader,
  inside: Nesting | null,
): Promise<BytesField> {
  const { number, offsetBytes, lengthBytes } = header;
  const endBytes = offsetBytes + lengthBytes;
  const place = { kind: 'bytes', number, offsetBytes, lengthBytes } as const;
  if (inside) return { ...place, bytes: null, fields: await readFields(cursor, endBytes, inside) };
  const isKept = lengthBytes <= (number === 1 ? NAME_BYTES_MAX : SHORT_BYTES_MAX);
  const bytes = isKept ? await cursor.take(lengthBytes) : null;
  cursor.position = endBytes;
  return { ...place, bytes, fields: null };
}

async function readVarints(cursor: WireCursor, header: FieldHeader, endBytes: number): Promise<VarintsField> {
  const { number, tagOffsetBytes } = header;
  const values = [cursor.int64(endBytes)];
  let count = 1;
  const tag = 8 * number + WIRE.varint;
  while (tag < 0x80 && cursor.position < endBytes && (await cursor.isNext(tag))) {
    if (values.length === VALUES_MAX) {
      const skipped = cursor.skipSame(tag, endBytes);
      count += skipped;
      if (skipped > 0) continue;
    }
    await cursor.header(endBytes);
    const value = cursor.int64(endBytes);
    if (values.length < VALUES_MAX) values.push(value);
    count++;
  }
  const lengthBytes = cursor.position - tagOffsetBytes;
  return { kind: 'varints', number, offsetBytes: tagOffsetBytes, lengthBytes, count, values };
}
