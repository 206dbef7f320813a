/** Comparing and writing bytes. */

import { CheckpointError } from '../contract/index.ts';

export function bytesEqual(a: Uint8Array, b: Uint8Array): boolean {
  return a.byteLength === b.byteLength && a.every((byte, index) => byte === b[index]);
}

/** `InvalidArgument` unless it is an even number of lower-case hex digits. */
export function fromHex(text: string): Uint8Array {
  if (!/^(?:[0-9a-f]{2})*$/.test(text)) throw new CheckpointError('InvalidArgument', 'not hexadecimal');
  return Uint8Array.from(text.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}

const encoder = new TextEncoder();

/** The order of keys and names in every store: by their UTF-8 bytes, which differs from JavaScript's own beyond U+FFFF. */
export function compareUtf8(a: string, b: string): number {
  const [left, right] = [encoder.encode(a), encoder.encode(b)];
  const length = Math.min(left.length, right.length);
  for (let index = 0; index < length; index++) {
    const difference = (left[index] as number) - (right[index] as number);
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}
