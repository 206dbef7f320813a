import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { crc32cCombine } from '../contract/crc32c-combine.ts';
import { fromHex } from './bytes.ts';
import {
  blake3,
  crc32c,
  crc32cFallback,
  crc32cImplementation,
  hasBlake3,
  sha256,
  startBlake3,
  toHex,
} from './checksum.ts';

const IMPLEMENTATIONS = { crc32c, crc32cFallback };

/** RFC 3720, appendix B.4, and the check value of the CRC catalogue. */
const VECTORS: readonly (readonly [name: string, bytes: Uint8Array, crc32c: number])[] = [
  ['nothing', new Uint8Array(0), 0],
  ['"123456789"', new TextEncoder().encode('123456789'), 0xe3069283],
  ['32 bytes of 0', new Uint8Array(32), 0x8a9136aa],
  ['32 bytes of 0xff', new Uint8Array(32).fill(0xff), 0x62a8ab43],
  ['0 to 31', Uint8Array.from({ length: 32 }, (_, index) => index), 0x46dd794e],
  ['31 to 0', Uint8Array.from({ length: 32 }, (_, index) => 31 - index), 0x113fdb5c],
];

describe.each(Object.entries(IMPLEMENTATIONS))('%s', (_name, compute) => {
  test.each(VECTORS)('gives the published value of %s', (_bytes, bytes, expected) => {
    expect(compute(bytes)).toBe(expected);
  });

  test('a seed goes on where the bytes before ended', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(200), (bytes, at) => {
        expect(compute(bytes.subarray(at), compute(bytes.subarray(0, at)))).toBe(compute(bytes));
      }),
    );
  });

  test('bytes at an odd address count like any others', () => {
    const bytes = new TextEncoder().encode('xyz123456789');
    expect(compute(bytes.subarray(3))).toBe(0xe3069283);
  });
});

test('crc32c: native code is in use where the tests run', () => {
  expect(crc32cImplementation).not.toBe('fallback');
});

test('crc32c: native code and fall-back agree on random bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 4096, size: 'max' }), fc.nat(), (bytes, seed) => {
      expect(crc32c(bytes, seed)).toBe(crc32cFallback(bytes, seed));
    }),
  );
});

describe('crc32cCombine', () => {
  test('combines two pieces to what the whole has', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 3000, size: 'max' }), fc.nat(3000), (bytes, at) => {
        const [a, b] = [bytes.subarray(0, at), bytes.subarray(at)];
        expect(crc32cCombine(crc32c(a), crc32c(b), b.length)).toBe(crc32c(bytes));
      }),
    );
  });

  test('lengths beyond 2^32 count whole: adding them one after the other gives the same', () => {
    fc.assert(
      fc.property(fc.nat(0xffffffff), fc.nat(2 ** 31 - 1), fc.nat(2 ** 31 - 1), (crc, low, high) => {
        const length = high * 2 ** 21 + low;
        const inSteps = crc32cCombine(crc32cCombine(crc, 0, high * 2 ** 21), 0, low);
        expect(crc32cCombine(crc, 0, length)).toBe(inSteps);
      }),
    );
  });

  test('4 GiB of zero bytes and 17 more have the value that hashing them piece by piece gives', () => {
    const size = 16 * 1024 * 1024;
    const zeros = new Uint8Array(size);
    const start = crc32c(new TextEncoder().encode('start'));
    let direct = start;
    for (let done = 0; done < 2 ** 32; done += size) direct = crc32c(zeros, direct);
    direct = crc32c(zeros.subarray(0, 17), direct);
    const pieces = crc32cCombine(crc32c(zeros), crc32c(zeros), size);
    expect(pieces).toBe(crc32c(new Uint8Array(2 * size)));
    // The CRC of n zero bytes after an empty prefix, by doubling.
    let ofZeros = crc32c(zeros);
    for (let length = size; length < 2 ** 32; length *= 2) ofZeros = crc32cCombine(ofZeros, ofZeros, length);
    ofZeros = crc32cCombine(ofZeros, crc32c(zeros.subarray(0, 17)), 17);
    expect(crc32cCombine(start, ofZeros, 2 ** 32 + 17)).toBe(direct);
  });

  test.each([-1, 0.5, Number.NaN, 2 ** 53])('%d is refused as a length', (length) => {
    expect(() => crc32cCombine(1, 2, length)).toThrow(RangeError);
  });
});

test('sha256 and toHex: the published value of "abc"', () => {
  const expected = 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad';
  expect(toHex(sha256(new TextEncoder().encode('abc')))).toBe(expected);
});

test('toHex: sees only the bytes of a view; fromHex undoes it', () => {
  const whole = Uint8Array.of(1, 2, 0xab, 4);
  expect(toHex(whole.subarray(1, 3))).toBe('02ab');
  expect(fromHex('02ab')).toEqual(whole.subarray(1, 3));
});

describe('BLAKE3', () => {
  test('the native module is in use where the tests run', () => {
    expect(hasBlake3()).toBe(true);
  });

  test.each([
    ['', 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262'],
    ['abc', '6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85'],
  ])('gives the published value of "%s"', (text, expected) => {
    expect(toHex(blake3(new TextEncoder().encode(text)))).toBe(expected);
  });

  test('the hash of the pieces is that of the whole', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 5000, size: 'max' }), fc.nat(5000), (bytes, at) => {
        const hash = startBlake3();
        hash.update(bytes.subarray(0, at));
        hash.update(bytes.subarray(at));
        expect(hash.digest()).toEqual(blake3(bytes));
      }),
    );
  });
});
