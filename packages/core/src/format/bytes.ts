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
