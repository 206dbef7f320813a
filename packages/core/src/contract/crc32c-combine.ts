/**
 * Computes the CRC32C of a whole from the CRC32Cs of its parts, without the bytes: arithmetic over
 * GF(2).
 */

const POLYNOMIAL = 0x82f63b78; // Castagnoli, bits reversed

/**
 * The product of two polynomials modulo the polynomial of the CRC, in the reflected form. After
 * zlib's `multmodp`.
 */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let mask = 0x80000000; mask !== 0; mask >>>= 1) {
    if (a & mask) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1;
  }
  return product >>> 0;
}

/**
 * `powers[i]` is x^(8 * 2^i): the effect of 2^i zero bytes on a CRC. 53 of them cover every safe
 * integer.
 */
const powers = makePowers();

function makePowers(): readonly number[] {
  let power = 0x00800000; // x^8
  return Array.from({ length: 53 }, () => {
    const found = power;
    power = multiply(power, power);
    return found;
  });
}

/**
 * The CRC32C of A followed by B, from the CRC32C of each and the length of B (0 to 2^53 - 1). Takes
 * microseconds, whatever the length.
 */
export function crc32cCombine(crcA: number, crcB: number, lengthBBytes: number): number {
  if (!Number.isSafeInteger(lengthBBytes) || lengthBBytes < 0) {
    throw new RangeError(`crc32cCombine: a length is a safe integer from 0, not ${lengthBBytes}`);
  }
  let shifted = crcA;
  // Uses division instead of a shift, because lengths may exceed 2^32.
  for (let rest = lengthBBytes, bit = 0; rest > 0; rest = Math.floor(rest / 2), bit++) {
    if (rest % 2 === 1) shifted = multiply(powers[bit] as number, shifted);
  }
  return (shifted ^ crcB) >>> 0;
}
