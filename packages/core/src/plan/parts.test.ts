import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { completeSettings, isCheckpointError } from '../contract/index.ts';
import {
  type PartCapabilities,
  partBytesMax,
  planParts,
  planStream,
  planWholeParts,
  poolBytes,
} from './parts.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const TIB = 1024 * GIB;

const DEFAULTS = completeSettings();
const S3: PartCapabilities = {
  maxCreateBytes: 5 * GIB,
  minPartBytes: 5 * MIB,
  maxPartBytes: 5 * GIB,
  maxParts: 10_000,
};
const LOCAL: PartCapabilities = {
  maxCreateBytes: 64 * MIB,
  minPartBytes: 4096,
  maxPartBytes: GIB,
  maxParts: 1_000_000,
};

const anySettings = fc
  .tuple(fc.integer({ min: 64 * KIB, max: 1024 * MIB }), fc.integer({ min: 16 * MIB, max: 4095 * MIB }))
  .filter(([partSizeBytesMin, bufferBytes]) => partSizeBytesMin * 2 <= bufferBytes)
  .map(([partSizeBytesMin, bufferBytes]) => completeSettings({ partSizeBytesMin, bufferBytes }));

const anyStore: fc.Arbitrary<PartCapabilities> = fc
  .record({
    maxCreateBytes: fc.integer({ min: 1, max: 5 * GIB }),
    minPartBytes: fc.integer({ min: 1, max: 8 * MIB }),
    maxPartBytes: fc.integer({ min: 8 * MIB, max: 5 * GIB }),
    maxParts: fc.integer({ min: 1, max: 100_000 }),
  })
  .filter((store) => store.minPartBytes <= store.maxPartBytes);

const anySize = fc.oneof(
  fc.integer({ min: 1, max: 64 * MIB }),
  fc.maxSafeInteger().map((n) => (Math.abs(n) % (64 * TIB)) + 1),
);

describe('parts of a file of known size', () => {
  test.each([
    ['one byte', 1, 8 * MIB, 1, true],
    ['exactly one part', 8 * MIB, 8 * MIB, 1, true],
    ['a byte more than one part', 8 * MIB + 1, 8 * MIB, 2, false],
    ['100 MB', 100_000_000, 8 * MIB, 12, false],
    ['50 GB', 50_000_000_000, 16 * MIB, 2981, false],
    ['500 GB: 64 MiB is enough parts', 500_000_000_000, 64 * MIB, 7451, false],
    ['1 TB: as large as the store demands', 1_000_000_000_000, 128 * MIB, 7451, false],
  ])('%s', (_, sizeBytes, partSizeBytes, partCount, isWhole) => {
    expect(planParts(sizeBytes, DEFAULTS, S3)).toEqual({ partSizeBytes, partCount, isWhole });
  });

  test('an empty file is one create and has no part', () => {
    expect(planParts(0, DEFAULTS, S3)).toEqual({ partSizeBytes: 0, partCount: 0, isWhole: true });
  });

  test('a file of one part above maxCreateBytes is sent in parts', () => {
    const store = { ...LOCAL, maxCreateBytes: MIB };
    expect(planParts(MIB + 1, DEFAULTS, store)).toEqual({
      partSizeBytes: 8 * MIB,
      partCount: 1,
      isWhole: false,
    });
  });

  test('a file for which the budget is too small is Unsupported, and the message says what would do', () => {
    const plan = () => planParts(2 * TIB, DEFAULTS, S3);
    expect(plan).toThrow(/setting bufferBytes is 268435456; .* at least 439804652/);
    expect(() => planParts(2 * TIB, completeSettings({ bufferBytes: GIB }), S3)).not.toThrow();
  });

  test('a file too large for the store is Unsupported, and the message says what it takes', () => {
    const store = { ...S3, maxPartBytes: 64 * MIB, maxParts: 10 };
    expect(() => planParts(640 * MIB, DEFAULTS, store)).not.toThrow();
    expect(() => planParts(640 * MIB + 1, DEFAULTS, store)).toThrow(/at most 671088640/);
  });

  test('any size: parts cover the file, are within store and budget, start on pages; else Unsupported', () => {
    fc.assert(
      fc.property(anySize, anySettings, anyStore, (sizeBytes, settings, store) => {
        const plan = orUnsupported(() => planParts(sizeBytes, settings, store));
        if (plan === 'Unsupported') return;
        const { partSizeBytes, partCount, isWhole } = plan;
        expect(partCount).toBe(Math.ceil(sizeBytes / partSizeBytes));
        expect(partCount).toBeLessThanOrEqual(store.maxParts);
        expect(partSizeBytes).toBeLessThanOrEqual(Math.min(partBytesMax(settings), store.maxPartBytes));
        expect(partSizeBytes).toBeGreaterThanOrEqual(store.minPartBytes);
        expect(isWhole).toBe(partCount === 1 && sizeBytes <= store.maxCreateBytes);
        if (partSizeBytes !== store.maxPartBytes) expect(partSizeBytes % 4096).toBe(0);
      }),
      { numRuns: 2000 },
    );
  });

  test('any size: what is refused would not fit even the largest part that store and budget take', () => {
    fc.assert(
      fc.property(anySize, anySettings, anyStore, (sizeBytes, settings, store) => {
        if (orUnsupported(() => planParts(sizeBytes, settings, store)) !== 'Unsupported') return;
        const largest = Math.min(partBytesMax(settings), store.maxPartBytes);
        const fits = largest - 4096 >= store.minPartBytes && sizeBytes <= (largest - 4096) * store.maxParts;
        expect(fits).toBe(false);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('parts of a file that was checksummed in parts', () => {
  const plan = (sizeBytes: number, unitBytes: number, settings = DEFAULTS, store = S3) =>
    planWholeParts({ sizeBytes, unitBytes }, settings, store);

  test('as without, where they are whole ones anyway', () => {
    for (const size of [0, 5, 8 * MIB, 100 * MIB, 100 * GIB])
      expect(plan(size, size === 0 ? 0 : 8 * MIB)).toEqual(planParts(size, DEFAULTS, S3));
    expect(plan(100 * MIB, 64 * KIB)).toEqual(planParts(100 * MIB, DEFAULTS, S3));
  });

  test('larger ones of a file in large parts, and those of an odd size in multiples', () => {
    expect(plan(100 * MIB, 32 * MIB)).toEqual({ partSizeBytes: 32 * MIB, partCount: 4, isWhole: false });
    expect(plan(100 * MIB, 3 * MIB)).toEqual({ partSizeBytes: 9 * MIB, partCount: 12, isWhole: false });
    expect(plan(20 * MIB, 32 * MIB)).toEqual({ partSizeBytes: 32 * MIB, partCount: 1, isWhole: true });
    expect(plan(70 * MIB, 72 * MIB, DEFAULTS, LOCAL)).toMatchObject({ partCount: 1, isWhole: false });
  });

  test('as without, where store or budget have no room for one: half of the pool is the most', () => {
    const small = completeSettings({ bufferBytes: 64 * MIB });
    expect(plan(GIB, 32 * MIB, small).partSizeBytes).toBe(32 * MIB);
    expect(plan(GIB, 33 * MIB, small)).toEqual(planParts(GIB, small, S3));
    const store = { ...S3, maxPartBytes: 16 * MIB };
    expect(plan(GIB, 32 * MIB, DEFAULTS, store)).toEqual(planParts(GIB, DEFAULTS, store));
  });
});

describe('parts of a stream', () => {
  test('a store with many parts: the smallest; S3: 32 MiB, for memory counts more than 1 TiB', () => {
    expect(planStream(DEFAULTS, LOCAL)).toEqual({
      partSizeBytes: 8 * MIB,
      sizeBytesMax: 8_000_000 * MIB,
      wholeBytesMax: 8 * MIB,
      streamCountMax: 16,
    });
    expect(planStream(DEFAULTS, S3)).toMatchObject({
      partSizeBytes: 32 * MIB,
      sizeBytesMax: 320_000 * MIB,
      streamCountMax: 4,
    });
  });

  test('the smallest budget: one stream at a time', () => {
    const settings = completeSettings({ bufferBytes: 16 * MIB });
    expect(planStream(settings, S3)).toMatchObject({ partSizeBytes: 8 * MIB, streamCountMax: 1 });
  });

  test('any settings: within store and half of the pool, all streams together too', () => {
    fc.assert(
      fc.property(anySettings, anyStore, (settings, store) => {
        const plan = orUnsupported(() => planStream(settings, store));
        if (plan === 'Unsupported') return;
        expect(plan.partSizeBytes).toBeGreaterThanOrEqual(store.minPartBytes);
        expect(plan.partSizeBytes).toBeLessThanOrEqual(store.maxPartBytes);
        expect(plan.streamCountMax).toBeGreaterThanOrEqual(1);
        expect(plan.streamCountMax * plan.partSizeBytes).toBeLessThanOrEqual(poolBytes(settings) / 2);
        expect(plan.sizeBytesMax).toBe(plan.partSizeBytes * store.maxParts);
        expect(plan.wholeBytesMax).toBe(Math.min(plan.partSizeBytes, store.maxCreateBytes));
      }),
      { numRuns: 2000 },
    );
  });
});

function orUnsupported<T>(plan: () => T): T | 'Unsupported' {
  try {
    return plan();
  } catch (error) {
    if (isCheckpointError(error, 'Unsupported')) return 'Unsupported';
    throw error;
  }
}
