/**
 * The fields of one message by number, as a form expects them. Unknown fields are ignored; fields
 * of the wrong kind are `Corrupt`.
 */

import type { CheckpointError } from '@holdfast/core/contract';
import type { IdRun } from '../layout.ts';
import { VARINT_BYTES_MAX, type WireCursor } from './wire-cursor.ts';
import { type BytesField, type Field, noNesting, readFields, type VarintsField } from './wire-message.ts';

export interface Ids {
  readonly runs: readonly IdRun[];
  /** Least and most ids that the runs can hold: a varint has 1 to 10 bytes. */
  readonly countMin: number;
  readonly countMax: number;
}

export class MessageFields {
  readonly #cursor: WireCursor;
  readonly #fields: readonly Field[];
  /** Offset of the message. */
  readonly offsetBytes: number;

  constructor(cursor: WireCursor, offsetBytes: number, fields: readonly Field[]) {
    this.#cursor = cursor;
    this.offsetBytes = offsetBytes;
    this.#fields = fields;
  }

  has(number: number, kind?: Field['kind']): boolean {
    return this.#fields.some((field) => field.number === number && (!kind || field.kind === kind));
  }

  bytes(number: number, label: string): BytesField | null {
    const field = this.#only(number, label);
    if (field && field.kind !== 'bytes') throw this.#otherKind(field, label, 'bytes');
    return field;
  }

  /** A bytes field with its content, which must be short. */
  short(number: number, label: string): (BytesField & { readonly bytes: Uint8Array }) | null {
    const field = this.bytes(number, label);
    if (!field) return null;
    const { bytes } = field;
    if (!bytes) throw this.#tooLong(field, label);
    return { ...field, bytes };
  }

  text(number: number, label: string): string {
    const field = this.short(number, label);
    if (!field) return '';
    try {
      return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(field.bytes);
    } catch {
      // The decoder's error adds nothing.
      throw this.corrupt(field, `the ${label} is not UTF-8`);
    }
  }

  /** 0 if the field is missing, as everywhere in proto3. */
  int64(number: number, label: string): bigint {
    const field = this.#only(number, label);
    if (!field) return 0n;
    if (field.kind !== 'varints') throw this.#otherKind(field, label, 'a number');
    if (field.count > 1) throw this.corrupt(field, `the ${label} is there ${field.count} times`);
    return field.values[0] ?? 0n;
  }

  /** Numbers, packed or not, or both; at most `countMax`. */
  int64s(number: number, label: string, countMax: number): bigint[] {
    const values: bigint[] = [];
    for (const field of this.#fields) {
      if (field.number !== number) continue;
      if (field.kind === 'fixed') throw this.#otherKind(field, label, 'numbers');
      values.push(...(field.kind === 'varints' ? field.values : this.#unpack(field, label)));
      const isCut = field.kind === 'varints' && field.count > field.values.length;
      if (isCut || values.length > countMax) {
        throw this.corrupt(field, `the ${label} has more than ${countMax} numbers`);
      }
    }
    return values;
  }

  #unpack(field: BytesField, label: string): bigint[] {
    if (!field.bytes) throw this.#tooLong(field, label);
    const values = unpackVarints(field.bytes);
    if (!values) throw this.corrupt(field, `the ${label} does not end where its numbers do`);
    return values;
  }

  #tooLong(field: BytesField, label: string): CheckpointError {
    return this.corrupt(field, `the ${label} has ${field.lengthBytes} bytes, more than are read`);
  }

  /** Positions of ids, without reading them. */
  ids(number: number, label: string): Ids {
    const runs: IdRun[] = [];
    let countMin = 0;
    let countMax = 0;
    for (const field of this.#fields) {
      if (field.number !== number) continue;
      if (field.kind === 'fixed') throw this.#otherKind(field, label, 'numbers');
      const { offsetBytes, lengthBytes } = field;
      const isPacked = field.kind === 'bytes';
      if (lengthBytes > 0) runs.push({ offsetBytes, lengthBytes, isPacked });
      countMin += isPacked ? Math.ceil(lengthBytes / VARINT_BYTES_MAX) : (field as VarintsField).count;
      countMax += isPacked ? lengthBytes : (field as VarintsField).count;
    }
    return { runs, countMin, countMax };
  }

  /** A message inside this one; without fields if it is missing. */
  async message(number: number, label: string): Promise<MessageFields> {
    const field = this.bytes(number, label);
    if (!field) return new MessageFields(this.#cursor, this.offsetBytes, []);
    return this.#inside(field);
  }

  async messages(number: number, label: string): Promise<MessageFields[]> {
    const found: MessageFields[] = [];
    for (const field of this.#fields) {
      if (field.number !== number) continue;
      if (field.kind !== 'bytes') throw this.#otherKind(field, label, 'a message');
      found.push(await this.#inside(field));
    }
    return found;
  }

  /**
   * Reads fields now if the cursor did not read them on its way. That happens only with a field
   * order that no known writer produces.
   */
  async #inside(field: BytesField): Promise<MessageFields> {
    const endBytes = field.offsetBytes + field.lengthBytes;
    if (field.fields) return new MessageFields(this.#cursor, field.offsetBytes, field.fields);
    const back = this.#cursor.position;
    this.#cursor.position = field.offsetBytes;
    const fields = await readFields(this.#cursor, endBytes, noNesting);
    this.#cursor.position = back;
    return new MessageFields(this.#cursor, field.offsetBytes, fields);
  }

  #only(number: number, label: string): Field | null {
    const [field, again] = this.#fields.filter((candidate) => candidate.number === number);
    if (again) throw this.corrupt(again, `there is a second ${label}`);
    return field ?? null;
  }

  #otherKind(field: Field, label: string, expected: string): CheckpointError {
    const found = { bytes: 'bytes', varints: 'a varint', fixed: 'a fixed number' }[field.kind];
    return this.corrupt(field, `the ${label} (field ${field.number}) is of another kind`, expected, found);
  }

  corrupt(at: { offsetBytes: number }, problem: string, expected?: string, found?: string): CheckpointError {
    return this.#cursor.corrupt(at.offsetBytes, problem, expected, found);
  }
}

/** Uses BigInt, as it reads only shapes. `null`: the last varint has no end, or one is too long. */
function unpackVarints(bytes: Uint8Array): bigint[] | null {
  const values: bigint[] = [];
  let value = 0n;
  let shift = 0n;
  for (const byte of bytes) {
    value |= BigInt(byte & 0x7f) << shift;
    shift += 7n;
    if (byte < 0x80) {
      values.push(BigInt.asIntN(64, value));
      value = 0n;
      shift = 0n;
    } else if (shift === 70n) return null;
  }
  return shift === 0n ? values : null;
}
