import { crc32c as engineCrc32c } from '@holdfast/core';
import { expect, test } from 'vitest';
import { crc32c } from './crc32c.ts';
import { SeededRandom } from './seeded-random.ts';

// RFC 3720, B.4, and the check value of the CRC catalogue.
test.each([
  ['no bytes', new Uint8Array(), 0],
  ['"123456789"', new TextEncoder().encode('123456789'), 0xe3069283],
  ['32 zeros', new Uint8Array(32), 0x8a9136aa],
  ['32 times 0xff', new Uint8Array(32).fill(0xff), 0x62a8ab43],
  ['0 to 31', Uint8Array.from({ length: 32 }, (_, index) => index), 0x46dd794e],
])('the CRC-32C of %s is the published one', (_, bytes, expected) => {
  expect(crc32c(bytes)).toBe(expected);
});

test('it agrees with the one the engine uses', () => {
  const random = new SeededRandom(1);
  for (const size of [1, 7, 64, 4097, 100_000]) {
    const bytes = random.bytes(size);
    expect(crc32c(bytes)).toBe(engineCrc32c(bytes));
  }
});
