import fc from 'fast-check';
import { expect, test } from 'vitest';
import { survivingRows } from './decode-duplicates.ts';

const rowsOf = (...ids: bigint[]) => {
  const rows = survivingRows(BigInt64Array.from(ids));
  return rows && [...rows];
};

test('no id twice: all rows stay, and none is listed', () => {
  for (const ids of [[], [5n], [-(2n ** 63n), -1n, 0n, 1n, 2n ** 63n - 1n], [3n, 1n, 2n], [2n ** 32n, 1n]]) {
    expect(rowsOf(...ids)).toBeNull();
  }
});

test('the last row of an id stays, and the others keep their order', () => {
  expect(rowsOf(1n, 1n)).toEqual([1]);
  expect(rowsOf(7n, 3n, 7n, 9n, 3n, 7n)).toEqual([3, 4, 5]);
  expect(rowsOf(-1n, 2n ** 32n - 1n, -1n)).toEqual([1, 2]);
});

test('as a map would have it, for any ids', () => {
  const id = fc.oneof(
    fc.bigInt(-4n, 4n),
    fc.constantFrom(2n ** 32n, -(2n ** 32n), 2n ** 63n - 1n, -(2n ** 63n)),
  );
  fc.assert(
    fc.property(fc.array(id, { maxLength: 40 }), (ids) => {
      const last = [...new Map(ids.map((value, row) => [value, row])).values()].sort((a, b) => a - b);
      expect(rowsOf(...ids) ?? ids.map((_, row) => row)).toEqual(last);
    }),
  );
});
