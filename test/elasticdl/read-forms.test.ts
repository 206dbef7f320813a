/** Every form of ElasticDL's files, recognised by content. */

import { decodeShard, encodeShard, type ModelShard, readShardLayout } from '@holdfast/elasticdl';
import { describe, expect, test } from 'vitest';
import {
  BIAS,
  type Bytes,
  block,
  branchTensor,
  denseEntry,
  FORMS,
  floats,
  info,
  int,
  join,
  KERNEL,
  listTensor,
  mapTensor,
  mixed,
  packed,
  TABLE,
  tableEntry,
  tensorProto,
  unpacked,
  varint,
  writtenShard,
} from './written-shards.ts';

const EMPTY = new Uint8Array(0);
const ONE = floats(1);

function layoutOf(bytes: Bytes, options = {}) {
  const source = {
    sizeBytes: bytes.byteLength,
    readInto: async (offset: number, buffer: Uint8Array) =>
      buffer.set(bytes.subarray(offset, offset + buffer.byteLength)),
    assertUnchanged: async () => undefined,
    close: async () => undefined,
  };
  return readShardLayout(source, { name: 'shard', ...options });
}

/** Maps and arrays as plain values. */
function plain({ version, infos, dense, tables }: ModelShard) {
  return {
    version,
    infos,
    dense: [...dense].map(([name, { dtype, shape, data }]) => [name, dtype, shape, [...data]]),
    tables: [...tables].map(([name, { dtype, dim, ids, values }]) => [
      name,
      dtype,
      dim,
      [...ids],
      [...values],
    ]),
  };
}

describe('the real files', () => {
  test('A3: the 185 bytes of the functional model of November 2019, byte for byte again', async () => {
    const ones = '0100000000000000'.repeat(8);
    const bytes = Buffer.from(
      `08641220${Buffer.from('\n\x0edense/kernel:0').toString('hex')}120202011a0801000000010000002803` +
        `1219${Buffer.from('\n\x0cdense/bias:0').toString('hex')}1201011a04010000002803` +
        `1259${Buffer.from('\n\x09embedding').toString('hex')}120204021a40${ones}2204000102032804` +
        `1a1d${Buffer.from('\n\x09embedding').toString('hex')}1002${Buffer.from('\x1a\x0erandom_uniform').toString('hex')}`,
      'hex',
    );
    expect(bytes.byteLength).toBe(185);
    expect(await layoutOf(bytes)).toMatchObject({ form: 'S4', numbering: 'elasticdl' });
    const shard = await decodeShard(bytes);
    expect(plain(shard)).toEqual({
      version: 100,
      infos: [{ name: 'embedding', dim: 2, initializer: 'random_uniform', dtype: null }],
      dense: [
        ['dense/kernel:0', 'int32', [2, 1], [1, 0, 0, 0, 1, 0, 0, 0]],
        ['dense/bias:0', 'int32', [1], [1, 0, 0, 0]],
      ],
      tables: [['embedding', 'int64', 2, [0n, 1n, 2n, 3n], [...Buffer.from(ones, 'hex')]]],
    });
    expect(Buffer.concat([...encodeShard(shard, 'S4').chunks()]).equals(bytes)).toBe(true);
  });

  test('A3: the 153 bytes of February 2020: the same fields, and type 1 is float32', async () => {
    const bytes = join(
      int(1, 100),
      listTensor({ ...KERNEL, content: floats(1, 1) }),
      listTensor({ ...BIAS, content: ONE }),
      listTensor({ ...TABLE, content: floats(1, 1, 1, 1, 1, 1, 1, 1), ids: [0, 1, 2, 3] }),
      block(3, join(block(1, 'embedding'), int(2, 2), block(3, 'random_uniform'))),
    );
    expect(bytes.byteLength).toBe(153);
    expect(await layoutOf(bytes)).toMatchObject({ form: 'S5', numbering: 'tensorflow' });
    const { dense, tables } = await decodeShard(bytes);
    expect([...dense.values()].map(({ dtype }) => dtype)).toEqual(['float32', 'float32']);
    expect(tables.get('embedding')).toMatchObject({
      dtype: 'float32',
      ids: BigInt64Array.of(0n, 1n, 2n, 3n),
    });
    expect(Buffer.from(tables.get('embedding')!.values)).toEqual(Buffer.from(floats(1, 1, 1, 1, 1, 1, 1, 1)));
  });

  test('the 178 bytes of the last form', async () => {
    const bytes = Buffer.from(
      '0864121f0a09656d62656464696e6710021a0e72616e646f6d5f756e69666f726d20011a1e0a0c64656e73652f626961733a30120e08' +
        '0112041202080122040000803f1a280a0e64656e73652f6b65726e656c3a30121608011208120208021202080122080000803f0000803f' +
        `22430a09656d62656464696e6712360a2e080112081202080412020802222000${'00803f00'.repeat(7)}00803f120400010203`,
      'hex',
    );
    expect(bytes.byteLength).toBe(178);
    expect(await layoutOf(bytes)).toMatchObject({ form: 'S7', numbering: 'tensorflow' });
    const shard = await decodeShard(bytes);
    expect(plain(shard)).toMatchObject({
      version: 100,
      infos: [{ name: 'embedding', dim: 2, initializer: 'random_uniform', dtype: 'float32' }],
      dense: [
        ['dense/bias:0', 'float32', [1], [...ONE]],
        ['dense/kernel:0', 'float32', [2, 1], [...ONE, ...ONE]],
      ],
      tables: [['embedding', 'float32', 2, [0n, 1n, 2n, 3n], [...floats(1, 1, 1, 1, 1, 1, 1, 1)]]],
    });
    expect(Buffer.concat([...encodeShard(shard, 'S7').chunks()]).equals(bytes)).toBe(true);
  });
});

describe.each(FORMS)('%s', (form) => {
  const expected = {
    version: 100,
    infos: /S[4-7]/.test(form)
      ? [{ name: 'embedding', dim: 2, initializer: 'uniform', dtype: form === 'S4' ? null : 'float32' }]
      : [],
    dense: [
      ['dense/kernel:0', 'float32', [2, 1], [...KERNEL.content]],
      ['dense/bias:0', 'float32', [1], [...BIAS.content]],
    ],
    tables:
      form === 'S0' ? [] : [['embedding', 'float32', 2, [300n, -1n, 7n, 2n ** 31n - 1n], [...TABLE.content]]],
  };

  test.each([
    ['packed', packed],
    ['unpacked', unpacked],
    ['packed and unpacked in turn', mixed],
  ])('numbers %s: the same model, and the form is known', async (_, repeated) => {
    const bytes = writtenShard(form, repeated);
    expect((await layoutOf(bytes)).form).toBe(form);
    expect(plain(await decodeShard(bytes))).toEqual(expected);
  });

  test('values are views on the bytes', async () => {
    const bytes = writtenShard(form);
    const { dense, tables } = await decodeShard(bytes);
    const all = [...dense.values()]
      .map(({ data }) => data)
      .concat([...tables.values()].map(({ values }) => values));
    for (const view of all) expect(view.buffer).toBe(bytes.buffer);
  });

  test('fields that no form has are passed over, and a missing version is 0', async () => {
    const fixed64 = join(varint((22 << 3) | 1), new Uint8Array(8));
    const foreign = join(block(20, 'text'), int(21, 7), int(21, 8), fixed64);
    const bytes = join(writtenShard(form).subarray(int(1, 100).byteLength), foreign);
    expect(plain(await decodeShard(bytes))).toEqual({ ...expected, version: 0 });
  });
});

describe('the model', () => {
  test.each([0, 1, -1, -(2 ** 31), 2 ** 31 - 1])('version %i', async (version) => {
    expect((await layoutOf(int(1, version))).version).toBe(version);
  });

  test('a file of no bytes is a shard of nothing', async () => {
    expect(await layoutOf(EMPTY)).toMatchObject({
      version: 0,
      infos: [],
      dense: [],
      tables: [],
      numbering: null,
    });
  });

  test('the rate of learning that one day of March 2020 wrote is passed over', async () => {
    const rate = join(Uint8Array.of((5 << 3) | 5), ONE);
    expect((await layoutOf(join(writtenShard('S7'), rate))).tables).toHaveLength(1);
  });

  test('the list of tensors may stand beside the maps, as it could when they came', async () => {
    const bytes = join(
      listTensor(KERNEL),
      info(3, 'embedding', 2, 1),
      denseEntry(4, BIAS),
      tableEntry(5, TABLE),
    );
    const { form, dense, tables } = await layoutOf(bytes);
    expect([form, dense.map(({ name }) => name), tables.length]).toEqual(['S6', [KERNEL.name, BIAS.name], 1]);
  });

  test('entries of maps may have the value before the key', async () => {
    const swapped = (field: number, value: Bytes) => block(field, join(block(2, value), block(1, BIAS.name)));
    const own = join(packed(1, [1]), block(2, BIAS.content));
    expect((await layoutOf(swapped(2, own))).dense).toMatchObject([{ name: BIAS.name, shape: [1] }]);
    const proto = join(block(4, BIAS.content), block(2, block(2, int(1, 1))), int(1, 1));
    expect((await layoutOf(swapped(3, proto))).dense).toMatchObject([{ name: BIAS.name, shape: [1] }]);
    const slices = join(packed(2, [8]), block(1, tensorProto({ dtype: 1, shape: [1, 1], content: ONE })));
    const bytes = join(swapped(4, slices), info(2, BIAS.name, 1));
    expect((await layoutOf(bytes)).tables).toMatchObject([{ name: BIAS.name, rowCount: 1 }]);
  });

  test('the first of two infos with one name holds', async () => {
    const bytes = join(info(2, 'a', 2, 1), info(2, 'a', 3, 2));
    expect((await layoutOf(bytes)).infos).toMatchObject([{ name: 'a', dim: 2, dtype: 'float32' }]);
  });

  test('names: empty, of other scripts, with a byte order mark', async () => {
    const names = ['', '嵌入', '\uFEFFa'];
    const bytes = join(...names.map((name) => denseEntry(3, { ...BIAS, name })));
    expect((await layoutOf(bytes)).dense.map(({ name }) => name)).toEqual(names);
  });
});

describe('tensors', () => {
  test('scalars, in every form: no dimensions and one element', async () => {
    const scalar = { ...BIAS, shape: [] };
    const written = [mapTensor({ ...scalar, dtype: 0 }), branchTensor({ ...scalar, dtype: 6 })];
    for (const bytes of [...written, listTensor(scalar), denseEntry(4, scalar), denseEntry(3, scalar)]) {
      expect((await layoutOf(bytes)).dense).toMatchObject([{ shape: [], dtype: 'float32' }]);
    }
  });

  test('without elements', async () => {
    const nothing = { ...KERNEL, shape: [0, 3], content: EMPTY };
    for (const bytes of [listTensor(nothing), denseEntry(3, nothing)]) {
      expect((await layoutOf(bytes)).dense).toMatchObject([{ shape: [0, 3] }]);
    }
  });

  test.each([
    [1, 4, 'tensorflow', 'float32'],
    [1, 1, 'elasticdl', 'int8'],
    [2, 8, 'tensorflow', 'float64'],
    [2, 2, 'elasticdl', 'int16'],
    [3, 4, null, 'int32'],
    [4, 1, 'tensorflow', 'uint8'],
    [4, 8, 'elasticdl', 'int64'],
    [6, 1, 'tensorflow', 'int8'],
    [6, 4, 'elasticdl', 'float32'],
    [7, 8, 'elasticdl', 'float64'],
    [8, 1, 'elasticdl', 'bool'],
    [9, 8, 'tensorflow', 'int64'],
    [10, 1, 'tensorflow', 'bool'],
    [14, 2, 'tensorflow', 'bfloat16'],
    [17, 2, 'tensorflow', 'uint16'],
    [19, 2, 'tensorflow', 'float16'],
  ])('type %i with elements of %i bytes is by the numbers of %s %s', async (dtype, size, numbering, name) => {
    const bytes = listTensor({ name: 'a', dtype, shape: [3], content: new Uint8Array(3 * size) });
    expect(await layoutOf(bytes)).toMatchObject({ numbering, dense: [{ dtype: name }] });
  });

  test('type 5 with two bytes: another tensor tells, or the caller', async () => {
    const open = listTensor({ name: 'a', dtype: 5, shape: [1], content: new Uint8Array(2) });
    const own = await layoutOf(join(open, listTensor({ ...BIAS, dtype: 6 })));
    expect(own.dense[0]).toMatchObject({ dtype: 'float16' });
    expect((await layoutOf(join(open, listTensor(BIAS)))).dense[0]).toMatchObject({ dtype: 'int16' });
    expect((await layoutOf(open, { numbering: 'elasticdl' })).dense[0]).toMatchObject({ dtype: 'float16' });
    expect((await layoutOf(open, { numbering: 'tensorflow' })).dense[0]).toMatchObject({ dtype: 'int16' });
  });
});

describe('tables', () => {
  const noRows = { name: 'e', dtype: 2, shape: [0], content: EMPTY };

  test('without rows: the info tells type and dim, as the values came from numpy', async () => {
    const expected = { name: 'e', dim: 3, dtype: 'float16', rowCount: 0, ids: [] };
    for (const bytes of [
      join(listTensor(noRows), info(3, 'e', 3, 19)),
      join(tableEntry(5, noRows), info(3, 'e', 3, 19)),
      join(tableEntry(4, noRows), info(2, 'e', 3, 19)),
      join(block(4, join(block(1, 'e'), block(2, EMPTY))), info(2, 'e', 3, 19)),
    ]) {
      expect((await layoutOf(bytes)).tables).toMatchObject([expected]);
    }
  });

  test('without rows: the shape [0, dim] of the servers in Go', async () => {
    const bytes = join(tableEntry(4, { ...noRows, dtype: 1, shape: [0, 3] }), info(2, 'e', 3));
    expect((await layoutOf(bytes)).tables).toMatchObject([{ dim: 3, dtype: 'float32', rowCount: 0 }]);
  });

  test('without rows and without info', async () => {
    expect((await layoutOf(tableEntry(4, noRows))).tables).toMatchObject([{ dim: 0, dtype: 'float32' }]);
  });

  test('an info with dim 0 says nothing', async () => {
    const bytes = join(tableEntry(4, TABLE), block(2, block(1, TABLE.name)));
    expect((await layoutOf(bytes)).tables).toMatchObject([{ dim: 2, rowCount: 4 }]);
  });

  test('ids of 64 bits, in any order; the later row of a duplicate id stays', async () => {
    const ids = [2n ** 63n - 1n, -(2n ** 63n), 5, 2n ** 53n + 1n, 5, -3];
    const values = floats(0, 1, 2, 3, 4, 5);
    const bytes = join(
      info(2, 'e', 1),
      tableEntry(4, { name: 'e', dtype: 1, shape: [6, 1], content: values, ids }),
    );
    const { tables } = await decodeShard(bytes);
    expect([...tables.get('e')!.ids]).toEqual([2n ** 63n - 1n, -(2n ** 63n), 2n ** 53n + 1n, 5n, -3n]);
    expect([...tables.get('e')!.values]).toEqual([...floats(0, 1, 3, 4, 5)]);
  });
});
