/**
 * 64-bit integers as two halves, for loops over many ids: a BigInt for each id would take most of
 * the time.
 */

const IS_LITTLE_ENDIAN = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

/** Index of the lower half of a 64-bit integer among its two 32-bit words. */
export const LOW: 0 | 1 = IS_LITTLE_ENDIAN ? 0 : 1;
export const HIGH: 0 | 1 = IS_LITTLE_ENDIAN ? 1 : 0;

/** A view of the same memory: id `i` is in words `2 * i + LOW` and `2 * i + HIGH`. */
export function wordsOf(ids: BigInt64Array): Uint32Array {
  return new Uint32Array(ids.buffer, ids.byteOffset, ids.length * 2);
}
