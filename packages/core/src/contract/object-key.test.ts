import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isCheckpointError } from '../contract/index.ts';
import { assertObjectKey, compareUtf8 } from './object-key.ts';

const longest = `${'é'.repeat(127)}x`; // 255 bytes

test.each([
  'a',
  'a/b/c',
  'version_1/0.0/r.k-n/model data+50%.bin',
  '.hidden/..a/...',
  longest,
  `${`${longest}/`.repeat(4)}`.slice(0, -1),
])('a key of the grammar is accepted: %s', (key) => {
  expect(() => assertObjectKey(key)).not.toThrow();
});

test.each([
  ['', 'empty segment'],
  ['/a', 'empty segment'],
  ['a/', 'empty segment'],
  ['a//b', 'empty segment'],
  ['.', "segment '.'"],
  ['a/../b', "segment '..'"],
  ['a\0b', 'control character'],
  ['a\nb', 'control character'],
  ['.holdfast-tmp/a', 'reserved for stores'],
  ['a\ud800b', 'surrogate'],
  [`${longest}x`, '256 bytes; at most 255'],
  ['abcd/'.repeat(205), '1025 bytes of UTF-8; at most 1024'],
])('a key outside the grammar is InvalidArgument and the message says why: %j', (key, reason) => {
  expect(() => assertObjectKey(key)).toThrow(reason);
  try {
    assertObjectKey(key);
  } catch (error) {
    expect(isCheckpointError(error, 'InvalidArgument')).toBe(true);
  }
});

test('keys are ordered as their UTF-8 bytes are', () => {
  // Above U+FFFF, UTF-16 and UTF-8 disagree.
  const text = fc.string({ unit: fc.constantFrom('a', '-', '/', 'é', '\uffff', '\ue000', '𝄞', '\ud7ff') });
  fc.assert(
    fc.property(text, text, (a, b) => {
      expect(Math.sign(compareUtf8(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
});
