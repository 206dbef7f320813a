import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { isCheckpointError } from '../contract/index.ts';
import { idEquals, idText, parseVersion, toVersion, VERSION_MAX } from './version.ts';

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    if (isCheckpointError(error, 'InvalidArgument')) return error.message;
    throw error;
  }
  throw new Error('it was accepted');
}

describe('toVersion', () => {
  test.each([
    [0, 0n],
    [-0, 0n],
    [7, 7n],
    [Number.MAX_SAFE_INTEGER, 9007199254740991n],
    [0n, 0n],
    [2n ** 63n - 1n, 9223372036854775807n],
  ])('%s is accepted as it is', (input, expected) => {
    expect(toVersion(input)).toBe(expected);
  });

  test.each([-1, 0.5, Number.NaN, Number.POSITIVE_INFINITY, -1n, 2n ** 63n])(
    '%s is refused, and the message says what is accepted',
    (input) => {
      expect(refusal(() => toVersion(input))).toBe(
        `version ${input} cannot be used: a version is a whole number from 0 to 9223372036854775807`,
      );
    },
  );

  test('a number that is not safe is refused, because it may have been rounded', () => {
    expect(refusal(() => toVersion(2 ** 53))).toContain(
      'above 9007199254740991 it must be given as a bigint',
    );
  });

  test.each(['7', null, undefined, {}])('%o is refused, as no number at all', (input) => {
    expect(refusal(() => toVersion(input as unknown as bigint))).toContain('as a bigint or a number');
  });
});

describe('parseVersion', () => {
  test('undoes the decimal digits of any version', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: VERSION_MAX }), (version) => {
        expect(parseVersion(String(version))).toBe(version);
      }),
    );
  });

  test.each([
    '',
    ' 7',
    '7 ',
    '+7',
    '-7',
    '07',
    '7.0',
    '1e3',
    '0x7',
    '٣',
    '9223372036854775808',
    '9'.repeat(400),
  ])('"%s" is refused', (text) => {
    expect(refusal(() => parseVersion(text))).toContain(
      'a version is a whole number from 0 to 9223372036854775807',
    );
  });
});

test('idEquals and idText: all three numbers count', () => {
  const id = { lineage: 1, epoch: 2, version: 3n };
  expect(idText(id)).toBe('1.2.3');
  expect(idEquals(id, { ...id })).toBe(true);
  for (const other of [
    { ...id, lineage: 2 },
    { ...id, epoch: 3 },
    { ...id, version: 4n },
  ]) {
    expect(idEquals(id, other)).toBe(false);
    expect(idText(other)).not.toBe(idText(id));
  }
});
