/** Random models as shards with any content, and the expected result of resharding them. */

import {
  type Dtype,
  type EmbeddingRows,
  encodeShard,
  intToId,
  itemBytes,
  type ModelShard,
  shardFile,
  stringToId,
  type Tensor,
  type WrittenForm,
} from '@holdfast/elasticdl';
import fc from 'fast-check';

const DTYPES_OF_S4: readonly Dtype[] = [
  'bool',
  'int8',
  'int16',
  'int32',
  'int64',
  'float16',
  'float32',
  'float64',
];
const DTYPES: Readonly<Record<WrittenForm, readonly Dtype[]>> = {
  S4: DTYPES_OF_S4,
  S7: [...DTYPES_OF_S4, 'uint8', 'uint16', 'bfloat16'],
};

// Small ids are few, so that some repeat. Large ids are of all kinds.
const ids = fc.array(
  fc.oneof(fc.bigInt({ min: -8n, max: 30n }), fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
  { maxLength: 40 },
);

const tableOf = (form: WrittenForm) =>
  fc.record({ dtype: fc.constantFrom(...DTYPES[form]), dim: fc.integer({ min: 1, max: 5 }) });

export interface RandomModel {
  readonly form: WrittenForm;
  readonly shards: readonly ModelShard[];
}

/** A model of 1 to 4 shards. Rows and variables are in random shards, some in more than one. */
export const randomModel: fc.Arbitrary<RandomModel> = fc
  .constantFrom<WrittenForm>('S4', 'S7')
  .chain((form) =>
    fc.record({
      form: fc.constant(form),
      version: fc.integer({ min: -1, max: 2 ** 31 - 1 }),
      tables: fc.array(tableOf(form), { maxLength: 3 }),
      variables: fc.array(fc.record({ name: fc.string({ maxLength: 6 }), of: fc.nat(3) }), { maxLength: 6 }),
      rows: fc.array(fc.array(ids, { minLength: 3, maxLength: 3 }), { minLength: 1, maxLength: 4 }),
    }),
  )
  .map(({ form, version, tables, variables, rows }) => {
    const infos = tables.map(({ dtype, dim }, at) => ({
      name: `table ${at}`,
      dim,
      initializer: 'uniform',
      dtype: form === 'S4' ? null : dtype,
    }));
    let counter = 0;
    const elements = (dtype: Dtype, count: number) =>
      Uint8Array.from({ length: count * itemBytes(dtype) }, () => counter++ % 251);
    const shards = rows.map((idsOfShard, index): ModelShard => {
      const dense = variables
        .filter(({ of }) => of % rows.length === index || of === 3)
        .map(({ name }): [string, Tensor] => [
          `v${name}`,
          { dtype: 'float32', shape: [name.length, 2], data: elements('float32', name.length * 2) },
        ]);
      const rowsOf = tables.map(({ dtype, dim }, at): [string, EmbeddingRows] => {
        const own = BigInt64Array.from(idsOfShard[at] ?? []);
        return [`table ${at}`, { dtype, dim, ids: own, values: elements(dtype, own.length * dim) }];
      });
      return { version, infos, dense: new Map(dense), tables: new Map(rowsOf) };
    });
    return { form, shards };
  });

export function filesOf({ form, shards }: RandomModel): Record<string, Uint8Array> {
  return Object.fromEntries(
    shards.map((shard, index) => [
      shardFile(index, shards.length),
      Buffer.concat([...encodeShard(shard, form).chunks()]),
    ]),
  );
}

/** A shard in a comparable form: rows in order, each with its id, and infos by name. */
export interface PlainShard {
  readonly version: number;
  readonly infos: Readonly<Record<string, string>>;
  readonly dense: Readonly<Record<string, string>>;
  /** Only tables with rows. */
  readonly tables: Readonly<Record<string, readonly string[]>>;
}

export function plainShard({ version, infos, dense, tables }: ModelShard): PlainShard {
  const filled = [...tables].filter(([, { ids: own }]) => own.length > 0);
  return {
    version,
    infos: Object.fromEntries(infos.map(({ name, dim, initializer }) => [name, `${dim} ${initializer}`])),
    dense: Object.fromEntries(
      Array.from(dense, ([name, { dtype, shape, data }]) => [name, `${dtype} ${shape} ${hex(data)}`]),
    ),
    tables: Object.fromEntries(filled.map(([name, rows]) => [name, rowTexts(rows)])),
  };
}

function rowTexts({ dtype, dim, ids: own, values }: EmbeddingRows): string[] {
  const rowBytes = dim * itemBytes(dtype);
  return Array.from(
    own,
    (id, row) => `${id}: ${dtype} ${hex(values.subarray(row * rowBytes, (row + 1) * rowBytes))}`,
  );
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('hex');
}

/** The expected result of `scatterModel`, computed row by row. */
export function dividedPlainly(shards: readonly ModelShard[], count: number): PlainShard[] {
  const plain = shards.map(plainShard);
  const dense = Object.assign({}, ...plain.map((shard) => shard.dense)) as Record<string, string>;
  const names = new Set(plain.flatMap(({ tables }) => Object.keys(tables)));
  const tables = Array.from(names, (name) => {
    const rows = plain.flatMap((shard) => shard.tables[name] ?? []);
    const lastOf = new Map(rows.map((row, at) => [idOf(row), at]));
    return [name, rows.filter((row, at) => lastOf.get(idOf(row)) === at)] as const;
  });
  return Array.from({ length: count }, (_, index) => {
    const mine = tables.map(([name, rows]) => [
      name,
      rows.filter((row) => intToId(BigInt(idOf(row)), count) === index),
    ]);
    return {
      version: plain[0]!.version,
      infos: plain[0]!.infos,
      dense: Object.fromEntries(Object.entries(dense).filter(([name]) => stringToId(name, count) === index)),
      tables: Object.fromEntries(mine.filter(([, rows]) => rows!.length > 0)),
    };
  });
}

function idOf(row: string): string {
  return row.slice(0, row.indexOf(':'));
}
