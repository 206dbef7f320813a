import { expect, test } from 'vitest';
import { byteTicksOf } from './scale.ts';

const MIB = 1024 ** 2;

test.each([
  [64 * MIB, [0, 50 * MIB]],
  [100 * MIB, [0, 50 * MIB, 100 * MIB]],
  [1.5 * 1024 * MIB, [0, 512 * MIB, 1024 * MIB, 1536 * MIB]],
  [900, [0, 500]],
  [1, [0, 0.5, 1]],
])('ticks up to %d bytes are round in their unit', (max, ticks) => {
  expect(byteTicksOf({ min: 0, max }, 3)).toEqual(ticks);
});
