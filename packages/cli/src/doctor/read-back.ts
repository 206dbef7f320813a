/**
 * Reading back what was created. One reading that differs says nothing of the store yet: bytes are
 * changed on the way, too.
 */

import { BrokenPromise } from './check.ts';

export const CHANGED_MEANING =
  'bytes are changed on their way, so that it could not be seen whether the store keeps this promise';
export const CHANGED_ADVICE =
  'look for what changes them: a proxy, the network, or the memory of this machine; then run it again';

/** What was read twice was not the same twice. The message is what was seen. */
export class ChangedOnTheWay extends Error {
  override readonly name = 'ChangedOnTheWay';
}

export interface Expected {
  readonly bytes: Uint8Array;
  /** For the message: what is read. */
  readonly what: string;
  /** Of creates that were told that there is an object already. */
  readonly refused?: readonly Uint8Array[];
}

/**
 * `BrokenPromise`: `read` gives the same other bytes twice, or once those of a create that was
 * refused. `ChangedOnTheWay`: what it gives differs from one time to the next.
 */
export async function expectRead(read: () => Promise<Uint8Array>, expected: Expected): Promise<void> {
  const found = await read();
  if (isSame(found, expected.bytes)) return;
  const first = found.slice(); // readings may share a buffer
  const second = await read();
  // No bit that is changed makes the bytes of another create.
  const isRefused = expected.refused?.some((other) => isSame(first, other) || isSame(second, other));
  if (isRefused === true)
    throw new BrokenPromise(`${expected.what} holds the bytes of a create that was refused`);
  if (!isSame(second, first))
    throw new ChangedOnTheWay(`${expected.what} was read twice, with other bytes each time`);
  throw new BrokenPromise(`${expected.what} ${differenceOf(first, expected)}`);
}

function differenceOf(found: Uint8Array, { bytes }: Expected): string {
  return found.byteLength === bytes.byteLength
    ? 'has other bytes than were sent'
    : `has ${found.byteLength} bytes instead of ${bytes.byteLength}`;
}

export function isSame(found: Uint8Array, expected: Uint8Array): boolean {
  return Buffer.compare(found, expected) === 0;
}
