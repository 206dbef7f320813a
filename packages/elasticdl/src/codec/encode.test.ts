import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import type { WrittenForm } from '../layout.ts';
import type { Dtype, EmbeddingRows, ModelShard, TableInfo, Tensor } from '../model.ts';
import { decodeShard } from './decode.ts';
import { encodeShard } from './encode.ts';

const NOTHING: ModelShard = { version: 0, infos: [], dense: new Map(), tables: new Map() };

function bytesOf(shard: ModelShard, form?: WrittenForm): Buffer {
  const encoded = encodeShard(shard, form);
  const bytes = Buffer.concat([...encoded.chunks()]);
  expect(encoded.sizeBytes).toBe(bytes.length);
  return bytes;
}

function raw(array: ArrayBufferView): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
}

function ids(...values: number[]): BigInt64Array {
  return BigInt64Array.from(values, BigInt);
}

function info(name: string, dim: number, initializer = '', dtype: Dtype | null = null): TableInfo {
  return { name, dim, initializer, dtype };
}

/** A dense variable of zeros. */
function zeros(dtype: Dtype, shape: readonly number[], bytes: number): Tensor {
  return { dtype, shape, data: new Uint8Array(bytes) };
}

const ONES_OF_S4: ModelShard = {
  version: 100,
  infos: [info('embedding', 2, 'random_uniform')],
  dense: new Map([
    ['dense/kernel:0', { dtype: 'int32', shape: [2, 1], data: raw(Int32Array.of(1, 1)) }],
    ['dense/bias:0', { dtype: 'int32', shape: [1], data: raw(Int32Array.of(1)) }],
  ]),
  tables: new Map([
    [
      'embedding',
      { dtype: 'int64', dim: 2, ids: ids(0, 1, 2, 3), values: raw(new BigInt64Array(8).fill(1n)) },
    ],
  ]),
};

const ONES_OF_S7: ModelShard = {
  version: 100,
  infos: [info('embedding', 2, 'random_uniform', 'float32')],
  dense: new Map([
    ['dense/kernel:0', { dtype: 'float32', shape: [2, 1], data: raw(Float32Array.of(1, 1)) }],
    ['dense/bias:0', { dtype: 'float32', shape: [1], data: raw(Float32Array.of(1)) }],
  ]),
  tables: new Map([
    [
      'embedding',
      { dtype: 'float32', dim: 2, ids: ids(0, 1, 2, 3), values: raw(new Float32Array(8).fill(1)) },
    ],
  ]),
};

function hexOf(text: string): string {
  return Buffer.from(text, 'utf8').toString('hex');
}

describe('the files that ElasticDL wrote, to the byte', () => {
  test('S4: 185 bytes, which are the same when they have been read', async () => {
    const expected = [
      '0864',
      `12200a0e${hexOf('dense/kernel:0')}120202011a0801000000010000002803`,
      `12190a0c${hexOf('dense/bias:0')}1201011a04010000002803`,
      `12590a09${hexOf('embedding')}120204021a40${'0100000000000000'.repeat(8)}2204000102032804`,
      `1a1d0a09${hexOf('embedding')}10021a0e${hexOf('random_uniform')}`,
    ];
    const bytes = bytesOf(ONES_OF_S4, 'S4');
    expect(bytes.toString('hex')).toBe(expected.join(''));
    expect(bytes.length).toBe(185);
    expect(bytesOf(await decodeShard(bytes), 'S4')).toEqual(bytes);
  });

  test('S7, which is the default: 178 bytes, with maps in the order of their keys; the same when read', async () => {
    const expected = [
      '0864',
      `121f0a09${hexOf('embedding')}10021a0e${hexOf('random_uniform')}2001`,
      `1a1e0a0c${hexOf('dense/bias:0')}120e080112041202080122040000803f`,
      `1a280a0e${hexOf('dense/kernel:0')}121608011208120208021202080122080000803f0000803f`,
      `22430a09${hexOf('embedding')}12360a2e0801120812020804120208022220${'0000803f'.repeat(8)}120400010203`,
    ];
    const bytes = bytesOf(ONES_OF_S7);
    expect(bytes.toString('hex')).toBe(expected.join(''));
    expect(bytes.length).toBe(178);
    expect(bytesOf(await decodeShard(bytes))).toEqual(bytes);
  });
});

describe('what proto3 leaves out', () => {
  test('a model of nothing has no bytes', () => {
    expect(bytesOf(NOTHING).length).toBe(0);
    expect([...encodeShard(NOTHING, 'S4').chunks()]).toEqual([]);
  });

  test('a negative version takes ten bytes', () => {
    expect(bytesOf({ ...NOTHING, version: -1 }).toString('hex')).toBe(`08${'ff'.repeat(9)}01`);
  });

  test('a scalar has no shape, a variable without elements no content, and both have their types', () => {
    const dense = new Map([
      ['e', zeros('int8', [0, 3], 0)],
      ['s', zeros('bool', [], 1)],
    ]);
    expect(bytesOf({ ...NOTHING, dense }).toString('hex')).toBe(
      [`1a0f0a0165120a0806120612001202 0803`.replace(' ', ''), `1a0a0a01731205080a220100`].join(''),
    );
  });

  test('a table without rows has its shape in S7, and in S4 only its info', () => {
    const empty: EmbeddingRows = { dtype: 'float32', dim: 2, ids: ids(), values: new Uint8Array(0) };
    const shard = { ...NOTHING, infos: [info('t', 2)], tables: new Map([['t', empty]]) };
    expect(bytesOf(shard).toString('hex')).toBe('12050a0174100222110a0174120c0a0a08011206120012020802');
    expect(bytesOf(shard, 'S4').toString('hex')).toBe('1a050a01741002');
  });

  test('the empty name is written where it is the key of a map', () => {
    const shard = { ...NOTHING, dense: new Map([['', zeros('int8', [1], 1)]]) };
    expect(bytesOf(shard).toString('hex')).toBe('1a0f0a00120b0806120412020801220100');
    expect(bytesOf(shard, 'S4').toString('hex')).toBe('12081201011a01002801');
  });
});

test('maps are in the order of UTF-8, in which a surrogate pair comes last', () => {
  const names = ['\u{10000}', '\uffff', 'b', 'a', 'aa', 'é'];
  const dense = new Map(names.map((name) => [name, zeros('int8', [1], 1)]));
  const bytes = bytesOf({ ...NOTHING, dense });
  const places = ['a', 'aa', 'b', 'é', '\uffff', '\u{10000}'].map((name) =>
    bytes.indexOf(Buffer.concat([Buffer.of(Buffer.byteLength(name)), Buffer.from(name), Buffer.of(0x12)])),
  );
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  expect(places[0]).toBeGreaterThan(0);
});

describe('chunks', () => {
  test('elements and rows are the memory of the shard, and each call begins anew', () => {
    const encoded = encodeShard(ONES_OF_S7);
    const chunks = [...encoded.chunks()];
    expect(chunks).toContain(ONES_OF_S7.dense.get('dense/bias:0')?.data);
    expect(chunks).toContain(ONES_OF_S7.tables.get('embedding')?.values);
    expect(Buffer.concat([...encoded.chunks()])).toEqual(Buffer.concat(chunks));
  });

  test('ids come in pieces of less than 1 MiB', () => {
    const many = new BigInt64Array(200_000).fill(-1n);
    const values = new Uint8Array(many.length);
    const shard = {
      ...NOTHING,
      infos: [info('t', 1)],
      tables: new Map([['t', { dtype: 'int8' as const, dim: 1, ids: many, values }]]),
    };
    const chunks = [...encodeShard(shard).chunks()].filter((chunk) => chunk !== values);
    expect(Math.max(...chunks.map((chunk) => chunk.length))).toBeLessThan(2 ** 20);
    expect(chunks.reduce((sum, chunk) => sum + chunk.length, 0)).toBeGreaterThan(2_000_000);
  });
});

describe('what contradicts itself is InvalidArgument, and so is what the form cannot hold', () => {
  const rows: EmbeddingRows = { dtype: 'float32', dim: 2, ids: ids(1, 2), values: new Uint8Array(16) };
  const withTable = (change: Partial<EmbeddingRows>, infos = [info('t', 2)]): Partial<ModelShard> => ({
    infos,
    tables: new Map([['t', { ...rows, ...change }]]),
  });
  const withDense = (tensor: Tensor, name = 'v'): Partial<ModelShard> => ({
    dense: new Map([[name, tensor]]),
  });

  test.each<[string, Partial<ModelShard>, WrittenForm, string]>([
    ['version', { version: 2 ** 31 }, 'S7', 'version of the shard: expected an integer from -2147483648'],
    ['fraction', { version: 1.5 }, 'S7', 'found 1.5'],
    [
      'too few elements',
      withDense(zeros('float32', [2, 3], 20)),
      'S7',
      'elements of variable "v": expected 24 bytes for float32 [2, 3], found 20',
    ],
    [
      'rows of another count',
      withTable({ values: new Uint8Array(24) }),
      'S7',
      'rows of table "t": expected 16 bytes for 2 ids with 2 × float32 each, found 24',
    ],
    ['no info', withTable({}, []), 'S7', 'table "t": expected an info with rows of 2 elements, found none'],
    [
      'another dim in the info',
      withTable({}, [info('t', 3)]),
      'S7',
      'table "t": expected an info with rows of 2 elements, found one with rows of 3',
    ],
    [
      'no rows and no info, in S4',
      withTable({ ids: ids(), values: new Uint8Array(0) }, []),
      'S4',
      'table "t": expected an info with rows of 2 elements, found none',
    ],
    [
      'one name for two',
      {
        ...withTable({ ids: new BigInt64Array(), values: new Uint8Array() }, []),
        ...withDense(zeros('int8', [1], 1), 't'),
      },
      'S7',
      'table "t": expected a name of its own, found one that is there already',
    ],
    [
      'two infos',
      { infos: [info('t', 2), info('t', 2)] },
      'S7',
      'info of table "t": expected a name of its own',
    ],
    [
      'dim of an info',
      { infos: [info('t', -1)] },
      'S7',
      'dim of info of table "t": expected an integer from 0',
    ],
    [
      'half a name',
      withDense(zeros('int8', [1], 1), 'a\ud800'),
      'S7',
      'name of variable "a\\ud800": expected Unicode, found half a surrogate pair',
    ],
    [
      'half an initializer',
      { infos: [info('t', 1, '\udc00')] },
      'S7',
      'initializer of table "t": expected Unicode',
    ],
    [
      'fraction of an element',
      withDense(zeros('float32', [1.5], 6)),
      'S7',
      'shape of variable "v": expected an',
    ],
    ['scalar in S4', withDense(zeros('int8', [], 1)), 'S4', 'variable "v" is a scalar'],
    [
      'type that S4 has no number for',
      withDense(zeros('bfloat16', [1], 2)),
      'S4',
      'variable "v" is of type bfloat16, for which the form S4 has no number',
    ],
    [
      'the same for a table',
      withTable({ dtype: 'uint8', values: new Uint8Array(4) }),
      'S4',
      'table "t" is of type uint8, for which the form S4 has no number',
    ],
    [
      'dense variable with the name of a table',
      { infos: [info('v', 1)], ...withDense(zeros('int8', [1], 1)) },
      'S7',
      'variable "v": expected no info of a table of its name',
    ],
    [
      'rows without an element',
      withTable({ dim: 0, values: new Uint8Array() }, [info('t', 0)]),
      'S7',
      'table "t": expected rows of at least 1 element, found 2 rows of none',
    ],
    [
      'name that is too long to be read back',
      { infos: [info('é'.repeat(32_769), 1)] },
      'S7',
      'expected at most 65536 bytes of UTF-8, found 65538',
    ],
    [
      'initializer that is too long to be read back',
      { infos: [info('t', 1, 'u'.repeat(4097))] },
      'S4',
      'initializer of table "t": expected at most 4096 bytes of UTF-8, found 4097',
    ],
    [
      'more dimensions than are read',
      withDense(zeros('int8', Array(255).fill(1), 1)),
      'S7',
      'shape of variable "v": expected at most 254 dimensions, found 255',
    ],
  ])('%s', (_what, change, form, message) => {
    try {
      encodeShard({ ...NOTHING, ...change }, form);
      expect.unreachable();
    } catch (error) {
      expect(isCheckpointError(error, 'InvalidArgument'), String(error)).toBe(true);
      expect(String(error)).toContain(message);
    }
  });
});
