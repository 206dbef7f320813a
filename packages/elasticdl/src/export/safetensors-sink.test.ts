import type { RestoreTarget } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import type { Dtype } from '../model.ts';
import type { ShardOutline } from '../sink.ts';
import { SafetensorsSink } from './safetensors-sink.ts';
import type { TableOptions } from './table-storage.ts';

/** A file whose unwritten parts read as zeros. Records where it was written. */
function memoryFile() {
  const file = { bytes: new Uint8Array(0), endBytes: 0, isClosed: false, writes: [] as number[] };
  const target: RestoreTarget = {
    async open({ sizeBytes }) {
      file.bytes = new Uint8Array(sizeBytes);
      return {
        async writeAt(offsetBytes, buffer) {
          file.writes.push(offsetBytes);
          file.bytes.set(buffer, offsetBytes);
          file.endBytes = Math.max(file.endBytes, offsetBytes + buffer.byteLength);
        },
        async close() {
          file.isClosed = true;
        },
      };
    },
    publish: () => Promise.reject(new Error('the sink settles nothing')),
    discard: () => Promise.reject(new Error('the sink settles nothing')),
  };
  return { file, target };
}

const table = (name: string, rowCount: number, dim = 2, dtype: Dtype = 'float32') => ({
  name,
  dtype,
  dim,
  rowCount,
  idsBytes: rowCount,
});

const OUTLINE: ShardOutline = {
  version: 100,
  infos: [
    { name: 'user', dim: 2, initializer: 'normal', dtype: null },
    { name: 'item', dim: 2, initializer: 'uniform', dtype: 'float32' },
  ],
  dense: [{ name: 'bias', dtype: 'float32', shape: [2] }],
  tables: [table('user', 3), table('item', 2), table('user-m', 3), table('empty', 0, 5, 'int16')],
};

const floats = (...values: number[]) => new Uint8Array(Float32Array.from(values).buffer);

async function written(options: TableOptions<number>, denseBytes = 0) {
  const { file, target } = memoryFile();
  const sink = new SafetensorsSink(target, { ...options, name: 'model', denseBytes });
  await sink.begin(OUTLINE);
  await sink.putDense('bias', 0, floats(7));
  await sink.putDense('bias', 4, floats(8));
  await sink.putRows('user', 0, BigInt64Array.of(5n, -9n), floats(1, 2, 3, 4));
  await sink.putRows('user', 2, BigInt64Array.of(2n ** 62n), floats(5, 6));
  await sink.putRows('item', 0, BigInt64Array.of(3n, 1n), floats(30, 31, 10, 11));
  await sink.putRows('user-m', 0, BigInt64Array.of(5n, -9n, 2n ** 62n), floats(9, 9, 9, 9, 9, 9));
  await sink.end();
  const { layout } = sink.plan;
  const bytesOf = (name: string) => {
    const found = layout.tensors.find((tensor) => tensor.name === name);
    return file.bytes.slice(
      found?.offsetBytes ?? Number.NaN,
      (found?.offsetBytes ?? 0) + (found?.sizeBytes ?? 0),
    );
  };
  return { file, sink, layout, bytesOf };
}

test('sparse: ids and rows as they came; slots are left out', async () => {
  const { file, sink, layout, bytesOf } = await written({});
  expect(layout.tensors.map(({ name, dtype, shape }) => `${name} ${dtype} [${shape}]`)).toEqual([
    'empty.ids I64 [0]',
    'item.ids I64 [2]',
    'user.ids I64 [3]',
    'bias F32 [2]',
    'item.values F32 [2,2]',
    'user.values F32 [3,2]',
    'empty.values I16 [0,5]',
  ]);
  expect(file.bytes.subarray(0, layout.header.byteLength)).toEqual(layout.header);
  expect([...new BigInt64Array(bytesOf('user.ids').buffer)]).toEqual([5n, -9n, 2n ** 62n]);
  expect(bytesOf('user.values')).toEqual(floats(1, 2, 3, 4, 5, 6));
  expect([...new BigInt64Array(bytesOf('item.ids').buffer)]).toEqual([3n, 1n]);
  expect(bytesOf('item.values')).toEqual(floats(30, 31, 10, 11));
  expect(bytesOf('bias')).toEqual(floats(7, 8));
  expect(sink.plan.dropped).toEqual(['user-m']);
  expect(file).toMatchObject({ endBytes: layout.sizeBytes, isClosed: true });
});

test.each([0, 1000])(
  'dense, with %i bytes to put it together in: rows by id, zeros for others',
  async (denseBytes) => {
    const { file, layout, bytesOf } = await written({ rowCounts: { item: 4, empty: 2 } }, denseBytes);
    expect(bytesOf('item')).toEqual(floats(0, 0, 10, 11, 0, 0, 30, 31));
    expect(bytesOf('empty')).toEqual(new Uint8Array(20));
    expect(layout.tensors.find(({ name }) => name === 'item')).toMatchObject({ dtype: 'F32', shape: [4, 2] });
    expect(layout.tensors.at(-1)?.name).toBe('empty');
    expect(file).toMatchObject({ endBytes: layout.sizeBytes, isClosed: true });
  },
);

test('the document and the metadata of the file say the same of the tables', async () => {
  const { sink, layout } = await written({ rowCounts: { item: 4 } });
  expect(sink.plan.document).toEqual({
    form: 'holdfast-elasticdl-export-1',
    version: 100,
    tables: [
      { name: 'user', dim: 2, dtype: 'float32', initializer: 'normal', stored: 'sparse', rowCount: 3 },
      { name: 'item', dim: 2, dtype: 'float32', initializer: 'uniform', stored: 'dense', rowCount: 2 },
      { name: 'empty', dim: 5, dtype: 'int16', initializer: null, stored: 'sparse', rowCount: 0 },
    ],
  });
  const { __metadata__: metadata } = JSON.parse(Buffer.from(layout.header.subarray(8)).toString());
  expect(metadata).toEqual({
    form: 'holdfast-elasticdl-export-1',
    version: '100',
    tables: JSON.stringify(sink.plan.document.tables),
  });
});

test('rows of a sparse table should lie in memory as in the file; the order of others does not matter', async () => {
  const { sink, layout } = await written({ rowCounts: { item: 4 } });
  const offsetBytes = layout.tensors.find(({ name }) => name === 'user.values')?.offsetBytes ?? Number.NaN;
  expect(sink.placeInPage('user', 0)).toBe(offsetBytes % 4096);
  expect(sink.placeInPage('user', 1000)).toBe((offsetBytes + 8000) % 4096);
  expect(sink.placeInPage('item', 1)).toBe(0);
  expect(sink.placeInPage('user-m', 1)).toBe(0);
});

test('a name that two tensors would have is refused before a file is opened', async () => {
  const { file, target } = memoryFile();
  const sink = new SafetensorsSink(target, { name: 'model', denseBytes: 0 });
  const outline = { ...OUTLINE, dense: [{ name: 'user.ids', dtype: 'int64' as const, shape: [3] }] };
  await expect(sink.begin(outline)).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: 'variable "user.ids" and the ids of table "user" would both be called "user.ids" in the file',
  });
  const dense = new SafetensorsSink(target, { name: 'model', denseBytes: 0, rowCounts: { user: 3 } });
  await expect(dense.begin({ ...OUTLINE, tables: [...OUTLINE.tables, table('user', 1)] })).rejects.toThrow(
    'table "user" and table "user" would both be called "user" in the file',
  );
  expect(file.writes).toEqual([]);
});

test('an id without a row is refused as it comes, should it not have been there before', async () => {
  await expect(written({ rowCounts: { user: 9 } })).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringContaining('table "user" has id -9, but is exported with 9 rows'),
  });
});

test('what is exported is not known before it has begun', () => {
  const sink = new SafetensorsSink(memoryFile().target, { name: 'model', denseBytes: 0 });
  expect(() => sink.plan).toThrow('the exported file was requested before it was begun');
});
