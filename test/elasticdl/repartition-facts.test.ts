/**
 * Reshards a model: ElasticDL's own examples, files that do not belong together, and errors during
 * the operation.
 */

import { mkdtemp, readFile, rm, rmdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ProgressEvent, RandomSource } from '@holdfast/core';
import {
  type Dtype,
  decodeShard,
  encodeShard,
  type ModelShard,
  openDirectoryShards,
  repartition,
  restoreShard,
  type ShardSet,
  type ShardSink,
  scatterModel,
  shardFile,
  shardsInMemory,
  type WrittenForm,
} from '@holdfast/elasticdl';
import { localFiles } from '@holdfast/local-files';
import { expect, test } from 'vitest';
import { memoryTarget } from './memory-target.ts';
import { writeFiles } from './sample-files.ts';

interface SmallModel {
  readonly version?: number;
  readonly dense?: Readonly<Record<string, readonly number[]>>;
  /** Rows in order of their ids. */
  readonly rows?: readonly (readonly [bigint, readonly number[]])[];
  readonly table?: string;
  readonly dim?: number;
}

function shard({ version = 0, dense = {}, rows = [], table = 'e1', dim = 2 }: SmallModel): ModelShard {
  const floats = (values: readonly number[]) => new Uint8Array(Float32Array.from(values).buffer);
  return {
    version,
    infos: [{ name: table, dim, initializer: 'uniform', dtype: 'float32' }],
    dense: new Map(
      Object.entries(dense).map(([name, values]) => [
        name,
        { dtype: 'float32' as Dtype, shape: [values.length], data: floats(values) },
      ]),
    ),
    tables: new Map([
      [
        table,
        {
          dtype: 'float32' as Dtype,
          dim,
          ids: BigInt64Array.from(rows, ([id]) => id),
          values: floats(rows.flatMap(([, row]) => row)),
        },
      ],
    ]),
  };
}

function bytesOf(model: ModelShard, form?: WrittenForm): Uint8Array {
  return Buffer.concat([...encodeShard(model, form).chunks()]);
}

function setOf(...shards: readonly (ModelShard | Uint8Array)[]): ShardSet {
  const files = shards.map((each, index) => [
    shardFile(index, shards.length),
    each instanceof Uint8Array ? each : bytesOf(each),
  ]);
  return shardsInMemory(Object.fromEntries(files));
}

/** The set with its sources wrapped by `wrap`. */
function wrapped(set: ShardSet, wrap: (source: RandomSource, index: number) => RandomSource): ShardSet {
  return { ...set, shards: set.shards.map((file) => ({ ...file, source: wrap(file.source, file.index) })) };
}

function rowsOf(model: ModelShard, table = 'e1'): [bigint, number[]][] {
  const { ids, values, dim } = model.tables.get(table)!;
  const floats = new Float32Array(values.slice().buffer);
  return Array.from(ids, (id, row) => [id, [...floats.subarray(row * dim, (row + 1) * dim)]]);
}

const restored = (set: ShardSet, count: number) =>
  Promise.all(
    Array.from({ length: count }, (_, index) => restoreShard(set, { index, count, bufferBytes: 2 ** 20 })),
  );

test('A4: one shard for two servers: ids by their remainder, variables by the hash of their names, the version for both', async () => {
  const dense = { 'dense/kernel:0': [1, 1], 'dense/bias:0': [1] };
  const rows = [0n, 1n, 2n, 3n].map((id) => [id, [1, 1]] as const);
  const set = setOf(shard({ version: 100, dense, rows, table: 'embedding' }));
  const [first, second] = await restored(set, 2);
  expect([...first!.tables.get('embedding')!.ids]).toEqual([0n, 2n]);
  expect([...second!.tables.get('embedding')!.ids]).toEqual([1n, 3n]);
  expect([[...first!.dense.keys()], [...second!.dense.keys()]]).toEqual([
    ['dense/kernel:0'],
    ['dense/bias:0'],
  ]);
  expect([first!.version, second!.version]).toEqual([100, 100]);
  expect(await restored(set, 1)).toEqual([shard({ version: 100, dense, rows, table: 'embedding' })]);
});

// As in the test of the Go parameter server.
const GO_SHARDS = [
  shard({
    rows: [
      [0n, [1, 2]],
      [2n, [3, 4]],
      [4n, [5, 6]],
    ],
  }),
  shard({
    rows: [
      [1n, [6, 5]],
      [3n, [4, 3]],
      [5n, [2, 1]],
    ],
  }),
];

test('A5: from two shards to three', async () => {
  const three = await restored(setOf(...GO_SHARDS), 3);
  expect(three.map((model) => rowsOf(model))).toEqual([
    [
      [0n, [1, 2]],
      [3n, [4, 3]],
    ],
    [
      [4n, [5, 6]],
      [1n, [6, 5]],
    ],
    [
      [2n, [3, 4]],
      [5n, [2, 1]],
    ],
  ]);
  expect(three.map(({ infos }) => infos)).toEqual([
    GO_SHARDS[0]!.infos,
    GO_SHARDS[0]!.infos,
    GO_SHARDS[0]!.infos,
  ]);
});

test('an id that is there twice: the later row stays, at its own place', async () => {
  const set = setOf(
    shard({
      rows: [
        [7n, [1, 1]],
        [8n, [2, 2]],
        [7n, [3, 3]],
      ],
    }),
    shard({
      rows: [
        [9n, [4, 4]],
        [8n, [5, 5]],
      ],
    }),
  );
  const told: string[] = [];
  const onSuspicion = (reason: string) => void told.push(reason);
  expect(rowsOf(await restoreShard(set, { index: 0, count: 1, onSuspicion }))).toEqual([
    [7n, [3, 3]],
    [9n, [4, 4]],
    [8n, [5, 5]],
  ]);
  expect(told).toEqual(['table "e1" has 2 rows whose id a later row has too; the later row counts']);
});

test('a variable that two files have is told, and that of the last file is taken', async () => {
  const set = setOf(shard({ dense: { v: [1], w: [1] } }), shard({ dense: { v: [2] } }));
  const told: string[] = [];
  const onSuspicion = (reason: string) => void told.push(reason);
  const { dense } = await restoreShard(set, { index: 0, count: 1, onSuspicion });
  expect([...new Float32Array(dense.get('v')!.data.slice().buffer)]).toEqual([2]);
  expect(told).toEqual([
    expect.stringMatching(/^several files of .* have variable "v"; that of the last file counts$/),
  ]);
});

test.each<[string, ShardSet, RegExp]>([
  [
    'A9: shards of different versions',
    setOf(shard({ version: 100 }), shard({ version: 105 })),
    /versions in model shards are not consistent: variables-0-of-2.ckpt has 100, variables-1-of-2.ckpt has 105/,
  ],
  [
    'two schemas',
    setOf(shard({ dense: { v: [1] } }), bytesOf(shard({ dense: { w: [1] } }), 'S4')),
    /two schemas in one directory: variables-0-of-2.ckpt is of form S7, variables-1-of-2.ckpt of S4/,
  ],
  [
    'rows of different length',
    setOf(shard({ rows: [[1n, [1, 2]]] }), shard({ dim: 3, rows: [[1n, [1, 2, 3]]] })),
    /variables-1-of-2.ckpt: table "e1" at byte \d+ has rows of 3 float32, and rows of 2 float32 in variables-0-of-2.ckpt/,
  ],
  [
    'infos that disagree',
    setOf(shard({}), shard({ dim: 3 })),
    /row of table "e1": variables-0-of-2.ckpt says 2, variables-1-of-2.ckpt says 3/,
  ],
  [
    'a variable that is a table elsewhere',
    setOf(shard({ rows: [[1n, [1, 2]]] }), shard({ table: 'e2', dense: { e1: [1] } })),
    /variables-1-of-2.ckpt: "e1" at byte \d+ is a variable, and in another file a table/,
  ],
  [
    'a file that is cut off',
    setOf(shard({}), bytesOf(GO_SHARDS[0]!).subarray(0, -3)),
    /variables-1-of-2.ckpt/,
  ],
])('refused as Corrupt, and nothing is published: %s', async (_, set, message) => {
  const target = memoryTarget();
  await expect(repartition(set, target, { count: 2 })).rejects.toMatchObject({
    code: 'Corrupt',
    message: expect.stringMatching(message),
  });
  expect(target.state).toBe('discarded');
});

test('one of the new shards alone is that of all; an index that is out of range is InvalidArgument', async () => {
  const [all, one] = [memoryTarget(), memoryTarget()];
  await repartition(setOf(...GO_SHARDS), all, { count: 3 });
  const { files } = await repartition(setOf(...GO_SHARDS), one, { count: 3, index: 2 });
  const name = 'variables-2-of-3.ckpt';
  expect(files.map((file) => file.name)).toEqual([name]);
  expect(one.files).toEqual({ [name]: all.files[name] });
  for (const index of [3, -1, 0.5]) {
    const target = memoryTarget();
    const asked = repartition(setOf(...GO_SHARDS), target, { count: 3, index });
    await expect(asked).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(target.state).toBe('discarded');
  }
});

test('a shard whose name says another number of shards is Corrupt', async () => {
  const set = setOf(...GO_SHARDS);
  const torn = { ...set, shards: set.shards.map((file) => ({ ...file, count: 3 })) };
  await expect(restoreShard(torn, { index: 0, count: 1 })).rejects.toMatchObject({
    code: 'Corrupt',
    message: 'memory: variables-0-of-2.ckpt says it is shard 0 of 3, but is used as shard 0 of 2',
  });
});

test.each([
  ['count 0', { count: 0, index: 0 }],
  ['count 65,537', { count: 65_537, index: 0 }],
  ['an index that is no server', { count: 2, index: 2 }],
  ['too little memory', { count: 2, index: 0, bufferBytes: 2 ** 20 - 1 }],
])('%s is an InvalidArgument', async (_, options) => {
  await expect(restoreShard(setOf(...GO_SHARDS), options)).rejects.toMatchObject({ code: 'InvalidArgument' });
});

test('rows that do not fit the memory are an InvalidArgument that says what would do', async () => {
  const dim = 100_000;
  const set = setOf(shard({ dim, rows: [[1n, Array.from({ length: dim }, (_, at) => at)]] }));
  const restore = restoreShard(set, { index: 0, count: 1, bufferBytes: 2 ** 20 });
  await expect(restore).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringMatching(/raise bufferBytes to \d+/),
  });
  const bufferBytes = Number(/bufferBytes to (\d+)/.exec(String(await restore.catch(String)))?.[1]);
  expect(rowsOf(await restoreShard(set, { index: 0, count: 1, bufferBytes }))[0]![1][99_999]).toBe(99_999);
});

test('a table that is said to have enormous rows, and has none, takes no memory', async () => {
  const { tables } = await restoreShard(setOf(shard({ dim: 2 ** 40 })), { index: 0, count: 1 });
  expect(tables.get('e1')).toMatchObject({ dim: 2 ** 40, ids: new BigInt64Array(0) });
});

test('more shards than names map to: these hold rows alone', async () => {
  const rows = Array.from({ length: 64 }, (_, id) => [BigInt(id), [id, id]] as const);
  const dense = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`v${at}`, [at]]));
  const shards = await restored(setOf(shard({ rows, dense })), 32);
  expect(shards.slice(16).every((model) => model.dense.size === 0)).toBe(true);
  expect(shards.reduce((sum, model) => sum + model.dense.size, 0)).toBe(40);
  expect(shards.every((model) => rowsOf(model).length === 2)).toBe(true);
});

const LARGE_ROWS = 32_768;
const LARGE_DIM = 32;

/** 8 MiB of rows in 2 files. Ids are far apart, and one in 64 is in both files. */
const LARGE_SHARDS = [0, 1].map((file): ModelShard => {
  const ids = BigInt64Array.from(
    { length: LARGE_ROWS },
    (_, row) => BigInt(row * 2 + (row % 64 === 0 ? 0 : file)) * 0x1_0000_0003n - 2n ** 47n,
  );
  const values = new Float32Array(LARGE_ROWS * LARGE_DIM).map(
    (_, at) => Math.floor(at / LARGE_DIM) + file / 2,
  );
  const small = shard({
    dim: LARGE_DIM,
    dense: { [`v${file}`]: Array.from({ length: 300_000 }, (_, at) => at) },
  });
  const table = { dtype: 'float32' as Dtype, dim: LARGE_DIM, ids, values: new Uint8Array(values.buffer) };
  return { ...small, tables: new Map([['e1', table]]) };
});
const LARGE_FILES = LARGE_SHARDS.map((model) => bytesOf(model));

/** Id and first element of each row. All elements of a row are equal. */
function firstElements(model: ModelShard): [bigint, number][] {
  const { ids, values, dim } = model.tables.get('e1')!;
  const floats = new Float32Array(values.slice().buffer);
  for (let at = 0; at < floats.length; at++) {
    const first = floats[at - (at % dim)];
    if (floats[at] !== first)
      throw new Error(`element ${at} is ${floats[at]}, and its row begins with ${first}`);
  }
  return Array.from(ids, (id, row) => [id, floats[row * dim]!]);
}

test('1 MiB for 8 MiB of rows: ids wait in a file without a name, no byte is read twice, what is lent stays below the budget', async () => {
  const reads = LARGE_FILES.map((bytes) => new Uint8Array(bytes.byteLength));
  let [bytesOut, bytesOutMax] = [0, 0];
  const set = wrapped(setOf(...LARGE_FILES), (source, index) => ({
    ...source,
    async readInto(offsetBytes, buffer) {
      for (let at = 0; at < buffer.byteLength; at++) reads[index]![offsetBytes + at]!++;
      bytesOut += buffer.byteLength;
      bytesOutMax = Math.max(bytesOutMax, bytesOut);
      await new Promise((resolve) => setImmediate(resolve));
      await source.readInto(offsetBytes, buffer);
      bytesOut -= buffer.byteLength;
    },
  }));
  const scratchDirectory = await mkdtemp(join(tmpdir(), 'holdfast-scratch-'));
  const target = memoryTarget();
  const events: ProgressEvent[] = [];
  await repartition(set, target, {
    count: 3,
    bufferBytes: 2 ** 20,
    scratchDirectory,
    onProgress: (event) => events.push(event),
  });
  expect(reads.map((counts) => counts.every((times) => times <= 1))).toEqual([true, true]);
  expect(bytesOutMax).toBeLessThan(2 ** 20);
  // rmdir succeeds only if the directory is empty.
  await rmdir(scratchDirectory);

  const shards = await Promise.all(Object.values(target.files).map((bytes) => decodeShard(bytes)));
  const rows = new Map(shards.flatMap(firstElements));
  const expected = new Map(LARGE_SHARDS.flatMap(firstElements));
  expect(shards.reduce((sum, model) => sum + model.tables.get('e1')!.ids.length, 0)).toBe(expected.size);
  expect(rows).toEqual(expected);

  const [planned] = events;
  expect(planned).toMatchObject({
    type: 'planned',
    fileCount: 2,
    sizeBytes: expected.size * 128 + 2_400_000,
  });
  const last = new Map(events.flatMap((event) => (event.type === 'bytes' ? [[event.name, event]] : [])));
  expect([...last.values()].every(({ doneBytes, totalBytes }) => doneBytes === totalBytes)).toBe(true);
});

test('from a directory to a directory of this machine, past the page cache where that works: the same rows', async () => {
  const root = await mkdtemp(join(tmpdir(), 'holdfast-repartition-'));
  try {
    const names = LARGE_FILES.map((_, index) => shardFile(index, LARGE_FILES.length));
    await writeFiles(
      join(root, 'from'),
      Object.fromEntries(names.map((name, at) => [name, LARGE_FILES[at]!])),
    );
    await using set = await openDirectoryShards(join(root, 'from'));
    const target = await localFiles.openTarget(join(root, 'to'));
    const { files } = await repartition(set, target, {
      count: 3,
      bufferBytes: 2 ** 24,
      prefix: 'version-0/',
    });
    const written = await Promise.all(files.map(({ name }) => readFile(join(root, 'to', name))));
    const inMemory = memoryTarget();
    await repartition(setOf(...LARGE_FILES), inMemory, { count: 3, bufferBytes: 2 ** 20 });
    for (const [index, bytes] of written.entries())
      expect(bytes.equals(inMemory.files[shardFile(index, 3)]!)).toBe(true);
  } finally {
    await rm(root, { recursive: true });
  }
});

const ignoring: ShardSink = {
  begin: async () => undefined,
  putDense: async () => undefined,
  putRows: async () => undefined,
  end: async () => undefined,
};

/** Counts the reads and fails at one of them. */
function counted(set: ShardSet, failsAt = Number.POSITIVE_INFINITY) {
  const state = { reads: 0, underWay: 0 };
  const watched = wrapped(set, (source) => ({
    ...source,
    async readInto(offsetBytes, buffer) {
      state.underWay++;
      await new Promise((resolve) => setImmediate(resolve));
      state.underWay--;
      if (++state.reads >= failsAt) throw new Error('the disk is gone');
      await source.readInto(offsetBytes, buffer);
    },
  }));
  return { state, set: watched };
}

test('a source that fails, at any read: nothing is published, nothing is under way', async () => {
  const all = counted(setOf(...LARGE_FILES));
  await repartition(all.set, memoryTarget(), { count: 2, bufferBytes: 2 ** 20 });
  for (let failsAt = 1; failsAt <= all.state.reads; failsAt += Math.ceil(all.state.reads / 8)) {
    const { set, state } = counted(setOf(...LARGE_FILES), failsAt);
    const target = memoryTarget();
    await expect(repartition(set, target, { count: 2, bufferBytes: 2 ** 20 })).rejects.toThrow(
      'the disk is gone',
    );
    expect([target.state, state.underWay]).toEqual(['discarded', 0]);
  }
});

test('a source that is not what it was: nothing is published, though all is written', async () => {
  const set = wrapped(setOf(...GO_SHARDS), (source, index) => ({
    ...source,
    async assertUnchanged() {
      if (index === 1) throw new Error('it has changed');
    },
  }));
  const target = memoryTarget();
  await expect(repartition(set, target, { count: 2 })).rejects.toThrow('it has changed');
  expect(target.state).toBe('discarded');
});

test.each(['begin', 'putDense', 'putRows', 'end'] as const)(
  'a sink that fails in %s: it fails so, and reading stops',
  async (method) => {
    const whole = counted(setOf(...LARGE_FILES));
    await scatterModel(whole.set, { count: 1, bufferBytes: 2 ** 20, openSink: () => ignoring });
    const { set, state } = counted(setOf(...LARGE_FILES));
    const failing = { ...ignoring, [method]: () => Promise.reject(new Error('full')) };
    const openSink = (index: number) => (index === 0 ? failing : ignoring);
    await expect(scatterModel(set, { count: 1, bufferBytes: 2 ** 20, openSink })).rejects.toThrow('full');
    expect(state.underWay).toBe(0);
    if (method !== 'end') expect(state.reads).toBeLessThan(whole.state.reads - 4);
  },
);

test('stopped by the caller at any moment: Aborted, and nothing is published', async () => {
  const all = counted(setOf(...LARGE_FILES));
  await repartition(all.set, memoryTarget(), { count: 2, bufferBytes: 2 ** 20 });
  for (const at of [0, 1, Math.floor(all.state.reads / 2), all.state.reads - 1]) {
    const stop = new AbortController();
    const { set, state } = counted(setOf(...LARGE_FILES));
    const target = memoryTarget({ onWrite: () => state.reads >= at && stop.abort() });
    if (at === 0) stop.abort();
    await expect(
      repartition(set, target, { count: 2, bufferBytes: 2 ** 20, signal: stop.signal }),
    ).rejects.toMatchObject({ code: 'Aborted' });
    expect(target.state).toBe('discarded');
  }
});

test('without a place for the scratch file: the error names it', async () => {
  const set = setOf(...LARGE_FILES);
  const scratchDirectory = '/nowhere/at/all';
  await expect(
    restoreShard(set, { index: 0, count: 1, bufferBytes: 2 ** 20, scratchDirectory }),
  ).rejects.toMatchObject({ code: 'NotFound', message: expect.stringContaining(scratchDirectory) });
});
