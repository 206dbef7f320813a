/** Encodes ids as the varints of a packed field. */

import { CheckpointError } from '@holdfast/core/contract';
import { HIGH, LOW, wordsOf } from '../id-halves.ts';

/** A negative id takes this many bytes; no id takes more. */
export const ID_BYTES_MAX = 10;

/** Bytes of one id, given as halves: 1 to 10. */
export function idBytes(high: number, low: number): number {
  const bits = high === 0 ? 32 - Math.clz32(low | 1) : 64 - Math.clz32(high);
  return Math.ceil(bits / 7);
}

/** Number of bytes that `encodeIds` writes. */
export function idsBytes(ids: BigInt64Array): number {
  const words = wordsOf(ids);
  let bytes = 0;
  for (let i = 0; i < words.length; i += 2)
    bytes += idBytes(words[i + HIGH] as number, words[i + LOW] as number);
  return bytes;
}

/**
 * Writes the ids one after the other to the start of `into`, and returns the number of bytes.
 * `InvalidArgument` if they do not fit.
 */
export function encodeIds(ids: BigInt64Array, into: Uint8Array): number {
  const words = wordsOf(ids);
  let at = 0;
  for (let i = 0; i < words.length; i += 2) {
    let high = words[i + HIGH] as number;
    let low = words[i + LOW] as number;
    while (high !== 0 || low > 0x7f) {
      into[at] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
      at += 1;
    }
    into[at] = low;
    at += 1;
  }
  // A typed array drops writes beyond its end, so one check at the end suffices.
  if (at <= into.length) return at;
  throw new CheckpointError(
    'InvalidArgument',
    `there is room for ${into.length} bytes of ids; these ${ids.length} take ${at}`,
  );
}
