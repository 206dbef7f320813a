/** Random models that a form can hold, and the same models for Python. */

import type {
  Dtype,
  DtypeNumbering,
  EmbeddingRows,
  Form,
  ModelShard,
  TableInfo,
  Tensor,
} from '@holdfast/elasticdl';
import { itemBytes } from '@holdfast/elasticdl';
import fc from 'fast-check';

const SEED = 20_191_125;

// From the tables of ElasticDL and TensorFlow, independent of the code under test.
const NUMBERS: Readonly<Record<DtypeNumbering, Partial<Record<Dtype, number>>>> = {
  elasticdl: { int8: 1, int16: 2, int32: 3, int64: 4, float16: 5, float32: 6, float64: 7, bool: 8 },
  tensorflow: {
    float32: 1,
    float64: 2,
    int32: 3,
    uint8: 4,
    int16: 5,
    int8: 6,
    int64: 9,
    bool: 10,
    bfloat16: 14,
    uint16: 17,
    float16: 19,
  },
};

const AGES: readonly Form[] = ['S0', 'S1', 'S2', 'S2a', 'S3', 'S4', 'S5', 'S6', 'S7'];

function isSince(form: Form, first: Form): boolean {
  return AGES.indexOf(form) >= AGES.indexOf(first);
}

export function numberingOf(form: Form): DtypeNumbering {
  return isSince(form, 'S5') ? 'tensorflow' : 'elasticdl';
}

function dtypesOf(form: Form): Dtype[] {
  return isSince(form, 'S2') ? (Object.keys(NUMBERS[numberingOf(form)]) as Dtype[]) : ['float32'];
}

function bytes(length: number): fc.Arbitrary<Uint8Array> {
  return fc.uint8Array({ minLength: length, maxLength: length });
}

function tensors(form: Form): fc.Arbitrary<Tensor> {
  const shapes = fc.array(fc.integer({ min: 0, max: 3 }), {
    minLength: isSince(form, 'S6') ? 0 : 1,
    maxLength: 3,
  });
  return fc.tuple(fc.constantFrom(...dtypesOf(form)), shapes).chain(([dtype, shape]) => {
    const count = shape.reduce((product, size) => product * size, 1);
    return bytes(count * itemBytes(dtype)).map((data) => ({ dtype, shape, data }));
  });
}

function tables(form: Form): fc.Arbitrary<EmbeddingRows> {
  const bits = isSince(form, 'S4') ? 63n : 31n;
  const range = fc.bigInt(-(2n ** bits), 2n ** bits - 1n);
  const ids = fc.uniqueArray(fc.oneof(range, fc.bigInt(0n, 300n)), {
    minLength: isSince(form, 'S6') ? 0 : 1,
    maxLength: 6,
  });
  const dims = fc.integer({ min: 1, max: 4 });
  return fc.tuple(fc.constantFrom(...dtypesOf(form)), dims, ids).chain(([dtype, dim, list]) =>
    bytes(list.length * dim * itemBytes(dtype)).map((values) => ({
      dtype,
      dim,
      ids: BigInt64Array.from(list),
      values,
    })),
  );
}

function models(form: Form): fc.Arbitrary<ModelShard> {
  const names = fc.uniqueArray(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }), {
    minLength: 8,
    maxLength: 8,
  });
  const version = fc.oneof(fc.integer({ min: 0, max: 1000 }), fc.integer());
  const initializer = fc.constantFrom('', 'uniform', '零');
  const dense = fc.array(tensors(form), { maxLength: 4 });
  const rows = isSince(form, 'S1') ? fc.array(tables(form), { maxLength: 3 }) : fc.constant([]);
  return fc.tuple(names, version, dense, rows, initializer).map(([[other = '', ...own], ...rest]) => {
    const [number, variables, embeddings, starts] = rest;
    const tables = new Map(embeddings.map((table, i) => [own[i + 4] ?? '', table]));
    const infos = Array.from(tables, ([name, { dim, dtype }]) => ({ name, dim, initializer: starts, dtype }));
    const unseen = { name: other, dim: 7, initializer: starts, dtype: null };
    const model = {
      version: number,
      infos: [...infos, unseen],
      dense: new Map(variables.map((tensor, i) => [own[i] ?? '', tensor])),
      tables,
    };
    return heldByForm(model, form);
  });
}

/**
 * Returns the same models at each call. Forms before S6 get no scalars and no tables without rows.
 */
export function randomModels(form: Form, count: number): ModelShard[] {
  return fc.sample(models(form), { numRuns: count, seed: SEED });
}

/** Removes what the form cannot hold, and orders the rest as the form does. */
export function heldByForm(model: ModelShard, form: Form): ModelShard {
  const hasTypes = isSince(form, 'S5');
  const infos = isSince(form, 'S4')
    ? model.infos.map((info): TableInfo => ({ ...info, dtype: hasTypes ? info.dtype : null }))
    : [];
  return { ...model, infos, tables: isSince(form, 'S1') ? model.tables : new Map() };
}

const ROW_COUNT = 70_000;

/** More ids than are encoded at once. Half of them are negative. */
export const LARGE_MODEL: ModelShard = {
  version: 7,
  infos: [{ name: 't', dim: 1, initializer: 'uniform', dtype: 'float32' }],
  dense: new Map([['v', { dtype: 'float32', shape: [1, 2], data: new Uint8Array(8).fill(63) }]]),
  tables: new Map([
    [
      't',
      {
        dtype: 'float32',
        dim: 1,
        ids: BigInt64Array.from({ length: ROW_COUNT }, (_, i) =>
          BigInt(i * (i % 2 === 0 ? 30_011 : -30_011)),
        ),
        values: new Uint8Array(new Uint32Array(ROW_COUNT).map((_, i) => i).buffer),
      },
    ],
  ]),
};

function base64(array: ArrayBufferView): string {
  return Buffer.from(array.buffer, array.byteOffset, array.byteLength).toString('base64');
}

/** The input for `google-protobuf.py`. */
export function pythonCase(model: ModelShard, form: Form): unknown {
  const numbers = NUMBERS[numberingOf(form)];
  return {
    form,
    version: model.version,
    infos: model.infos.map((info) => ({ ...info, dtype: info.dtype === null ? 0 : numbers[info.dtype] })),
    dense: Array.from(model.dense, ([name, { dtype, shape, data }]) => {
      return { name, dtype: numbers[dtype], shape, data: base64(data) };
    }),
    tables: Array.from(model.tables, ([name, { dtype, dim, ids, values }]) => {
      return { name, dtype: numbers[dtype], dim, ids: base64(ids), values: base64(values) };
    }),
  };
}
