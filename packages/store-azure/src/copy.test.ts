import { describe, expect, it } from 'vitest';
import { copyRanges } from './copy.ts';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

describe('copyRanges', () => {
  it.each([
    [1, 1],
    [256 * MIB, 1],
    [256 * MIB + 1, 2],
    [5 * GIB, 20],
    [5 * GIB + 1, 21],
    [50_000 * 256 * MIB, 50_000],
    [50_000 * 256 * MIB + 1, 50_000],
    [190 * 1024 * GIB, 50_000],
  ])(
    '%i bytes are copied in at most %i blocks, without a gap, each of at most 4,000 MiB',
    (sizeBytes, most) => {
      const ranges = copyRanges(sizeBytes);
      expect(ranges.length).toBeLessThanOrEqual(most);
      expect(ranges.length).toBeGreaterThan(most * 0.99);
      let end = 0;
      for (const range of ranges) {
        if (range.start !== end || range.end - range.start > 4000 * MIB || range.end <= range.start)
          throw new Error(`the range ${range.start} to ${range.end} after ${end}`);
        end = range.end;
      }
      expect(end).toBe(sizeBytes);
    },
  );
});
