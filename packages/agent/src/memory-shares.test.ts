import { SETTINGS } from '@holdfast/core';
import { expect, test } from 'vitest';
import { sharesOf } from './memory-shares.ts';

const MIB = 1024 * 1024;

test('saves, restores and reads stay within the budget together', () => {
  for (const mib of [32, 256, 1024]) {
    const { transferBytes, streamBytes } = sharesOf(mib * MIB);
    const aheadBytes = transferBytes / 4;
    expect(transferBytes + aheadBytes + streamBytes).toBe(mib * MIB);
    expect(transferBytes).toBe((mib / 2) * MIB);
  }
  expect(sharesOf()).toEqual(sharesOf(SETTINGS.bufferBytes.default));
});

test('the smallest budget is for transfers', () => {
  expect(sharesOf(16 * MIB)).toEqual({ transferBytes: 16 * MIB, streamBytes: 0 });
});
