import { describe, expect, test } from 'vitest';
import { type CopyLimits, planCopy } from './copy-plan.ts';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

/**
 * Limits of S3: https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html. AWS rejects more
 * than 5 GiB at once. Other servers accept it.
 */
const S3_COPY_LIMITS: CopyLimits = {
  wholeBytesMax: 5 * GIB,
  partBytesMin: 5 * MIB,
  partBytesMax: 5 * GIB,
  partCountMax: 10_000,
};

/**
 * Limits that Holdfast uses: one request moves some hundred MB/s at best, so larger parts would
 * exceed request timeouts.
 */
const COPY_LIMITS: CopyLimits = {
  ...S3_COPY_LIMITS,
  wholeBytesMax: 256 * MIB,
  partBytesMax: 256 * MIB,
};

const sizes = (sizeBytes: number, limits: CopyLimits) =>
  planCopy(sizeBytes, limits)?.ranges.map(({ start, end }) => end - start) ?? null;

describe('what S3 takes', () => {
  test('up to 5 GiB is one request, exactly 5 GiB included', () => {
    expect([
      sizes(0, S3_COPY_LIMITS),
      sizes(5 * GIB - 1, S3_COPY_LIMITS),
      sizes(5 * GIB, S3_COPY_LIMITS),
    ]).toEqual([...[null, null, null]]);
  });

  test('one byte more is two parts, alike: the last is no rest of one byte', () => {
    expect(sizes(5 * GIB + 1, S3_COPY_LIMITS)).toEqual([(5 * GIB) / 2 + 1, (5 * GIB) / 2]);
  });

  test('what would leave a last part below the least is cut otherwise', () => {
    const last = sizes(10 * GIB + 4 * MIB, S3_COPY_LIMITS)?.at(-1);
    expect(last).toBeGreaterThan(3 * GIB);
  });

  test('the largest object of all: 10,000 parts of 5 GiB', () => {
    const parts = sizes(10_000 * 5 * GIB, S3_COPY_LIMITS);
    expect([parts?.length, parts?.[0], parts?.at(-1)]).toEqual([10_000, 5 * GIB, 5 * GIB]);
  });
});

test('what we ask for: parts of up to 256 MiB, and larger ones where they would be more than 10,000', () => {
  expect(sizes(256 * MIB, COPY_LIMITS)).toBe(null);
  expect(sizes(256 * MIB + 1, COPY_LIMITS)).toEqual([128 * MIB + 1, 128 * MIB]);
  expect(sizes(5 * 1024 * GIB, COPY_LIMITS)?.length).toBe(10_000);
});

test('any size: the parts cover it without gap or overlap, all but the last alike, within the limits', () => {
  const limits = { wholeBytesMax: 100, partBytesMin: 10, partBytesMax: 60, partCountMax: 50 };
  for (let sizeBytes = 101; sizeBytes <= 3000; sizeBytes += 1) {
    const plan = planCopy(sizeBytes, limits);
    const ranges = plan?.ranges ?? [];
    const lengths = ranges.map(({ start, end }) => end - start);
    expect(ranges.map(({ start }) => start)).toEqual([0, ...ranges.slice(0, -1).map(({ end }) => end)]);
    expect(ranges.at(-1)?.end).toBe(sizeBytes);
    expect(new Set(lengths.slice(0, -1))).toEqual(new Set([plan?.partSizeBytes]));
    expect(Math.min(...lengths.slice(0, -1))).toBeGreaterThanOrEqual(10);
    expect(Math.max(...lengths)).toBeLessThanOrEqual(60);
    expect(ranges.length).toBeLessThanOrEqual(50);
  }
});

describe('what Azure takes', () => {
  const AZURE_COPY_LIMITS: CopyLimits = {
    wholeBytesMax: 256 * MIB,
    partBytesMin: 1,
    partBytesMax: 256 * MIB,
    partCountMax: 50_000,
  };

  test.each([
    [256 * MIB + 1, 2],
    [5 * GIB, 20],
    [5 * GIB + 1, 21],
    [50_000 * 256 * MIB, 50_000],
    [50_000 * 256 * MIB + 1, 50_000],
    [190 * 1024 * GIB, 50_000],
  ])(
    '%i bytes are copied in at most %i blocks, without a gap, each of at most 4,000 MiB',
    (sizeBytes, most) => {
      const ranges = planCopy(sizeBytes, AZURE_COPY_LIMITS)?.ranges ?? [];
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
