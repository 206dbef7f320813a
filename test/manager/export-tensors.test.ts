import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExportTensorsOptions, RunManager } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { SeededRandom } from '@holdfast/testkit';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type ReadTensor, readSafetensors } from '../elasticdl/safetensors-file.ts';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { safetensors, shardingOf, type Tensors } from './safetensors-bytes.ts';
import { cutAtRandom, type Piece } from './tensor-pieces.ts';

let root: string;
let to: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-export-'));
  to = join(root, 'model');
});

afterEach(() => rm(root, { recursive: true, force: true }));

function openRun(bucket: MemoryBucket = newBucket()): RunManager {
  return open(bucket, { files: localFiles });
}

async function exported(buffers: Record<string, Uint8Array>, options: Omit<ExportTensorsOptions, 'to'> = {}) {
  await using manager = openRun();
  await manager.save({ version: 7, buffers });
  return await manager.admin.exportTensors({ to, ...options });
}

async function readModel(): Promise<Map<string, ReadTensor>> {
  const names = (await readdir(to)).filter((name) => name.endsWith('.safetensors')).sort();
  const files = await Promise.all(names.map((name) => readSafetensors(join(to, name))));
  for (const { metadata } of files) expect(metadata).toEqual({ format: 'pt' });
  return new Map(files.flatMap(({ tensors }) => [...tensors]));
}

const part = (shape: number[], seed = 1) => ({
  shape,
  data: bytes(
    shape.reduce((a, b) => a * b, 1),
    seed,
  ),
});
const plain = safetensors({ 'model.w': part([4, 3]), 'model.b': part([3], 2), 'optimizer.w': part([5], 3) });

/** Files of ranks, each with parts of tensors. */
function ranksOf(pieces: readonly { readonly file: number; readonly name: string; readonly piece: Piece }[]) {
  const files = Map.groupBy(pieces, ({ file }) => `rank-${file}.safetensors`);
  return Object.fromEntries(
    [...files].map(([file, held]) => {
      const tensors = held.map(({ name, piece }): [string, Tensors[string]] => [name, piece]);
      const offsets = held.map(({ name, piece }) => [name, piece.offsets]);
      return [file, safetensors(Object.fromEntries(tensors), shardingOf(Object.fromEntries(offsets)))];
    }),
  );
}

describe('a model in one file', () => {
  test('has the tensors of all files, and the files that are copied', async () => {
    const config = Buffer.from('{"model_type":"llama"}');
    const other = safetensors({ head: part([2, 2], 4) });
    const result = await exported(
      { 'a.safetensors': plain, 'b/c.safetensors': other, 'config.json': config, 'optimizer.pt': bytes(9) },
      { also: ['*.json'] },
    );
    expect(result.id.version).toBe(7n);
    expect(result.tensorCount).toBe(4);
    expect(result.files.map(({ name }) => name)).toEqual(['model.safetensors', 'config.json']);
    expect((await readdir(to)).sort()).toEqual(['config.json', 'model.safetensors']);
    expect(await readFile(join(to, 'config.json'))).toEqual(config);
    expect(result.sizeBytes).toBe(
      (await readFile(join(to, 'model.safetensors'))).byteLength + config.byteLength,
    );
    const model = await readModel();
    expect([...model.keys()].sort()).toEqual(['head', 'model.b', 'model.w', 'optimizer.w']);
    expect(model.get('model.w')).toEqual({ dtype: 'U8', shape: [4, 3], bytes: Buffer.from(bytes(12)) });
  });

  test('has only the tensors below a prefix, without it', async () => {
    expect(await exported({ 'a.safetensors': plain }, { prefix: 'model.' })).toMatchObject({
      tensorCount: 2,
    });
    expect([...(await readModel()).keys()].sort()).toEqual(['b', 'w']);
  });

  test('has scalars, empty tensors, unknown types and elements of less than a byte', async () => {
    const tensors: Tensors = {
      scalar: { shape: [], data: bytes(1) },
      none: { shape: [0, 3], data: bytes(0) },
      odd: { shape: [7], data: bytes(5), dtype: 'X9' },
      nibbles: { shape: [5], data: bytes(3), dtype: 'F4' },
    };
    await exported({ 'a.safetensors': safetensors(tensors) });
    const model = await readModel();
    for (const [name, { shape, data, dtype = 'U8' }] of Object.entries(tensors))
      expect(model.get(name), name).toEqual({ shape, dtype, bytes: Buffer.from(data) });
  });

  test('names that objects treat in a way of their own stay', async () => {
    const names = ['7', '__proto__', 'toString', 'ü', ''];
    const tensors = Object.fromEntries(names.map((name, seed) => [`m.${name}`, part([seed + 1], seed)]));
    await exported({ 'a.safetensors': safetensors(tensors) }, { prefix: 'm.', fileBytesMax: 1 });
    const index = JSON.parse(await readFile(join(to, 'model.safetensors.index.json'), 'utf8'));
    expect(Object.keys(index.weight_map).sort()).toEqual(['', '7', '__proto__', 'toString', 'ü']);
  });

  test.each(['safetensors', 'distcp'] as const)('has a tensor with an empty name (%s)', async (layout) => {
    const files = { 'a.safetensors': safetensors({ '': part([4]), w: part([1]) }) };
    expect(await exported(files, { layout })).toMatchObject({ tensorCount: 2 });
    if (layout === 'safetensors') expect([...(await readModel()).keys()].sort()).toEqual(['', 'w']);
  });
});

test('a model in several files has an index', async () => {
  const tensors = Object.fromEntries([...'abcde'].map((name, seed) => [name, part([10], seed)]));
  const { files, tensorCount } = await exported(
    { 'a.safetensors': safetensors(tensors) },
    { fileBytesMax: 25 },
  );
  const names = ['model-00001-of-00003.safetensors', 'model-00002-of-00003.safetensors'];
  names.push('model-00003-of-00003.safetensors');
  expect([tensorCount, files.map(({ name }) => name)]).toEqual([
    5,
    [...names, 'model.safetensors.index.json'],
  ]);
  expect(JSON.parse(await readFile(join(to, 'model.safetensors.index.json'), 'utf8'))).toEqual({
    metadata: { total_size: 50 },
    weight_map: { a: names[0], b: names[0], c: names[1], d: names[1], e: names[2] },
  });
  const model = await readModel();
  for (const [name, { data }] of Object.entries(tensors))
    expect(model.get(name)?.bytes).toEqual(Buffer.from(data));
});

describe('tensors in parts', () => {
  test.each([1, 2, 3, 4, 5, 6])('cut at random into parts of any shape (%s)', async (seed) => {
    const random = new SeededRandom(seed);
    const wholes = Array.from({ length: 12 }, (_, at) => {
      const shape = Array.from({ length: random.integer(4) }, () => random.integer(9));
      const dtype = ['U8', 'BF16', 'F32', 'I64'][random.integer(4)] as string;
      return { name: `t${at}`, ...cutAtRandom(random, { shape, dtype }) };
    });
    const ranks = ranksOf(
      wholes.flatMap(({ name, pieces }) => {
        // A copy of a part, as ranks of one replica group hold it.
        const copies = random.integer(3) === 0 ? pieces.slice(0, 1) : [];
        return [...pieces, ...copies].map((piece, file) => ({ file, name, piece }));
      }),
    );
    await exported(ranks, { fileBytesMax: 500 });
    const model = await readModel();
    for (const { name, shape, dtype, data } of wholes)
      expect(model.get(name), `${name} ${dtype} [${shape}]`).toEqual({
        shape,
        dtype,
        bytes: Buffer.from(data),
      });
  });

  test('larger than the memory for one range, cut along rows, columns and both', async () => {
    const shape = [3000, 7000];
    const data = bytes(21_000_000);
    const cut = (rows: [number, number], columns: [number, number]): Piece => {
      const shape = [rows[1] - rows[0], columns[1] - columns[0]];
      const held = Buffer.alloc((shape[0] as number) * (shape[1] as number));
      for (let row = rows[0]; row < rows[1]; row += 1)
        held.set(
          data.subarray(row * 7000 + columns[0], row * 7000 + columns[1]),
          (row - rows[0]) * (shape[1] as number),
        );
      return { shape, offsets: [rows[0], columns[0]], data: held, dtype: 'U8' };
    };
    const all: [number, number][] = [
      [0, 3000],
      [0, 7000],
    ];
    const cuts: Record<string, Piece[]> = {
      rows: [cut([0, 1001], all[1] as [number, number]), cut([1001, 3000], all[1] as [number, number])],
      columns: [cut(all[0] as [number, number], [0, 13]), cut(all[0] as [number, number], [13, 7000])],
      both: [
        cut([0, 9], [0, 6999]),
        cut([0, 9], [6999, 7000]),
        cut([9, 3000], [0, 1]),
        cut([9, 3000], [1, 7000]),
      ],
    };
    const ranks = ranksOf(
      Object.entries(cuts).flatMap(([name, pieces]) => pieces.map((piece, file) => ({ file, name, piece }))),
    );
    await exported(ranks);
    const model = await readModel();
    for (const name of Object.keys(cuts)) {
      expect(model.get(name)?.shape).toEqual(shape);
      expect(model.get(name)?.bytes.equals(data), name).toBe(true);
    }
  });

  const piece = (shape: number[], offsets: number[], dtype = 'U8'): Piece => ({
    ...part(shape),
    offsets,
    dtype,
  });
  const twoRanks = (a: Piece, b: Piece) =>
    ranksOf([
      { file: 0, name: 'w', piece: a },
      { file: 1, name: 'w', piece: b },
    ]);
  const shapes = (shape: unknown) =>
    Buffer.from(JSON.stringify({ format: 'holdfast-dcp', tensors: { w: { shape } } }));

  test.each<[string, Record<string, Uint8Array>, ExportTensorsOptions | object, string]>([
    [
      'a gap',
      twoRanks(piece([2, 2], [0, 0]), piece([2, 2], [3, 0])),
      {},
      'InvalidArgument: tensor "w" is not whole: its parts have 8 of the 10 elements of [5,2]',
    ],
    [
      'parts that overlap',
      twoRanks(piece([2, 2], [0, 0]), piece([2, 2], [1, 1])),
      {},
      'InvalidArgument: tensor "w" is not whole: U8 [2,2] at [0,0] in "rank-0.safetensors" and U8 [2,2] at [1,1] in "rank-1.safetensors" overlap',
    ],
    [
      'parts of two types',
      twoRanks(piece([2], [0]), piece([2], [2], 'I8')),
      {},
      'InvalidArgument: tensor "w" is not whole: U8 [2] at [0] in "rank-0.safetensors" and I8 [2] at [2] in "rank-1.safetensors" do not fit together',
    ],
    [
      'parts of two ranks',
      twoRanks(piece([2], [0]), piece([2, 1], [2, 0])),
      {},
      'InvalidArgument: tensor "w" is not whole: U8 [2] at [0] in "rank-0.safetensors" and U8 [2,1] at [2,0] in "rank-1.safetensors" do not fit together',
    ],
    [
      'parts of an unknown type',
      twoRanks(piece([2], [0], 'X9'), piece([2], [2], 'X9')),
      {},
      'Unsupported: tensor "w" of type X9 is in 2 parts, and only elements of whole bytes can be joined',
    ],
    [
      'parts of the whole that metadata.json tells',
      { ...twoRanks(piece([2], [0]), piece([2], [2])), 'metadata.json': shapes([4]) },
      { from: ['rank-0*'] },
      'InvalidArgument: tensor "w" is not whole: its parts have 2 of the 4 elements of [4]',
    ],
    [
      'the first part alone, with the last one in a file left out',
      twoRanks(piece([2], [0]), piece([2], [2])),
      { from: ['rank-0*'] },
      'InvalidArgument: tensor "w" is not whole: its parts have 2 of the 4 elements of [4]',
    ],
    [
      'a part outside of it',
      { ...twoRanks(piece([2], [0]), piece([2], [2])), 'metadata.json': shapes([3]) },
      {},
      'InvalidArgument: tensor "w" is not whole: U8 [2] at [2] in "rank-1.safetensors" lies outside of its shape [3]',
    ],
    [
      'no shape in metadata.json',
      { ...twoRanks(piece([2], [0]), piece([2], [2])), 'metadata.json': shapes('4') },
      {},
      'InvalidArgument: "metadata.json" does not give the shape of tensor "w"',
    ],
    [
      'one name in two files',
      { 'a.safetensors': safetensors({ w: part([2]) }), 'b.safetensors': safetensors({ w: part([2]) }) },
      {},
      'InvalidArgument: tensor "w" is in "a.safetensors" and in "b.safetensors", which do not say that they hold parts of it; choose one of the files',
    ],
  ])('%s is refused, and nothing is written', async (_, buffers, options, message) => {
    expect(await failure(exported(buffers, options))).toBe(message);
    expect(await readdir(root)).toEqual([]);
  });

  test('files left out count only beside the chosen ones, as parts of the same tensor', async () => {
    const [whole, other] = [piece([2], [0]), piece([2], [2])];
    const names = (a: Piece, b: Piece) => Object.values(twoRanks(a, b)) as [Uint8Array, Uint8Array];
    const [chosen, last] = names(whole, other);
    const [, flat] = names(whole, piece([2, 2], [2, 0]));
    const left = { 'b/last.safetensors': last, 'a/flat.safetensors': flat };
    const rest = { 'a/whole.safetensors': safetensors({ w: part([9]) }), 'a/x.safetensors': bytes(99) };
    const files = { 'a/chosen.safetensors': chosen, ...left, ...rest };
    await exported(files, { from: ['a/chosen*'] });
    expect((await readModel()).get('w')?.shape).toEqual([2]);
    // Parts in two directories make one tensor.
    const apart = { 'a/first.safetensors': chosen, 'b/last.safetensors': last, 'b/no.safetensors': plain };
    await exported(apart, { from: ['a/first*', 'b/last*'], replace: true });
    expect((await readModel()).get('w')?.shape).toEqual([4]);
  });

  test('a metadata.json that is too large is not read, and files cannot be chosen', async () => {
    const large = Buffer.alloc(33 * 1024 * 1024, ' ');
    const ranks = { ...twoRanks(piece([2], [0]), piece([2], [2])), 'metadata.json': large };
    expect(await failure(exported(ranks, { from: ['rank-*'] }))).toMatch(
      /^Unsupported: its metadata.json is too large to tell whether the chosen files hold all parts/,
    );
    expect(await exported(ranks)).toMatchObject({ tensorCount: 1 });
  });

  test('a metadata.json of another program counts for nothing', async () => {
    const ranks = twoRanks(piece([2], [0]), piece([2], [2]));
    for (const text of ['{', '[]', '{"format":"other","tensors":{"w":{"shape":[9]}}}'])
      expect(
        await exported({ ...ranks, 'metadata.json': Buffer.from(text) }, { replace: true }),
      ).toMatchObject({ tensorCount: 1 });
  });
});

describe('refused, and nothing is written', () => {
  test.each<[string, Record<string, Uint8Array>, Omit<ExportTensorsOptions, 'to'>, RegExp]>([
    [
      'no safetensors file',
      { 'a.pt': bytes(9) },
      {},
      /^NotFound: no file of the checkpoint is a \.safetensors or \.distcp file$/,
    ],
    [
      'no file of that name',
      { 'a.safetensors': plain },
      { from: ['b*'] },
      /^NotFound: no file of the checkpoint matches/,
    ],
    [
      'nothing to copy',
      { 'a.safetensors': plain },
      { also: ['*.json'] },
      /^NotFound: no file of the checkpoint matches "\*\.json"$/,
    ],
    ['no tensor', { 'a.safetensors': safetensors({}) }, {}, /^NotFound: the files hold no tensor$/],
    [
      'no tensor below the prefix',
      { 'a.safetensors': plain },
      { prefix: 'x.' },
      /^NotFound: no tensor has a name that begins with "x\."; there are "model\.b", "model\.w", "optimizer\.w"$/,
    ],
    [
      'a file of another format',
      { 'a.safetensors': bytes(99) },
      {},
      /^InvalidArgument: "a\.safetensors" is not read as safetensors: its header/,
    ],
    [
      'a file that would be there twice',
      { 'model.safetensors': plain },
      { also: ['model.safetensors'] },
      /^InvalidArgument: "model\.safetensors" would be copied, and the export writes a file of this name/,
    ],
    ['no such version', { 'a.safetensors': plain }, { version: 8 }, /^NotFound: /],
  ])('%s', async (_, buffers, options, message) => {
    expect(await failure(exported(buffers, options))).toMatch(message);
    expect(await readdir(root)).toEqual([]);
  });

  test('bytes that do not match their record', async () => {
    const bucket = newBucket();
    await using manager = openRun(bucket);
    const large = safetensors({ w: part([2_000_000]) });
    await manager.save({ version: 1, buffers: { 'a.safetensors': large } });
    const key = bucket.keys().find((each) => each.endsWith('a.safetensors')) as string;
    const stored = bucket.find(key)?.bytes as Uint8Array;
    stored[1_500_000] = 255 - (stored[1_500_000] as number);
    expect(await failure(manager.admin.exportTensors({ to }))).toMatch(/^Corrupt: .*a\.safetensors/);
    expect(await readdir(root)).toEqual([]);
  });

  test('a directory with other files, unless it is replaced', async () => {
    await exported({ 'a.safetensors': plain });
    expect(await failure(exported({ 'a.safetensors': plain }))).toMatch(/^TargetExists: /);
    await exported({ 'b.safetensors': safetensors({ v: part([1]) }) }, { replace: true });
    expect([...(await readModel()).keys()]).toEqual(['v']);
    await writeFile(join(to, 'notes'), 'mine');
    expect(await failure(exported({ 'a.safetensors': plain }, { replace: true }))).toMatch(/^TargetExists: /);
  });

  test('an export that is stopped', async () => {
    await using manager = openRun();
    await manager.save({ version: 1, buffers: { 'a.safetensors': safetensors({ w: part([30_000_000]) }) } });
    const stop = new AbortController();
    const onProgress = () => stop.abort();
    expect(await failure(manager.admin.exportTensors({ to, onProgress, signal: stop.signal }))).toMatch(
      /^Aborted: /,
    );
    expect(await readdir(root)).toEqual([]);
  });
});

test('progress counts the bytes of each file once, and ends with all', async () => {
  const tensors = { a: part([20_000_000]), b: part([10], 2) };
  const said: [string, number, number][] = [];
  let planned: unknown;
  const { files } = await exported(
    { 'a.safetensors': safetensors(tensors) },
    {
      fileBytesMax: 1,
      onProgress: (event) => {
        if (event.type === 'planned') planned = event.files;
        if (event.type === 'bytes') said.push([event.name, event.doneBytes, event.totalBytes]);
      },
    },
  );
  expect(planned).toEqual(files);
  const [large, small] = files as [(typeof files)[0], (typeof files)[0]];
  expect(said.filter(([name]) => name === large.name).map(([, done]) => done)).toHaveLength(3);
  expect(said.filter(([, done, total]) => done === total)).toEqual([
    [large.name, large.sizeBytes, large.sizeBytes],
    [small.name, small.sizeBytes, small.sizeBytes],
  ]);
});

test('each byte is read once, but for headers', async () => {
  const bucket = newBucket();
  const large = safetensors({ w: part([5_000_000]) });
  await using manager = open(bucket, { files: localFiles, store: new CountingStore(bucket) });
  await manager.save({ version: 1, buffers: { 'a.safetensors': large } });
  CountingStore.bytesRead = 0;
  await manager.admin.exportTensors({ to });
  expect(CountingStore.bytesRead).toBeGreaterThanOrEqual(large.byteLength);
  // The first part of a file is read for its header, and records are small.
  expect(CountingStore.bytesRead).toBeLessThan(large.byteLength + 300_000);
});

class CountingStore extends MemoryStore {
  static bytesRead = 0;

  override async readInto(...args: Parameters<MemoryStore['readInto']>): Promise<number> {
    const count = await super.readInto(...args);
    CountingStore.bytesRead += count;
    return count;
  }
}
