/**
 * One small model as each form writes it, with tools to write it incorrectly. It encodes protobuf
 * by hand, so that tests can produce any bytes.
 */

import type { Form } from '@holdfast/elasticdl';

export type Bytes = Uint8Array;

export function join(...parts: readonly Bytes[]): Bytes {
  return Buffer.concat(parts);
}

export function varint(value: number | bigint): Bytes {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Uint8Array.from([...bytes, Number(rest)]);
}

/** A field with a number. */
export function int(field: number, value: number | bigint): Bytes {
  return join(varint(8 * field), varint(value));
}

/** A field with bytes, text or a message. */
export function block(field: number, content: Bytes | string): Bytes {
  const bytes = Buffer.from(content);
  return join(varint(8 * field + 2), varint(bytes.byteLength), bytes);
}

export type Numbers = readonly (number | bigint)[];
export type Repeated = (field: number, values: Numbers) => Bytes;

export const packed: Repeated = (field, values) =>
  values.length === 0 ? new Uint8Array(0) : block(field, join(...values.map(varint)));
export const unpacked: Repeated = (field, values) => join(...values.map((value) => int(field, value)));
/** Alternates between both encodings. */
export const mixed: Repeated = (field, values) =>
  join(
    packed(field, values.slice(0, 1)),
    unpacked(field, values.slice(1, 3)),
    packed(field, values.slice(3)),
  );

export function floats(...values: number[]): Bytes {
  return new Uint8Array(Float32Array.from(values).buffer);
}

export interface Written {
  readonly name: string;
  readonly dtype: number;
  readonly shape: Numbers;
  readonly content: Bytes;
  readonly ids?: Numbers;
}

export function listTensor({ name, dtype, shape, content, ids = [] }: Written, repeated = packed): Bytes {
  const parts = [block(1, name), repeated(2, shape), block(3, content), repeated(4, ids), int(5, dtype)];
  return block(2, join(...parts));
}

export function branchTensor({ name, dtype, shape, content, ids = [] }: Written, repeated = packed): Bytes {
  const parts = [repeated(1, shape), block(2, content), repeated(3, ids), int(4, dtype), block(5, name)];
  return block(2, join(...parts));
}

/** A tensor of S2. S1 lacks the type, and S0 lacks the ids too. */
export function mapTensor({ name, dtype, shape, content, ids = [] }: Written, repeated = packed): Bytes {
  const type = dtype === 0 ? new Uint8Array(0) : int(4, dtype);
  const tensor = join(repeated(1, shape), block(2, content), repeated(3, ids), type);
  return block(2, join(block(1, name), block(2, tensor)));
}

export function tensorProto({ dtype, shape, content }: Omit<Written, 'name'>): Bytes {
  const dims = shape.map((size) => block(2, int(1, size)));
  return join(int(1, dtype), block(2, join(...dims)), block(4, content));
}

/** An entry of the map of dense variables: field 4 in S6, 3 in S7. */
export function denseEntry(field: number, tensor: Written): Bytes {
  return block(field, join(block(1, tensor.name), block(2, tensorProto(tensor))));
}

/** An entry of the map of tables: field 5 in S6, 4 in S7. */
export function tableEntry(field: number, tensor: Written, repeated = packed): Bytes {
  const slices = join(block(1, tensorProto(tensor)), repeated(2, tensor.ids ?? []));
  return block(field, join(block(1, tensor.name), block(2, slices)));
}

/** Field 3 up to S6, 2 in S7. */
export function info(field: number, name: string, dim: number, dtype = 0): Bytes {
  const type = dtype === 0 ? new Uint8Array(0) : int(4, dtype);
  return block(field, join(block(1, name), int(2, dim), block(3, 'uniform'), type));
}

export const KERNEL: Written = { name: 'dense/kernel:0', dtype: 1, shape: [2, 1], content: floats(1, 2) };
export const BIAS: Written = { name: 'dense/bias:0', dtype: 1, shape: [1], content: floats(3) };
/** One id takes ten bytes, as negative numbers do, and fits the int32 of early forms. */
export const TABLE: Written = {
  name: 'embedding',
  dtype: 1,
  shape: [4, 2],
  content: floats(0, 1, 2, 3, 4, 5, 6, 7),
  ids: [300, -1, 7, 2 ** 31 - 1],
};

export const FORMS: readonly Form[] = ['S0', 'S1', 'S2', 'S2a', 'S3', 'S4', 'S5', 'S6', 'S7'];

/**
 * Version 100 with two dense variables. It has the table from S1 on and the table's info from S4
 * on.
 */
export function writtenShard(form: Form, repeated = packed): Bytes {
  const tensors = form === 'S0' ? [KERNEL, BIAS] : [KERNEL, BIAS, TABLE];
  const typed = (dtype: number) => tensors.map((tensor) => ({ ...tensor, dtype }));
  const version = int(1, 100);
  switch (form) {
    case 'S0':
    case 'S1':
      return join(version, ...typed(0).map((tensor) => mapTensor(tensor, repeated)));
    case 'S2':
      return join(version, ...typed(6).map((tensor) => mapTensor(tensor, repeated)));
    case 'S2a':
      return join(version, ...typed(6).map((tensor) => branchTensor(tensor, repeated)));
    case 'S3':
      return join(version, ...typed(6).map((tensor) => listTensor(tensor, repeated)));
    case 'S4':
      return join(
        version,
        ...typed(6).map((tensor) => listTensor(tensor, repeated)),
        info(3, 'embedding', 2),
      );
    case 'S5':
      return join(
        version,
        ...tensors.map((tensor) => listTensor(tensor, repeated)),
        info(3, 'embedding', 2, 1),
      );
    default: {
      const [infos, dense, tables] = form === 'S6' ? [3, 4, 5] : [2, 3, 4];
      const table = tableEntry(tables as number, TABLE, repeated);
      const variables = [KERNEL, BIAS].map((tensor) => denseEntry(dense as number, tensor));
      return join(version, info(infos as number, 'embedding', 2, 1), ...variables, table);
    }
  }
}
