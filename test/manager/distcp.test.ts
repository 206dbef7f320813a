/** Checkpoints that PyTorch has saved by DCP's own writer: see test/golden/dcp/make.py. */

import { mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ExportTensorsOptions } from '@holdfast/core';
import { localFiles } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { readSafetensors } from '../elasticdl/safetensors-file.ts';
import { failure, newBucket, open } from './memory-run.ts';

const GOLDEN = fileURLToPath(new URL('../golden/dcp/', import.meta.url));

let root: string;
let to: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-distcp-'));
  to = join(root, 'model');
});
afterEach(() => rm(root, { recursive: true, force: true }));

type Files = Record<string, Buffer>;

async function saved(below = ''): Promise<Files> {
  const names = {
    '.metadata': 'metadata.pickle',
    '__0_0.distcp': '__0_0.distcp',
    '__1_0.distcp': '__1_0.distcp',
  };
  const files = Object.entries(names).map(async ([name, file]) => {
    return [`${below}${name}`, await readFile(join(GOLDEN, file))] as const;
  });
  return Object.fromEntries(await Promise.all(files));
}

async function exported(buffers: Files, options: Omit<ExportTensorsOptions, 'to'> = { prefix: 'model.' }) {
  await using manager = open(newBucket(), { files: localFiles });
  await manager.save({ version: 5, buffers });
  return await manager.admin.exportTensors({ to, ...options });
}

/** Numbers of a type, as bytes. */
const f32 = (...values: number[]) => Buffer.from(Float32Array.from(values).buffer);
const bf16 = (...values: number[]) =>
  Buffer.concat(values.map((value) => Buffer.from(Float32Array.of(value).buffer).subarray(2)));
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at);

test.each(['', 'state/fsdp/'])('tensors of two ranks are joined (below "%s")', async (below) => {
  const { tensorCount } = await exported(await saved(below));
  const { tensors } = await readSafetensors(join(to, 'model.safetensors'));
  expect([tensorCount, Object.fromEntries(tensors)]).toEqual([
    4,
    {
      rows: { dtype: 'F32', shape: [7, 2], bytes: f32(...upTo(14)) },
      columns: { dtype: 'BF16', shape: [2, 6], bytes: bf16(...upTo(12)) },
      count: { dtype: 'I64', shape: [], bytes: Buffer.from([5, 0, 0, 0, 0, 0, 0, 0]) },
      none: { dtype: 'F32', shape: [0, 3], bytes: Buffer.alloc(0) },
    },
  ]);
});

test('tensors that were exported as distcp are exported from there', async () => {
  const { files } = await exported(await saved(), { prefix: 'model.', layout: 'distcp', fileBytesMax: 40 });
  const names = ['__0_0.distcp', '__0_1.distcp', '.metadata'];
  expect(files.map(({ name }) => name)).toEqual(names);
  const read = names.map(async (name) => [name, await readFile(join(to, name))] as const);
  const again = Object.fromEntries(await Promise.all(read));
  expect(files.map(({ sizeBytes }) => sizeBytes)).toEqual(names.map((name) => again[name]?.byteLength));
  const direct = join(root, 'direct');
  await rm(to, { recursive: true });
  await exported(await saved(), { prefix: 'model.' });
  await rename(to, direct);
  await exported(again, {});
  const model = 'model.safetensors';
  expect(await readFile(join(to, model))).toEqual(await readFile(join(direct, model)));
});

test('inspect shows the parts, and reads no .distcp file', async () => {
  await using manager = open(newBucket());
  const files = await saved();
  await manager.save({ version: 5, buffers: { ...files, 'notes.txt': Buffer.from('x') } });
  const found = await manager.admin.inspect();
  expect(found.bytesRead).toBe(files['.metadata']?.byteLength);
  const tensors = found.files.flatMap((file) =>
    (file.tensors ?? []).map((each) => ({ ...each, file: file.name })),
  );
  const rows = { name: 'model.rows', dtype: 'F32', fileOffsetBytes: null };
  expect(tensors.filter(({ name }) => name === 'model.rows')).toEqual([
    { ...rows, shape: [4, 2], sizeBytes: 32, offsets: [0, 0], file: '__0_0.distcp' },
    { ...rows, shape: [3, 2], sizeBytes: 24, offsets: [4, 0], file: '__1_0.distcp' },
  ]);
  expect(new Set(tensors.map(({ name }) => name)).size).toBe(5);
  expect(found.files.map(({ name, note }) => [name, note])).toEqual(
    ['.metadata', '__0_0.distcp', '__1_0.distcp', 'notes.txt'].map((name) => [name, '']),
  );
});

test('inspect notes a .metadata that it cannot read', async () => {
  await using manager = open(newBucket());
  await manager.save({ version: 5, buffers: { ...(await saved()), '.metadata': Buffer.from('{}') } });
  const { files } = await manager.admin.inspect();
  expect(files.map(({ tensors, note }) => [tensors, note])).toEqual([
    [null, 'it is not read as metadata of DCP: it has the operation 123, which is not read'],
    [null, ''],
    [null, ''],
  ]);
});

describe('refused, and nothing is written', () => {
  const damaged = async (name: string, change: (old: Buffer) => Buffer) => {
    const files = await saved();
    return { ...files, [name]: change(Buffer.from(files[name] as Buffer)) };
  };
  const without = async (name: string) => {
    const { [name]: _, ...files } = await saved();
    return files as Files;
  };
  const last = (text: string) => (old: Buffer) => {
    const at = old.lastIndexOf(text);
    return Buffer.concat([old.subarray(0, at), Buffer.from('x'), old.subarray(at + 1)]);
  };

  /** Replaces all occurrences of a text by another one of the same length. */
  const every = (from: string, to: string) => (old: Buffer) =>
    Buffer.from(old.toString('latin1').replaceAll(from, to), 'latin1');
  /** Changes the size in the directory of each archive. */
  const longByteOrder = (old: Buffer) => {
    const name = 'archive/byteorder';
    for (let at = old.indexOf(name); at >= 0; at = old.indexOf(name, at + 1))
      if (old.toString('latin1', at - 46, at - 42) === 'PK\x01\x02') old.writeUInt32LE(17, at - 22);
    return old;
  };

  test.each<[string, () => Promise<Files>, Omit<ExportTensorsOptions, 'to'>, RegExp]>([
    [
      'no .metadata',
      () => without('.metadata'),
      {},
      /^InvalidArgument: "__0_0\.distcp" is not read without the \.metadata/,
    ],
    [
      'a .metadata that is no pickle',
      () => damaged('.metadata', () => Buffer.from('{}')),
      {},
      /^InvalidArgument: "\.metadata" is not read as metadata of DCP: it has the operation 123/,
    ],
    [
      'a .metadata that is cut',
      () => damaged('.metadata', (old) => old.subarray(0, 900)),
      {},
      /^InvalidArgument: "\.metadata" is not read as metadata of DCP: it ends early$/,
    ],
    [
      'a .metadata of 17 MiB',
      () => damaged('.metadata', (old) => Buffer.concat([old, Buffer.alloc(17 * 2 ** 20)])),
      {},
      /^InvalidArgument: "\.metadata" is not read as metadata of DCP: it has 178\d+ bytes; at most 16777216/,
    ],
    [
      'one of two files',
      () => saved(),
      { from: ['__0*'], prefix: 'model.' },
      /^InvalidArgument: tensor "model\.rows" is not whole: its parts have 8 of the 14 elements of \[7,2\]$/,
    ],
    ['a file that is missing', () => without('__1_0.distcp'), { prefix: 'model.' }, /is not whole/],
    [
      'an archive without its end',
      () => damaged('__1_0.distcp', (old) => old.subarray(0, -1)),
      { prefix: 'strided' },
      /^InvalidArgument: part \[0,0\] of tensor "strided\.t" in "__1_0\.distcp" is not read: the file ends before it$/,
    ],
    [
      'an archive with another end',
      () => damaged('__1_0.distcp', last('PK\x05\x06')),
      { prefix: 'strided' },
      /is not read: it does not have its end as torch\.save writes it$/,
    ],
    [
      'an archive with another directory',
      () => damaged('__1_0.distcp', last('PK\x01\x02')),
      { prefix: 'strided' },
      /is not read: it does not have its directory as torch\.save writes it$/,
    ],
    [
      'elements of another byte order',
      () => damaged('__0_0.distcp', every('little', 'big   ')),
      { prefix: 'model.r' },
      /^Unsupported: part \[0,0\] of tensor "model\.rows" in "__0_0\.distcp" has the byte order "big {3}"; only "little" is read$/,
    ],
    [
      'a byte order of 17 bytes',
      () => damaged('__0_0.distcp', longByteOrder),
      { prefix: 'model.r' },
      /^InvalidArgument: .* is not read: its byteorder has 17 bytes$/,
    ],
    [
      'a storage of another type',
      () => damaged('__0_0.distcp', every('FloatStorage', 'ShortStorage')),
      { prefix: 'model.r' },
      /^InvalidArgument: .* is not read: it has the type "I16", and the metadata say F32$/,
    ],
    [
      'a storage of a type that safetensors does not have',
      () => damaged('__0_0.distcp', every('FloatStorage', 'OtherStorage')),
      { prefix: 'model.r' },
      /is not read: it has the type "OtherStorage", and the metadata say F32$/,
    ],
    [
      'elements in another order',
      () => saved(),
      { prefix: 'strided' },
      /^Unsupported: part \[0,0\] of tensor "strided\.t" in "__1_0\.distcp" has the strides \[1,3\]; only elements in C order are read$/,
    ],
  ])('%s', async (_, files, options, message) => {
    expect(await failure(exported(await files(), options))).toMatch(message);
    expect(await readdir(root)).toEqual([]);
  });
});
