import { describe, expect, test } from 'vitest';
import { parsePattern } from './pattern.ts';

describe('parsePattern', () => {
  test.each([
    ['step-{version}', 'step-100', 100n],
    ['step-{version}', 'step-100.tmp', null],
    ['step-{version}', 'a-step-100', null],
    ['iter_{version}', 'iter_0000100', 100n],
    ['{version}', '9223372036854775807', 9223372036854775807n],
    ['{version}', '9223372036854775808', null],
    ['{version}', '-1', null],
    ['epoch=*-step={version}.ckpt', 'epoch=3-step=50.ckpt', 50n],
    ['epoch=*-step={version}.ckpt', 'epoch=3-step=50xckpt', null],
    ['a+b(*)-{version}', 'a+b(x)-7', 7n],
  ])('%s: %s is %s', (text, name, version) => {
    expect(parsePattern(text).versionIn(name)).toBe(version);
  });

  test.each(['step', '{version}-{version}', 'a/{version}', '*{version}', '{version}*'])(
    '%s is refused',
    (text) => {
      expect(() => parsePattern(text)).toThrow(`"${text}"`);
    },
  );
});
