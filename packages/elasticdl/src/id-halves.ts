/** 64-bit integers as two halves, for loops over many: a BigInt for each would take most of the time. */

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** Where the lower half of a 64-bit integer is among its two 32-bit words. */
export const LOW: 0 | 1 = IS_LITTLE_ENDIAN ? 0 : 1;
export const HIGH: 0 | 1 = IS_LITTLE_ENDIAN ? 1 : 0;

/** The same memory: id `i` is in words `2 * i + LOW` and `2 * i + HIGH`. */
export function wordsOf(ids: BigInt64Array): Uint32Array {
  return new Uint32Array(ids.buffer, ids.byteOffset, ids.length * 2);
}
