/**
 * A complete model as one safetensors file: its content, and that it appears either complete or not
 * at all.
 */

import { mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, createCheckpointManager, type RandomSource } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import {
  decodeShard,
  type EmbeddingRows,
  type ExportOptions,
  encodeShard,
  exportSafetensors,
  type ModelShard,
  openCheckpointShards,
  repartition,
  type ShardSet,
  shardFile,
  shardsInMemory,
} from '@holdfast/elasticdl';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { memoryTarget } from './memory-target.ts';
import { dividedPlainly, filesOf, type RandomModel, randomModel } from './random-models.ts';
import { readSafetensors } from './safetensors-file.ts';
import { sampleFiles } from './sample-files.ts';

let root: string;
let path: string;
let jsonPath: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-safetensors-'));
  path = join(root, 'model.safetensors');
  jsonPath = join(root, 'model.json');
});

afterEach(() => rm(root, { recursive: true }));

const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);
const int64s = (...values: bigint[]) => new Uint8Array(BigInt64Array.from(values).buffer);

type Row = readonly [id: bigint, value: number];

/** All elements of a row are equal. */
function rowsOf(dim: number, ...rows: readonly Row[]): EmbeddingRows {
  return manyRows(dim, rows);
}

function manyRows(dim: number, rows: readonly Row[]): EmbeddingRows {
  const values = Float32Array.from(rows.flatMap(([, value]) => new Array<number>(dim).fill(value)));
  const ids = BigInt64Array.from(rows, ([id]) => id);
  return { dtype: 'float32', dim, ids, values: new Uint8Array(values.buffer) };
}

/** Each shard has these rows of the tables. A row has 2 elements. */
function setOf(...shards: readonly Readonly<Record<string, EmbeddingRows>>[]): ShardSet {
  const names = [...new Set(shards.flatMap((shard) => Object.keys(shard)))];
  const infos = names.map((name) => ({ name, dim: 2, initializer: 'uniform', dtype: 'float32' as const }));
  const files = shards.map((tables, index): [string, Uint8Array] => {
    const shard = { version: 7, infos, dense: new Map(), tables: new Map(Object.entries(tables)) };
    return [shardFile(index, shards.length), Buffer.concat([...encodeShard(shard).chunks()])];
  });
  return shardsInMemory(Object.fromEntries(files));
}

/** The model of ElasticDL's own test of its export. Every element is 1. */
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
      { dtype: 'int64', dim: 2, ids: BigInt64Array.of(0n, 1n, 2n, 3n), values: int64s(...Array(8).fill(1n)) },
    ],
  ]),
};

const onesSet = () =>
  shardsInMemory({ 'variables-0-of-1.ckpt': Buffer.concat([...encodeShard(ONES, 'S4').chunks()]) });

test('A15: the model of all ones gives 3.0 for id 0; an id that is missing has zeros', async () => {
  const options: ExportOptions = { tables: 'dense', rowCounts: { embedding: 6 } };
  const { sizeBytes, tensors } = await exportSafetensors(onesSet(), path, options);
  expect(tensors.map(({ name, dtype, shape }) => `${name} ${dtype} [${shape}]`)).toEqual([
    'embedding I64 [6,2]',
    'dense/bias:0 I32 [1]',
    'dense/kernel:0 I32 [2,1]',
  ]);
  expect((await stat(path)).size).toBe(sizeBytes);
  const file = await readSafetensors(path);
  const numbers = (name: string, bytesEach: number) => {
    const { bytes } = file.tensors.get(name)!;
    return Array.from({ length: bytes.length / bytesEach }, (_, at) => bytes.readInt32LE(at * bytesEach));
  };
  const table = numbers('embedding', 8);
  const [k0 = 0, k1 = 0] = numbers('dense/kernel:0', 4);
  const [bias = 0] = numbers('dense/bias:0', 4);
  const predict = (id: number) => (table[2 * id] ?? NaN) * k0 + (table[2 * id + 1] ?? NaN) * k1 + bias;
  expect([0, 1, 2, 3, 4, 5].map(predict)).toEqual([3, 3, 3, 3, 1, 1]);
});

test('the result, the JSON beside the file and the metadata in it tell the same; nothing else is there', async () => {
  const result = await exportSafetensors(onesSet(), path);
  expect(result).toMatchObject({ path, jsonPath, version: 100, dropped: [] });
  expect((await readdir(root)).toSorted()).toEqual(['model.json', 'model.safetensors']);
  const json = JSON.parse(await readFile(jsonPath, 'utf8'));
  const told = { dim: 2, dtype: 'int64', initializer: 'random_uniform', stored: 'sparse', rowCount: 4 };
  expect(json).toEqual({
    form: 'holdfast-elasticdl-export-1',
    version: 100,
    tables: [{ name: 'embedding', ...told }],
  });
  const { metadata, tensors } = await readSafetensors(path);
  expect({
    ...metadata,
    version: Number(metadata['version']),
    tables: JSON.parse(metadata['tables']!),
  }).toEqual(json);
  expect(result.tensors.map(({ name, dtype, shape }) => ({ name, dtype, shape }))).toEqual(
    Array.from(tensors, ([name, { dtype, shape }]) => ({ name, dtype, shape })),
  );
});

test('a file of any other name has its JSON beside it too; directories are made', async () => {
  const result = await exportSafetensors(onesSet(), join(root, 'a', 'b', 'best'));
  expect(result.jsonPath).toBe(join(root, 'a', 'b', 'best.json'));
  expect((await readdir(join(root, 'a', 'b'))).toSorted()).toEqual(['best', 'best.json']);
});

/** The expected content of the export, computed row by row. See `dividedPlainly`. */
async function exportedPlainly(model: RandomModel, { version }: { version: number }) {
  const { metadata, tensors } = await readSafetensors(path);
  const dtypes = new Map(
    model.shards.flatMap(({ tables }) => [...tables].map(([name, it]) => [name, it.dtype])),
  );
  const tables: [string, string[]][] = [];
  for (const [name, { bytes, shape }] of tensors) {
    const table = name.replace(/\.values$/, '');
    if (name === table || bytes.byteLength === 0) continue;
    const rowBytes = bytes.byteLength / shape[0]!;
    const { bytes: ids } = tensors.get(`${table}.ids`)!;
    const rows = Array.from({ length: shape[0]! }, (_, row) => {
      const hex = bytes.toString('hex', row * rowBytes, (row + 1) * rowBytes);
      return `${ids.readBigInt64LE(8 * row)}: ${dtypes.get(table)} ${hex}`;
    });
    tables.push([table, rows]);
  }
  const dense = [...tensors]
    .filter(([name]) => name.startsWith('v'))
    .map(([name, { shape, bytes }]) => [name, `float32 ${shape} ${bytes.toString('hex')}`]);
  expect(metadata['version']).toBe(String(version));
  return { dense: Object.fromEntries(dense), tables: Object.fromEntries(tables) };
}

test('any model, in any number of shards: the file holds what its shards hold, each row and variable once', async () => {
  await fc.assert(
    fc.asyncProperty(randomModel, async (model) => {
      await using set = shardsInMemory(filesOf(model));
      const numbering = model.form === 'S4' ? ('elasticdl' as const) : undefined;
      const result = await exportSafetensors(set, path, { replace: true, bufferBytes: 2 ** 20, numbering });
      const { dense, tables } = dividedPlainly(model.shards, 1)[0]!;
      expect(await exportedPlainly(model, result)).toEqual({ dense, tables });
    }),
    { numRuns: 20 },
  );
});

const ROWS = 31n;

test('any model, dense: each row where its id says, zeros elsewhere, whether or not a table fits into memory', async () => {
  const smallIds = randomModel.map(({ form, shards }): RandomModel => {
    const small = (rows: EmbeddingRows) => ({
      ...rows,
      ids: rows.ids.map((id) => ((id % ROWS) + ROWS) % ROWS),
    });
    const withSmall = (shard: ModelShard): ModelShard => ({
      ...shard,
      tables: new Map(Array.from(shard.tables, ([name, rows]) => [name, small(rows)])),
    });
    return { form, shards: shards.map(withSmall) };
  });
  await fc.assert(
    fc.asyncProperty(smallIds, fc.constantFrom(2 ** 20, 2 ** 21), async (model, bufferBytes) => {
      await using set = shardsInMemory(filesOf(model));
      const numbering = model.form === 'S4' ? ('elasticdl' as const) : undefined;
      const dense = { tables: 'dense' as const, rowCount: Number(ROWS) };
      await exportSafetensors(set, path, { ...dense, replace: true, bufferBytes, numbering });
      const { tensors } = await readSafetensors(path);
      const { tables } = dividedPlainly(model.shards, 1)[0]!;
      for (const [name, { bytes, shape }] of tensors) {
        if (name.startsWith('v')) continue;
        expect(shape[0]).toBe(Number(ROWS));
        const rowBytes = bytes.byteLength / shape[0]!;
        const rows = new Map((tables[name] ?? []).map((row) => row.split(/: \w+ /) as [string, string]));
        for (let id = 0; id < shape[0]!; id++) {
          const hex = bytes.toString('hex', id * rowBytes, (id + 1) * rowBytes);
          expect(hex).toBe(rows.get(String(id)) ?? '00'.repeat(rowBytes));
        }
      }
    }),
    { numRuns: 20 },
  );
});

test('a dense table larger than the memory comes out as one that fits', async () => {
  const count = 100_000;
  // Stretches of 100 rows alternate between the shards.
  const all = Array.from({ length: count }, (_, id): Row => [BigInt(id), id + 1]);
  const half = (which: number) =>
    manyRows(
      2,
      all.filter((_, id) => Math.floor(id / 100) % 2 === which),
    );
  await using set = setOf({ user: half(1) }, { user: half(0) });
  const dense = { tables: 'dense', rowCount: 'highest' } as const;
  await exportSafetensors(set, path, { ...dense, bufferBytes: 2 ** 20 });
  const { bytes, shape } = (await readSafetensors(path)).tensors.get('user')!;
  expect(shape).toEqual([count, 2]);
  const values = new Float32Array(Uint8Array.from(bytes).buffer);
  expect(values.every((value, at) => value === Math.floor(at / 2) + 1)).toBe(true);
  const other = join(root, 'in-memory.safetensors');
  await exportSafetensors(set, other, { ...dense, bufferBytes: 2 ** 24 });
  expect(Buffer.compare(await readFile(other), await readFile(path))).toBe(0);
});

test('from a checkpoint: the ids of a dense table are read twice, and the bytes are proven all the same', async () => {
  await using manager = createCheckpointManager({ store: new MemoryStore() });
  await manager.save({ version: 3, buffers: sampleFiles({ version: 3, count: 2 }) });
  await using checkpoint = await manager.latest();
  await using set = await openCheckpointShards(checkpoint!);
  await exportSafetensors(set, path, { tables: 'dense', rowCount: 'highest' });
  expect((await readSafetensors(path)).tensors.get('embedding')?.shape).toEqual([10, 2]);
});

test('slots of optimizers are left out and listed; keepSlots keeps them', async () => {
  const set = setOf({ user: rowsOf(2, [1n, 1]), 'user-accumulator': rowsOf(2, [1n, 0.5]) });
  const { dropped, tensors } = await exportSafetensors(set, path);
  expect(dropped).toEqual(['user-accumulator']);
  expect(tensors.map(({ name }) => name)).toEqual(['user.ids', 'user.values']);
  const all = await exportSafetensors(set, path, { keepSlots: true, replace: true });
  expect(all.dropped).toEqual([]);
  expect(all.tensors.map(({ name }) => name)).toContain('user-accumulator.values');
});

const refused: readonly (readonly [string, ShardSet, ExportOptions, string])[] = [
  [
    'an id past the rows of its table: the first there is',
    setOf({ user: rowsOf(2, [3n, 1], [9n, 1]) }, { user: rowsOf(2, [2n ** 40n, 1], [-1n, 1]) }),
    { rowCounts: { user: 5 } },
    'table "user" has id 9, but is exported with 5 rows, for ids 0 to 4; give it more, or export it sparse',
  ],
  [
    'a negative id',
    setOf({ user: rowsOf(2, [-1n, 1]) }),
    { tables: 'dense', rowCount: 'highest' },
    'table "user" has id -1; the highest id decides the number of rows only for ids 0 to 99999999; no dense table has rows for ids below 0: export it sparse',
  ],
  [
    'the highest id of hashes',
    setOf({ user: rowsOf(2, [1n, 1], [100_000_000n, 1]) }),
    { tables: 'dense', rowCount: 'highest' },
    'table "user" has id 100000000; the highest id',
  ],
  [
    'an unknown table',
    setOf({ user: rowsOf(2) }),
    { rowCounts: { item: 5 } },
    'table "item", which the model',
  ],
  ['too little memory', setOf({ user: rowsOf(2) }), { bufferBytes: 1000 }, 'bufferBytes is 1000'],
  [
    'too little memory, dense',
    setOf({ user: rowsOf(2) }),
    { rowCounts: { user: 1 }, bufferBytes: 1000 },
    'bufferBytes is 1000',
  ],
  ['options', setOf({ user: rowsOf(2) }), { rowCount: 3 }, 'rowCount is the number of rows of dense tables'],
  [
    'two tensors of one name',
    shardsInMemory({
      'variables-0-of-1.ckpt': Buffer.concat([
        ...encodeShard({
          ...ONES,
          dense: new Map([['embedding.ids', { dtype: 'int8', shape: [1], data: new Uint8Array(1) }]]),
        }).chunks(),
      ]),
    }),
    {},
    'variable "embedding.ids" and the ids of table "embedding" would both be called "embedding.ids" in the file',
  ],
];

test.each(refused)('refused, and nothing is left behind: %s', async (_, set, options, message) => {
  await expect(exportSafetensors(set, path, options)).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringContaining(message),
  });
  expect(await readdir(root)).toEqual([]);
});

test('a shard that is missing is refused when the set is opened', () => {
  const { 'variables-1-of-3.ckpt': _, ...files } = sampleFiles({ version: 1, count: 3 });
  expect(() => shardsInMemory(files)).toThrow(expect.objectContaining({ code: 'Corrupt' }));
});

test.each(['model.safetensors', 'model.json'])(
  '%s is there already: TargetExists, and it stays',
  async (name) => {
    await writeFile(join(root, name), 'old');
    await expect(exportSafetensors(onesSet(), path)).rejects.toMatchObject({ code: 'TargetExists' });
    expect(await readdir(root)).toEqual([name]);
    expect(await readFile(join(root, name), 'utf8')).toBe('old');
  },
);

async function writeOld(): Promise<void> {
  await writeFile(path, 'old model');
  await writeFile(jsonPath, 'old json');
}

test('replace: both are new, and symbolic links stay links', async () => {
  await mkdir(join(root, 'real'));
  for (const name of ['model.safetensors', 'model.json']) {
    await writeFile(join(root, 'real', name), 'old', { mode: 0o640 });
    await symlink(join('real', name), join(root, name));
  }
  await exportSafetensors(onesSet(), path, { replace: true });
  expect(await readlink(jsonPath)).toBe(join('real', 'model.json'));
  expect(JSON.parse(await readFile(jsonPath, 'utf8'))).toMatchObject({ version: 100 });
  expect((await readSafetensors(path)).tensors.size).toBe(4);
  expect((await readdir(join(root, 'real'))).toSorted()).toEqual(['model.json', 'model.safetensors']);
  expect((await stat(path)).mode & 0o777).toBe(0o640);
});

interface Calls {
  read: number;
  prove: number;
}

/** A set whose only source fails in one of its calls, counted from 0. */
function failing(at: Partial<Calls>): { set: ShardSet; calls: Calls } {
  const rows = Array.from({ length: 20_000 }, (_, id): Row => [BigInt(id), id]);
  const set = setOf({ user: manyRows(2, rows) });
  const [shard] = set.shards;
  const calls = { read: 0, prove: 0 };
  const count = (call: keyof Calls) => {
    if (calls[call]++ === at[call]) throw new CheckpointError('SourceChanged', 'it is another by now');
  };
  const source: RandomSource = {
    ...shard!.source,
    async readInto(offsetBytes, buffer) {
      count('read');
      await shard!.source.readInto(offsetBytes, buffer);
    },
    async assertUnchanged() {
      count('prove');
    },
  };
  return { set: { ...set, shards: [{ ...shard!, source }] }, calls };
}

test.each([{}, { tables: 'dense', rowCount: 'highest' }] as const)(
  'a failure half-way leaves the old files as they were: %o',
  async (tables) => {
    const whole = failing({});
    await exportSafetensors(whole.set, join(root, 'whole', 'model'), tables);
    expect(whole.calls.read).toBeGreaterThan(1);
    await writeOld();
    for (const at of [{ read: 0 }, { read: whole.calls.read - 1 }, { prove: 0 }]) {
      const exporting = exportSafetensors(failing(at).set, path, { ...tables, replace: true });
      await expect(exporting).rejects.toMatchObject({ code: 'SourceChanged' });
      expect((await readdir(root)).toSorted()).toEqual(['model.json', 'model.safetensors', 'whole']);
      expect(await readFile(path, 'utf8')).toBe('old model');
      expect(await readFile(jsonPath, 'utf8')).toBe('old json');
    }
  },
);

test('a caller who stops it half-way finds the old files as they were', async () => {
  await writeOld();
  const stop = new AbortController();
  const onProgress = () => stop.abort();
  const options = { replace: true, signal: stop.signal, onProgress };
  await expect(exportSafetensors(onesSet(), path, options)).rejects.toMatchObject({ code: 'Aborted' });
  expect((await readdir(root)).toSorted()).toEqual(['model.json', 'model.safetensors']);
  expect(await readFile(path, 'utf8')).toBe('old model');
});

test('if the file cannot take the old one’s place, no JSON speaks of another file', async () => {
  await writeOld();
  const set = swapping(async () => {
    await rm(path);
    await mkdir(path);
  });
  await expect(exportSafetensors(set, path, { replace: true })).rejects.toThrow(`publish ${path}`);
  expect(await readdir(root)).toEqual(['model.safetensors']);
});

test('if the old JSON cannot be removed, the old file stays', async () => {
  await writeOld();
  const set = swapping(async () => {
    await rm(jsonPath);
    await mkdir(jsonPath);
  });
  await expect(exportSafetensors(set, path, { replace: true })).rejects.toThrow(`remove ${jsonPath}`);
  expect((await readdir(root)).toSorted()).toEqual(['model.json', 'model.safetensors']);
  expect(await readFile(path, 'utf8')).toBe('old model');
});

test('an old JSON that another process removes meanwhile is no error', async () => {
  await writeOld();
  await exportSafetensors(
    swapping(() => rm(jsonPath)),
    path,
    { replace: true },
  );
  expect(JSON.parse(await readFile(jsonPath, 'utf8'))).toMatchObject({ version: 7 });
});

test('a JSON that another process creates meanwhile is not replaced; the file is there, complete', async () => {
  const set = swapping(() => writeFile(jsonPath, 'of another'));
  await expect(exportSafetensors(set, path)).rejects.toMatchObject({ code: 'TargetExists' });
  expect((await readdir(root)).toSorted()).toEqual(['model.json', 'model.safetensors']);
  expect(await readFile(jsonPath, 'utf8')).toBe('of another');
  expect((await readSafetensors(path)).tensors.size).toBe(2);
});

/** Runs `act` after the last byte has been read and before anything is published. */
function swapping(act: () => Promise<void>): ShardSet {
  const set = setOf({ user: rowsOf(2, [1n, 1]) });
  const [shard] = set.shards;
  return { ...set, shards: [{ ...shard!, source: { ...shard!.source, assertUnchanged: act } }] };
}

test('as one file of ElasticDL’s it is divided for one server', async () => {
  const target = memoryTarget();
  await using set = setOf({ user: rowsOf(2, [2n, 1]) }, { user: rowsOf(2, [1n, 2]) });
  const { files } = await repartition(set, target, { count: 1 });
  expect(files.map(({ name }) => name)).toEqual(['variables-0-of-1.ckpt']);
  const { tables } = await decodeShard(target.files['variables-0-of-1.ckpt']!);
  expect(tables.get('user')).toMatchObject({ ids: BigInt64Array.of(2n, 1n), values: floats(1, 1, 2, 2) });
});
