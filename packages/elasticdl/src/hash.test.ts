import { isCheckpointError } from '@holdfast/core/contract';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { bucketsOf, intToId, scatterEmbeddingVector, stringToId } from './hash.ts';

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

const COUNTS = [1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 64, 100];

/** Computed with ElasticDL's own hash_utils. */
const NAMES: readonly [string, readonly number[]][] = [
  ['dense/kernel:0', [0, 0, 1, 2, 4, 6, 6, 14, 23, 14, 46, 54]],
  ['dense/bias:0', [0, 1, 1, 1, 1, 1, 5, 13, 4, 13, 13, 61]],
  ['embedding', [0, 1, 2, 1, 1, 6, 5, 13, 15, 13, 13, 81]],
  ['conv2d/kernel:0', [0, 1, 2, 3, 0, 3, 7, 7, 4, 7, 7, 95]],
  ['conv2d_1/kernel:0', [0, 1, 2, 3, 1, 5, 7, 7, 11, 7, 39, 51]],
  ['batch_normalization/gamma:0', [0, 0, 1, 0, 4, 6, 0, 8, 26, 8, 40, 84]],
  ['custom_model/embedding/embeddings:0', [0, 1, 2, 1, 0, 2, 1, 1, 12, 1, 33, 5]],
  ['v0', [0, 0, 0, 2, 4, 3, 6, 14, 21, 14, 46, 14]],
  ['', [0, 1, 1, 1, 2, 0, 5, 5, 19, 5, 37, 37]],
  ['嵌入', [0, 1, 1, 1, 0, 0, 5, 13, 25, 13, 45, 45]],
];

const OUT_OF_RANGE = [0, -1, 1.5, 2 ** 31, Number.NaN];

function thrownBy(call: () => unknown): unknown {
  try {
    call();
  } catch (error) {
    return error;
  }
  throw new Error('nothing was thrown');
}

describe('stringToId', () => {
  test.each(NAMES)('%j is in the part in which ElasticDL has it', (name, parts) => {
    expect(COUNTS.map((count) => stringToId(name, count))).toEqual(parts);
  });

  test('digits count in base 32, not in 16: 7 parts show it', () => {
    expect(stringToId('dense/kernel:0', 7)).toBe(6);
  });

  test('the remainder is exact up to the most parts there can be', () => {
    const digits = 0x28a5d748b77f94e49560669a3a59c572d3f9ccfde7f28a3ed0ea821e88b9ecfen.toString(16);
    const value = [...digits].reduce((sum, digit) => sum * 32n + BigInt(Number.parseInt(digit, 16)), 0n);
    expect(value).toBe(
      150849466891298188561017704195971490672359279390373809691503983740236282297510515855031895798254n,
    );
    for (const count of [2 ** 31 - 1, 2 ** 30 + 7, 1_000_000_007])
      expect(stringToId('dense/kernel:0', count)).toBe(Number(value % BigInt(count)));
  });

  test('parts 16 to 31 of 32 are empty', () => {
    const parts = new Set(Array.from({ length: 500 }, (_, i) => stringToId(`layer_${i}/kernel:0`, 32)));
    expect([...parts].sort((a, b) => a - b)).toEqual(Array.from({ length: 16 }, (_, i) => i));
  });

  test.each(OUT_OF_RANGE)('%d parts: InvalidArgument', (count) => {
    const error = thrownBy(() => stringToId('v0', count));
    expect(isCheckpointError(error, 'InvalidArgument')).toBe(true);
    expect(String(error)).toContain(`bucketCount is ${count}; it takes a whole number from 1 to 2147483647`);
  });
});

describe('intToId', () => {
  test.each<[bigint, number, number]>([
    [0n, 2, 0],
    [1n, 2, 1],
    [7n, 3, 1],
    [8n, 3, 2],
    [-1n, 2, 1],
    [-1n, 3, 2],
    [-3n, 5, 2],
    [INT64_MAX, 3, 1],
    [INT64_MAX, 5, 2],
    [INT64_MIN, 3, 1],
  ])('%s of %d parts is in %d', (id, count, part) => {
    expect(intToId(id, count)).toBe(part);
    const parts = new Uint32Array(1);
    bucketsOf(BigInt64Array.of(id), count, parts);
    expect(parts).toEqual(Uint32Array.of(part));
  });

  test.each(OUT_OF_RANGE)('%d parts: InvalidArgument', (count) => {
    expect(
      isCheckpointError(
        thrownBy(() => intToId(1n, count)),
        'InvalidArgument',
      ),
    ).toBe(true);
  });
});

describe('bucketsOf', () => {
  const edges = [INT64_MIN, INT64_MAX, -(2n ** 32n), 2n ** 32n - 1n, 2n ** 53n + 1n, -1n, 0n];
  const ids = fc.array(fc.oneof(fc.bigInt(INT64_MIN, INT64_MAX), fc.constantFrom(...edges)), {
    maxLength: 40,
  });
  // Both algorithms, and the counts at which one replaces the other.
  const counts = fc.oneof(
    fc.integer({ min: 1, max: 2 ** 15 }),
    fc.integer({ min: 1, max: 2 ** 31 - 1 }),
    fc.constantFrom(1, 2, 2 ** 15 - 1, 2 ** 15, 2 ** 15 + 1, 2 ** 30, 2 ** 31 - 1),
  );

  test('any ids, any number of parts: as intToId says of each', () => {
    fc.assert(
      fc.property(ids, counts, (list, count) => {
        const parts = new Uint32Array(list.length);
        bucketsOf(BigInt64Array.from(list), count, parts);
        expect([...parts]).toEqual(list.map((id) => intToId(id, count)));
      }),
      { numRuns: 500 },
    );
  });

  test('ids in the middle of some memory, and room to spare', () => {
    const parts = Uint32Array.of(9, 9, 9);
    bucketsOf(BigInt64Array.of(5n, 6n, 8n, 5n).subarray(1, 3), 5, parts);
    expect(parts).toEqual(Uint32Array.of(1, 3, 9));
  });

  test('too little room, or parts out of range: InvalidArgument', () => {
    const short = thrownBy(() => bucketsOf(BigInt64Array.of(1n, 2n), 3, new Uint32Array(1)));
    expect(isCheckpointError(short, 'InvalidArgument')).toBe(true);
    expect(String(short)).toContain('room for the parts of 1 ids; there are 2');
    const none = thrownBy(() => bucketsOf(new BigInt64Array(0), 0, new Uint32Array(0)));
    expect(isCheckpointError(none, 'InvalidArgument')).toBe(true);
  });
});

describe('scatterEmbeddingVector', () => {
  /** Rows as lists, so that a case reads as in ElasticDL's tests. */
  function scattered(rows: readonly number[][], ids: readonly number[], count: number) {
    const parts = scatterEmbeddingVector(
      BigInt64Array.from(ids, BigInt),
      Uint8Array.from(rows.flat()),
      rows[0]?.length ?? 2,
      count,
    );
    return [...parts].map(([part, found]) => [part, [...found.values], [...found.ids].map(Number)]);
  }

  test.each([
    {
      rows: [
        [1, 2],
        [3, 4],
        [5, 6],
      ],
      ids: [8, 1, 7],
      count: 2,
      parts: [
        [0, [1, 2], [8]],
        [1, [3, 4, 5, 6], [1, 7]],
      ],
    },
    {
      rows: [
        [1, 2],
        [3, 4],
        [5, 6],
        [1, 7],
        [3, 9],
      ],
      ids: [0, 1, 2, 3, 4],
      count: 2,
      parts: [
        [0, [1, 2, 5, 6, 3, 9], [0, 2, 4]],
        [1, [3, 4, 1, 7], [1, 3]],
      ],
    },
    {
      rows: [[0], [1], [2], [3], [4], [5]],
      ids: [5, 3, 3, 0, 9, -1],
      count: 3,
      parts: [
        [2, [0, 5], [5, -1]],
        [0, [1, 2, 3, 4], [3, 3, 0, 9]],
      ],
    },
  ])('$ids over $count parts', ({ rows, ids, count, parts }) => {
    expect(scattered(rows, ids, count)).toEqual(parts);
  });

  test('no rows are in no part', () => {
    expect(scattered([], [], 3)).toEqual([]);
  });

  test('ids beyond 32 bits stay whole', () => {
    const ids = BigInt64Array.of(INT64_MIN, INT64_MAX, 2n ** 40n + 1n);
    const parts = scatterEmbeddingVector(ids, new Uint8Array(3), 1, 1);
    expect(parts.get(0)?.ids).toEqual(ids);
  });

  test('rows and ids of different count, or no parts: InvalidArgument', () => {
    const uneven = thrownBy(() => scatterEmbeddingVector(BigInt64Array.of(1n), new Uint8Array(9), 8, 2));
    expect(isCheckpointError(uneven, 'InvalidArgument')).toBe(true);
    expect(String(uneven)).toContain('1 ids go with rows of 1 × 8 bytes; the rows have 9 bytes');
    const none = thrownBy(() => scatterEmbeddingVector(BigInt64Array.of(1n), new Uint8Array(8), 8, 0));
    expect(isCheckpointError(none, 'InvalidArgument')).toBe(true);
  });
});
