import type { InspectedFile, InspectResult } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import { inspectText } from './inspect-text.ts';

const part = (name: string, shape: number[], offsets: number[] | null) => ({
  name,
  dtype: 'F32',
  shape,
  sizeBytes: 4 * shape.reduce((product, side) => product * side, 1),
  offsets,
  fileOffsetBytes: 80,
});

const files: InspectedFile[] = [
  {
    ...{ name: 'rank-1.safetensors', writer: 1, sizeBytes: 99, note: '' },
    tensors: [part('w', [2, 4], [2, 0]), part('b\u001b[31m', [3], [0])],
  },
  { name: 'rank-0.safetensors', writer: 0, sizeBytes: 99, tensors: [part('w', [2, 4], [0, 0])], note: '' },
  { name: 'step', writer: 0, sizeBytes: 3, tensors: null, note: '' },
  { name: 'x.safetensors', writer: 0, sizeBytes: 7, tensors: null, note: 'it is not read as safetensors: …' },
];
const result: InspectResult = { id: { lineage: 1, epoch: 1, version: 7n }, files, bytesRead: 100 };

/** Lines with one bar between their columns. */
const linesOf = (withParts: boolean, of = result) =>
  [...inspectText(of, { style: (_, text) => text, withParts })].map((line) => line.replace(/ {2,}/g, '|'));

test('parts of a tensor are put together; names cannot control the terminal; other files are named', () => {
  expect(linesOf(false)).toEqual([
    'version 7|2 tensors|76 B|in 2 files',
    '',
    'TENSOR|TYPE|SHAPE|SIZE|WRITER|FILE',
    'b\\x1b[31m|F32|[3]|12 B|1|rank-1.safetensors',
    'w|F32|[4, 4]|64 B|2 writers|2 parts',
    '',
    'step|3 B|no safetensors file',
    'x.safetensors|7 B|it is not read as safetensors: …',
  ]);
});

test('each part with its place, in the order of places', () => {
  expect(linesOf(true).filter((line) => line.startsWith('w'))).toEqual([
    'w|F32|[2, 4]|32 B|0|rank-0.safetensors',
    'w|F32|[2, 4] at [2, 0]|32 B|1|rank-1.safetensors',
  ]);
});

test('a checkpoint without tensors has no table', () => {
  const none = files.filter(({ tensors }) => tensors === null).slice(0, 1);
  expect(linesOf(false, { ...result, files: none })).toEqual([
    'version 7|0 tensors|0 B|in 0 files',
    '',
    'step|3 B|no safetensors file',
  ]);
});
