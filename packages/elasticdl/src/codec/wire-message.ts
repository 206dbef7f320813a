/**
 * The fields of one message, without what large ones hold: that many forms can be told apart only when all fields of a message are known,
 * so this knows nothing of forms but where a message may lie in a message.
 */

import { NAME_BYTES_MAX, SHORT_BYTES_MAX } from './limits.ts';
import { quoted } from './read-errors.ts';
import { type FieldHeader, WIRE, type WireCursor } from './wire-cursor.ts';

/** Of varints that stand together: a shape has no more, and all else is ids, which are not looked at here. */
const VALUES_MAX = 255;
/** Of one message: no form has more than 17. Many only if ids stand in many runs, and nobody writes that. */
const FIELDS_MAX = 65_536;

export interface BytesField {
  readonly kind: 'bytes';
  readonly number: number;
  readonly offsetBytes: number;
  readonly lengthBytes: number;
  /** A copy, where they are few enough to be a name or a shape and are no message that was read. */
  readonly bytes: Uint8Array | null;
  /** Where it is a message that was to be read at once. */
  readonly fields: readonly Field[] | null;
}

/** One varint, or any number of the same field that follow each other. */
export interface VarintsField {
  readonly kind: 'varints';
  readonly number: number;
  /** Of the first tag. */
  readonly offsetBytes: number;
  /** With the tags. */
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

/** Whether what a field holds is a message to be read at once, and by which rule its own fields are. */
export type Nesting = (header: FieldHeader, isLast: boolean, before: readonly Field[]) => Nesting | null;

export const noNesting: Nesting = () => null;

/** From the cursor's position up to `endBytes`, where the cursor is afterwards. */
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

/** Once an entry's name is known, messages say it; of a long one they show the beginning. */
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
