import { isCheckpointError } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import type { ShardOutline, TableOutline } from '../sink.ts';
import { outlineFile } from './outline-file.ts';
import { Message } from './write-message.ts';

const TABLE: TableOutline = { name: 't', dtype: 'float32', dim: 2, rowCount: 3, idsBytes: 4 };
const OUTLINE: ShardOutline = {
  version: 1,
  infos: [{ name: 't', dim: 2, initializer: '', dtype: 'float32' }],
  dense: [{ name: 'v', dtype: 'int64', shape: [5] }],
  tables: [TABLE],
};

test.each(['S4', 'S7'] as const)('%s: pieces follow one another without a gap, to the size', (form) => {
  const { sizeBytes, pieces } = outlineFile(OUTLINE, form);
  let end = 0;
  for (const piece of pieces) {
    expect(piece.offsetBytes).toBe(end);
    end += piece.kind === 'literal' ? piece.bytes.length : piece.lengthBytes;
  }
  expect(end).toBe(sizeBytes);
  const contents = pieces.filter((piece) => piece.kind !== 'literal');
  expect(contents.map(({ kind, name, lengthBytes }) => [kind, name, lengthBytes])).toEqual([
    ['dense', 'v', 40],
    ['values', 't', 24],
    ['ids', 't', 4],
  ]);
  const kinds = pieces.map(({ kind }) => kind);
  expect(kinds.some((kind, i) => kind === 'literal' && kinds[i + 1] === 'literal')).toBe(false);
});

test('lengths beyond 2^32 are exact, and no memory is taken for them', () => {
  const rowCount = 2 ** 40 + 1;
  const large = { ...OUTLINE, dense: [], tables: [{ ...TABLE, rowCount, idsBytes: rowCount * 10 }] };
  const { sizeBytes, pieces } = outlineFile(large, 'S7');
  const [values, ids] = pieces.filter((piece) => piece.kind !== 'literal');
  expect(values).toMatchObject({ kind: 'values', lengthBytes: rowCount * 8 });
  expect(ids).toMatchObject({ kind: 'ids', lengthBytes: rowCount * 10 });
  expect(sizeBytes).toBe((ids?.offsetBytes ?? 0) + rowCount * 10);
});

test.each<[string, Partial<ShardOutline>, string]>([
  [
    'more ids than they can have bytes',
    { tables: [{ ...TABLE, idsBytes: 31 }] },
    'bytes of ids of table "t": expected 3 to 30 for 3 rows, found 31',
  ],
  ['fewer', { tables: [{ ...TABLE, idsBytes: 2 }] }, 'expected 3 to 30 for 3 rows, found 2'],
  [
    'ids without rows',
    { tables: [{ ...TABLE, rowCount: 0, idsBytes: 1 }] },
    'expected 0 to 0 for 0 rows, found 1',
  ],
  [
    'a count that is none',
    { tables: [{ ...TABLE, rowCount: -1 }] },
    'shape of table "t": expected an integer',
  ],
  [
    'more than a number holds',
    { dense: [{ name: 'v', dtype: 'int64', shape: [2 ** 30, 2 ** 30] }] },
    'size of variable "v": expected less than 2^53 bytes, found 9223372036854776000 bytes',
  ],
])('%s: InvalidArgument', (_what, change, message) => {
  try {
    outlineFile({ ...OUTLINE, ...change }, 'S7');
    expect.unreachable();
  } catch (error) {
    expect(isCheckpointError(error, 'InvalidArgument')).toBe(true);
    expect(String(error)).toContain(message);
  }
});

test('a message within another keeps its bytes together: a model may have a million of them', () => {
  const content = { kind: 'dense', name: 'v', lengthBytes: 4 } as const;
  const inner = new Message().text(1, 'v').number(2, 7).content(3, content).number(4, 300);
  const { parts, lengthBytes } = new Message().message(5, new Message().key(1, 'v').message(2, inner));
  expect(parts).toEqual([expect.any(Uint8Array), content, expect.any(Uint8Array)]);
  expect(lengthBytes).toBe(2 + 3 + 2 + (3 + 2 + 2 + 4 + 3));
});
