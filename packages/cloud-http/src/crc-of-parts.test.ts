import { crc32c } from '@holdfast/testkit';
import { expect, it } from 'vitest';
import { crcOfParts } from './crc-of-parts.ts';

const part = (bytes: Uint8Array) => ({ sizeBytes: bytes.byteLength, crc32c: crc32c(bytes) });

it('is the CRC32C of the bytes together, empty parts included', () => {
  const bytes = Buffer.from(Array.from({ length: 100_003 }, (_, index) => (index * 31) & 0xff));
  for (const cuts of [[], [0], [1], [65_536], [7, 7, 4096, 99_999], [100_003]]) {
    const edges = [0, ...cuts, bytes.byteLength];
    const parts = edges.slice(1).map((end, index) => part(bytes.subarray(edges[index], end)));
    expect(crcOfParts(parts)).toBe(crc32c(bytes));
  }
  expect(crcOfParts([])).toBe(0);
});

it('knows lengths beyond 32 bits', () => {
  // Describes this many zero bytes without allocating them.
  const zeros = (sizeBytes: number) => ({ sizeBytes, crc32c: 0 });
  const seed = { sizeBytes: 1, crc32c: 0x12345678 };
  const long = 2 ** 33 + 5;
  expect(crcOfParts([seed, zeros(long)])).toBe(crcOfParts([seed, zeros(2 ** 33), zeros(5)]));
  expect(crcOfParts([seed, zeros(long)])).not.toBe(crcOfParts([seed, zeros(5)]));
});

it('is not known where one part has none', () => {
  expect(crcOfParts([{ sizeBytes: 1, crc32c: 7 }, { sizeBytes: 1 }])).toBeUndefined();
});
