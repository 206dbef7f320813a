/**
 * The checksum at the beginning of each record. Its position is the same in every major of the
 * format.
 */

import { sha256, toHex } from './checksum.ts';

const CHECKSUM_START = '{"checksum":"sha256:';
const HEX_DIGITS = 64;
/** Offset of the first byte that the checksum covers: the one after the closing quote. */
export const TAIL_OFFSET = CHECKSUM_START.length + HEX_DIGITS + 1;

/** A whole record. `tail`: everything that the checksum covers. */
export function withChecksum(tail: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(TAIL_OFFSET + tail.length);
  new TextEncoder().encodeInto(`${CHECKSUM_START}${toHex(sha256(tail))}"`, bytes);
  bytes.set(tail, TAIL_OFFSET);
  return bytes;
}

/** Describes a wrong checksum of a record; `null`: the checksum matches. */
export function checksumProblem(
  bytes: Uint8Array,
): { readonly what: string; readonly expected: string; readonly found: string } | null {
  const head = Buffer.from(bytes.subarray(0, TAIL_OFFSET)).toString('latin1');
  const match = /^\{"checksum":"sha256:([0-9a-f]{64})"$/.exec(head);
  if (match === null) {
    const expected = `${CHECKSUM_START}<64 hex digits>"`;
    const found = JSON.stringify(head.slice(0, CHECKSUM_START.length));
    const what = `is damaged: it has ${bytes.length} bytes and should begin with ${expected}, but begins with ${found}`;
    return { what, expected, found };
  }
  const expected = match[1] as string;
  const found = toHex(sha256(bytes.subarray(TAIL_OFFSET)));
  if (expected === found) return null;
  return {
    what: `is damaged: its checksum says sha256 ${expected}, its bytes have ${found}`,
    expected,
    found,
  };
}
