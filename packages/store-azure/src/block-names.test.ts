import { expect, test } from 'vitest';
import { type BlockName, blockName, parseBlockName } from './block-names.ts';

const uploadId = '0123456789abcdef0123456789abcdef';

test('names say what a block is, and are of one length, which is no more than Azure takes', () => {
  const blocks: BlockName[] = [
    { uploadId, kind: 'part', index: 0, crc32c: 0 },
    { uploadId, kind: 'part', index: 49_999, crc32c: 0xffffffff },
    { uploadId, kind: 'begun', beganAtMs: Date.UTC(2026, 10, 21, 10) },
    { uploadId, kind: 'aborted' },
  ];
  const names = blocks.map(blockName);
  expect(names.map((name) => name.length)).toEqual([47, 47, 47, 47]);
  expect(new Set(names).size).toBe(names.length);
  expect(names.map(parseBlockName)).toEqual(blocks);
});

test.each(['', uploadId, `${uploadId}copy000001`, `${uploadId}begun--`, `${uploadId}000000x00000000`])(
  'a name that this store did not make is null: %j',
  (name) => expect(parseBlockName(name)).toBeNull(),
);
