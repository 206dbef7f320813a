import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isCheckpointError } from '../contract/index.ts';
import { bytesEqual, fromHex } from './bytes.ts';
import { toHex } from './checksum.ts';

test('bytesEqual: length and every byte count', () => {
  fc.assert(
    fc.property(fc.uint8Array(), fc.uint8Array(), (a, b) => {
      expect(bytesEqual(a, Uint8Array.from(a))).toBe(true);
      expect(bytesEqual(a, b)).toBe(Buffer.compare(a, b) === 0);
    }),
  );
  expect(bytesEqual(Uint8Array.of(1), Uint8Array.of(1, 2))).toBe(false);
});

test('fromHex undoes toHex and refuses everything else', () => {
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      expect(fromHex(toHex(bytes))).toEqual(bytes);
    }),
  );
  for (const text of ['0', 'AB', 'xy', '0 1']) {
    let found: unknown = 'accepted';
    try {
      fromHex(text);
    } catch (error) {
      found = error;
    }
    expect(isCheckpointError(found, 'InvalidArgument')).toBe(true);
  }
});
