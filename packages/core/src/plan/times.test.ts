import { expect, test } from 'vitest';
import { recordedTimeMs } from './times.ts';

test.each([
  [1_763_858_438_123, 1_763_858_438_123],
  [1_763_858_438_123.9, 1_763_858_438_123],
  [0, 1],
  [-0.5, 1],
  [-86_400_000, 1],
  [-1e300, 1],
  [253_402_300_799_999.5, 253_402_300_799_999],
  [1e300, 253_402_300_799_999],
  [Number.NaN, 0],
  [Number.POSITIVE_INFINITY, 0],
  [undefined, 0],
  ['1763858438123' as unknown as number, 0],
])('a record says for %s: %i', (given, recorded) => {
  expect(recordedTimeMs(given)).toBe(recorded);
});
