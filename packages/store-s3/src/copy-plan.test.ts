import { describe, expect, test } from 'vitest';
import { COPY_LIMITS, type CopyLimits, planCopy, S3_COPY_LIMITS } from './copy-plan.ts';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

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
