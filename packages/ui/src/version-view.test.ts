import type { DiffResult, InspectResult } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import { diffView, tensorsView } from './version-view.ts';

test('a difference counts all files, and holds the first 2,000 that differ', () => {
  const file = (index: number, change: string) => ({
    ...{ name: `f${index}`, change, note: '', tensors: null },
    beforeBytes: change === 'added' ? null : 1,
    afterBytes: change === 'removed' ? null : 2,
  });
  const changes = ['changed', 'added', 'removed', 'same'];
  const files = Array.from({ length: 4000 }, (_, index) => file(index, changes[index % 4] as string));
  const id = (version: bigint) => ({ version, lineage: 1, epoch: 1 });
  const result = { before: id(1n), after: id(2n), files, bytesRead: 7 } as unknown as DiffResult;
  const view = diffView(result);
  expect(view.counts).toEqual({ changed: 1000, added: 1000, removed: 1000, same: 1000 });
  expect(view.files).toHaveLength(2000);
  expect(view.files.slice(0, 3)).toMatchObject([
    { name: 'f0', change: 'changed', beforeBytes: 1, afterBytes: 2 },
    { name: 'f1', change: 'added', beforeBytes: null, afterBytes: 2 },
    { name: 'f2', change: 'removed', beforeBytes: 1, afterBytes: null },
  ]);
});

test('tensors: counts and bytes by type, a bin for each power of two, the largest first', () => {
  const tensor = (name: string, dtype: string, shape: number[], sizeBytes: number) => ({
    ...{ name, dtype, shape, sizeBytes },
    offsets: null,
    fileOffsetBytes: 0,
  });
  const files = [
    {
      ...{ name: 'a', writer: 0, sizeBytes: 9, note: '' },
      tensors: [
        tensor('empty', 'F32', [0], 0),
        tensor('small', 'F16', [2, 3], 12),
        tensor('large', 'F32', [4, 4], 64),
      ],
    },
    { ...{ name: 'b', writer: 1, sizeBytes: 9, note: 'its header is cut' }, tensors: null },
  ];
  const view = tensorsView({ files, bytesRead: 100 } as unknown as InspectResult);
  expect(view).toMatchObject({
    tensorCount: 3,
    sizeBytes: 76,
    bytesRead: 100,
    dtypes: [
      { dtype: 'F32', count: 2, sizeBytes: 64 },
      { dtype: 'F16', count: 1, sizeBytes: 12 },
    ],
    notes: ['b: its header is cut'],
  });
  expect(view.largest.map(({ name, file }) => `${file} ${name}`)).toEqual(['a large', 'a small', 'a empty']);
  expect(view.histogram.filter(({ count }) => count > 0)).toEqual([
    { fromBytes: 0, toBytes: 1, count: 1 },
    { fromBytes: 8, toBytes: 16, count: 1 },
    { fromBytes: 64, toBytes: 128, count: 1 },
  ]);
});
