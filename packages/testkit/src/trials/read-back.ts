/**
 * Reads back what was created. A single difference does not prove a fault of the store: bytes may
 * also be changed on the way.
 */

import { ConformanceError } from '../conformance/expect.ts';

/** Two readings of the same object differed. The message is what was observed. */
export class ChangedOnTheWay extends Error {
  override readonly name = 'ChangedOnTheWay';
}

export interface Expected {
  readonly bytes: Uint8Array;
  /** The object that is read, for the message. */
  readonly what: string;
  /** Bytes of creates that were answered with "already exists". */
  readonly refused?: readonly Uint8Array[];
}

/**
 * Throws `ConformanceError` if `read` returns the same wrong bytes twice, or once those of a
 * rejected create. Throws `ChangedOnTheWay` if two readings differ.
 */
export async function expectRead(read: () => Promise<Uint8Array>, expected: Expected): Promise<void> {
  const found = await read();
  if (isSame(found, expected.bytes)) return;
  const first = found.slice(); // Readings may share a buffer.
  const second = await read();
  // Bit errors cannot turn the bytes into those of another create.
  const isRefused = expected.refused?.some((other) => isSame(first, other) || isSame(second, other));
  if (isRefused === true)
    throw new ConformanceError(`${expected.what} holds the bytes of a create that was refused`);
  if (!isSame(second, first))
    throw new ChangedOnTheWay(`${expected.what} was read twice, with different bytes`);
  throw new ConformanceError(`${expected.what} ${differenceOf(first, expected)}`);
}

function differenceOf(found: Uint8Array, { bytes }: Expected): string {
  return found.byteLength === bytes.byteLength
    ? 'has bytes that differ from those that were sent'
    : `has ${found.byteLength} bytes instead of ${bytes.byteLength}`;
}

export function isSame(found: Uint8Array, expected: Uint8Array): boolean {
  return Buffer.compare(found, expected) === 0;
}
