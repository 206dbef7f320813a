/** CRC32C of what parts make together, from those of the parts: arithmetic over GF(2), after zlib's `crc32_combine`. */

const POLYNOMIAL = 0x82f63b78; // Castagnoli, bits reversed

/** Product of two polynomials modulo the CRC's; bit 31 is x^0. */
function multiply(a: number, b: number): number {
  let product = 0;
  let shifted = b;
  for (let mask = 0x80000000; mask !== 0; mask >>>= 1) {
    if (a & mask) product ^= shifted;
    shifted = shifted & 1 ? (shifted >>> 1) ^ POLYNOMIAL : shifted >>> 1;
  }
  return product >>> 0;
}

/** What so many zero bytes do to a CRC. */
function zeros(lengthBytes: number): number {
  let product = 0x80000000; // x^0
  let power = 0x00800000; // x^8
  // Division, not a shift: lengths beyond 2^32 count.
  for (let rest = lengthBytes; rest > 0; rest = Math.floor(rest / 2)) {
    if (rest % 2 === 1) product = multiply(power, product);
    power = multiply(power, power);
  }
  return product;
}

/** Of parts in their order. Undefined if one of them has none. Microseconds for each part. */
export function crcOfParts(
  parts: readonly { readonly sizeBytes: number; readonly crc32c?: number | undefined }[],
): number | undefined {
  let whole = 0;
  for (const { sizeBytes, crc32c } of parts) {
    if (crc32c === undefined) return undefined;
    whole = (multiply(zeros(sizeBytes), whole) ^ crc32c) >>> 0;
  }
  return whole;
}
