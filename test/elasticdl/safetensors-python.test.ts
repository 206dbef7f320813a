/** Exports as Python's safetensors and numpy read them. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Dtype,
  encodeShard,
  exportSafetensors,
  itemBytes,
  type ModelShard,
  shardFile,
  shardsInMemory,
} from '@holdfast/elasticdl';
import { beforeAll, expect, test } from 'vitest';
import { describeWithPython, runPython } from '../python/run-python.ts';

interface PythonTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly hex: string;
  readonly numpy?: { readonly dtype: string; readonly values: unknown };
}

interface PythonFile {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: Readonly<Record<string, PythonTensor>>;
  /** True if Python's library writes the same bytes. */
  readonly same: boolean;
}

/** The values 0 to 5 as float16, which some versions of Node do not support. */
const HALVES = [0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500];

/** The elements 0, 1, 2 and so on, up to 5. For booleans false and true alternate. */
const COUNTED: Readonly<Record<Dtype, { bytes: (count: number) => Uint8Array; name: string }>> = {
  bool: { bytes: (count) => Uint8Array.from({ length: count }, (_, at) => at % 2), name: 'BOOL' },
  int8: { bytes: (count) => bytesOf(Int8Array, count), name: 'I8' },
  int16: { bytes: (count) => bytesOf(Int16Array, count), name: 'I16' },
  int32: { bytes: (count) => bytesOf(Int32Array, count), name: 'I32' },
  int64: {
    bytes: (count) => new Uint8Array(BigInt64Array.from({ length: count }, (_, at) => BigInt(at)).buffer),
    name: 'I64',
  },
  uint8: { bytes: (count) => bytesOf(Uint8Array, count), name: 'U8' },
  uint16: { bytes: (count) => bytesOf(Uint16Array, count), name: 'U16' },
  float16: { bytes: (count) => new Uint8Array(Uint16Array.from(HALVES.slice(0, count)).buffer), name: 'F16' },
  bfloat16: { bytes: (count) => highHalves(bytesOf(Float32Array, count)), name: 'BF16' },
  float32: { bytes: (count) => bytesOf(Float32Array, count), name: 'F32' },
  float64: { bytes: (count) => bytesOf(Float64Array, count), name: 'F64' },
};
const DTYPES = Object.keys(COUNTED) as Dtype[];

/** An array type. */
interface Numbers {
  from(elements: readonly number[]): { readonly buffer: ArrayBuffer };
}

function bytesOf(type: Numbers, count: number): Uint8Array {
  return new Uint8Array(type.from([...Array(count).keys()]).buffer);
}

/** A bfloat16 is a float32 without its lower half. */
function highHalves(floats: Uint8Array): Uint8Array {
  return floats.filter((_, at) => at % 4 >= 2);
}

const IDS = [4n, -(2n ** 63n), 2n ** 63n - 1n];

/** All types in variables and in tables, a table without rows, a scalar, and unusual names. */
function everything(): ModelShard {
  const rows = (dtype: Dtype, ids: readonly bigint[]) => {
    const values = COUNTED[dtype].bytes(2 * ids.length);
    return { dtype, dim: 2, ids: BigInt64Array.from(ids), values };
  };
  const variable = (dtype: Dtype, shape: readonly number[]) => {
    const data = COUNTED[dtype].bytes(shape.reduce((product, size) => product * size, 1));
    return { dtype, shape, data };
  };
  const names = [...DTYPES.map((dtype) => `sparse/${dtype}`), ...DTYPES.map((dtype) => `dense/${dtype}`)];
  return {
    version: 41,
    infos: [...names, 'empty'].map((name) => ({
      name,
      dim: 2,
      initializer: 'uniform',
      dtype: (name.split('/')[1] ?? 'float32') as Dtype,
    })),
    dense: new Map([
      ...DTYPES.map((dtype) => [`variable/${dtype}:0`, variable(dtype, [2, 3])] as const),
      ['scalar', variable('int16', [])],
      ['nothing', variable('float64', [3, 0])],
      ['7', variable('float32', [1])],
      ['嵌入 "\u{1F600}"\n', variable('float32', [2])],
    ]),
    tables: new Map(
      names.map((name) => {
        const [kind, dtype] = name.split('/') as [string, Dtype];
        return [name, rows(dtype, kind === 'dense' ? [3n, 0n] : IDS)] as const;
      }),
    ),
  };
}

/** ElasticDL's own test of its export: the sum of the products is 3 for id 0. */
const ONES: ModelShard = {
  version: 100,
  infos: [{ name: 'embedding', dim: 2, initializer: 'random_uniform', dtype: null }],
  dense: new Map([
    ['dense/kernel:0', { dtype: 'int32', shape: [2, 1], data: new Uint8Array(Int32Array.of(1, 1).buffer) }],
    ['dense/bias:0', { dtype: 'int32', shape: [1], data: new Uint8Array(Int32Array.of(1).buffer) }],
  ]),
  tables: new Map([
    [
      'embedding',
      {
        dtype: 'int64',
        dim: 2,
        ids: BigInt64Array.of(0n, 1n, 2n, 3n),
        values: new Uint8Array(new BigInt64Array(8).fill(1n).buffer),
      },
    ],
  ]),
};

describeWithPython('what is exported, to Python', () => {
  let all: PythonFile;
  let ones: PythonFile;

  beforeAll(async () => {
    const root = await mkdtemp(join(tmpdir(), 'holdfast-safetensors-'));
    try {
      const paths = [join(root, 'all.safetensors'), join(root, 'ones.safetensors')] as const;
      const set = (shard: ModelShard, form: 'S4' | 'S7') =>
        shardsInMemory({ [shardFile(0, 1)]: Buffer.concat([...encodeShard(shard, form).chunks()]) });
      const rowCounts = Object.fromEntries(DTYPES.map((dtype) => [`dense/${dtype}`, 5]));
      await exportSafetensors(set(everything(), 'S7'), paths[0], { rowCounts });
      await exportSafetensors(set(ONES, 'S4'), paths[1], { tables: 'dense', rowCount: 5 });
      const script = new URL('./safetensors-load.py', import.meta.url);
      [all, ones] = JSON.parse(await runPython(script, paths));
    } finally {
      await rm(root, { recursive: true });
    }
  }, 60_000);

  test('it loads: the metadata, every tensor by its name, in the order in which the library writes them', () => {
    expect(all.metadata['version']).toBe('41');
    expect(JSON.parse(all.metadata['tables']!)).toHaveLength(2 * DTYPES.length + 1);
    expect(Object.keys(all.tensors).toSorted()).toEqual(
      [
        ...DTYPES.flatMap((dtype) => [`variable/${dtype}:0`, `dense/${dtype}`]),
        ...DTYPES.flatMap((dtype) => [`sparse/${dtype}.ids`, `sparse/${dtype}.values`]),
        ...['scalar', 'nothing', '7', '嵌入 "\u{1F600}"\n', 'empty.ids', 'empty.values'],
      ].toSorted(),
    );
    expect([all.same, ones.same]).toEqual([true, true]);
  });

  test.each(DTYPES)('%s: type, shape and elements', (dtype) => {
    const { bytes, name } = COUNTED[dtype];
    const hex = (data: Uint8Array) => Buffer.from(data).toString('hex');
    const variable = all.tensors[`variable/${dtype}:0`]!;
    expect(variable).toMatchObject({ dtype: name, shape: [2, 3], hex: hex(bytes(6)) });
    const values = all.tensors[`sparse/${dtype}.values`]!;
    expect(values).toMatchObject({ dtype: name, shape: [3, 2], hex: hex(bytes(6)) });
    const dense = all.tensors[`dense/${dtype}`]!;
    const zeros = hex(new Uint8Array(2 * itemBytes(dtype)));
    const [row3, row0] = [hex(bytes(4)).slice(0, zeros.length), hex(bytes(4)).slice(zeros.length)];
    expect(dense).toMatchObject({ dtype: name, shape: [5, 2], hex: row0 + zeros + zeros + row3 + zeros });
    if (dtype === 'bfloat16') return; // numpy does not support it
    const counted = dtype === 'bool' ? [false, true, false, true, false, true] : [0, 1, 2, 3, 4, 5];
    const [a, b, c, d, e, f] = counted;
    expect(variable.numpy).toEqual({
      dtype,
      values: [
        [a, b, c],
        [d, e, f],
      ],
    });
    const zero = counted[0];
    expect(dense.numpy?.values).toEqual([
      [c, d],
      [zero, zero],
      [zero, zero],
      [a, b],
      [zero, zero],
    ]);
  });

  test('ids of 64 bits are not rounded', () => {
    const { dtype, shape, hex } = all.tensors['sparse/float32.ids']!;
    expect({ dtype, shape }).toEqual({ dtype: 'I64', shape: [3] });
    const bytes = Uint8Array.from(Buffer.from(hex, 'hex'));
    expect([...new BigInt64Array(bytes.buffer)]).toEqual(IDS);
  });

  test('what has no elements, or no dimensions, keeps its shape', () => {
    expect(all.tensors['scalar']).toMatchObject({ dtype: 'I16', shape: [], numpy: { values: 0 } });
    expect(all.tensors['nothing']).toMatchObject({ dtype: 'F64', shape: [3, 0], hex: '' });
    expect(all.tensors['empty.ids']).toMatchObject({ dtype: 'I64', shape: [0] });
    expect(all.tensors['empty.values']).toMatchObject({ dtype: 'F32', shape: [0, 2] });
  });

  test('A15: the model of all ones gives 3.0 for id 0, and the row of a missing id is zeros', () => {
    const valuesOf = (name: string) => ones.tensors[name]!.numpy!.values;
    const table = valuesOf('embedding') as number[][];
    const kernel = valuesOf('dense/kernel:0') as number[][];
    const [bias = Number.NaN] = valuesOf('dense/bias:0') as number[];
    const predict = (id: number) =>
      table[id]!.reduce((sum, element, at) => sum + element * kernel[at]![0]!, bias);
    expect([0, 1, 2, 3, 4].map(predict)).toEqual([3, 3, 3, 3, 1]);
  });
});
