import { isCheckpointError } from '@holdfast/core/contract';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeIds, ID_BYTES_MAX, idsBytes } from './write-ids.ts';

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** A varint as protobuf defines it, with one BigInt per id. */
function varint(id: bigint): number[] {
  let rest = BigInt.asUintN(64, id);
  const bytes: number[] = [];
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return [...bytes, Number(rest)];
}

function encoded(ids: readonly bigint[]): number[] {
  const array = BigInt64Array.from(ids);
  const into = new Uint8Array(idsBytes(array));
  expect(encodeIds(array, into)).toBe(into.length);
  return [...into];
}

test('known varints', () => {
  expect(encoded([0n, 1n, 127n, 128n, 300n])).toEqual([0, 1, 0x7f, 0x80, 0x01, 0xac, 0x02]);
  expect(encoded([-1n])).toEqual([...Array(9).fill(0xff), 0x01]);
  expect(encoded([INT64_MAX])).toEqual([...Array(8).fill(0xff), 0x7f]);
  expect(encoded([INT64_MIN])).toEqual([...Array(9).fill(0x80), 0x01]);
  expect(encoded([])).toEqual([]);
});

test('every number of bits, and any ids: as protobuf defines it, and as long as idsBytes says', () => {
  const powers = Array.from({ length: 63 }, (_, bit) => 2n ** BigInt(bit));
  const edges = powers.flatMap((power) => [power - 1n, power, -power]);
  expect(encoded(edges)).toEqual(edges.flatMap(varint));
  fc.assert(
    fc.property(fc.array(fc.bigInt(INT64_MIN, INT64_MAX), { maxLength: 20 }), (ids) => {
      expect(encoded(ids)).toEqual(ids.flatMap(varint));
    }),
  );
});

test('no id takes more than ID_BYTES_MAX', () => {
  expect(Math.max(...[INT64_MIN, INT64_MAX, -1n].map((id) => varint(id).length))).toBe(ID_BYTES_MAX);
});

test('too little room: InvalidArgument', () => {
  const into = new Uint8Array(2);
  try {
    encodeIds(BigInt64Array.of(1n, 300n), into);
    expect.unreachable();
  } catch (error) {
    expect(isCheckpointError(error, 'InvalidArgument')).toBe(true);
    expect(String(error)).toContain('room for 2 bytes of ids; these 2 take 3');
  }
});
