import { describe, expect, test } from 'vitest';
import { chooserOf, matcherOf } from './globs.ts';

describe('globs', () => {
  test.each([
    ['*.pt', 'a.pt', true],
    ['*.pt', 'dir/a.pt', false],
    ['**/*.pt', 'dir/a.pt', true],
    ['**/*.pt', '.hidden.pt', true],
    ['layer-{1,2}/**', 'layer-2/x/y', true],
    ['[ab]?', 'b1', true],
    ['!a', '!a', true],
    ['+(a|b)', 'ab', false],
    ['+(a|b)', '+(a|b)', true],
    ['*-*-of-*.safetensors', 'model-1-of-2.safetensors', true],
  ])('%s and %s: %s', (glob, name, expected) => {
    expect(matcherOf([glob])(name)).toBe(expected);
  });

  test.each(['*a*a*a*a*a*', '{*a,*b,*c,*d,*e}', '**/a/**/b/**/c/**', 'x'.repeat(5000)])(
    '%s is refused, because names exist that would take very long',
    (glob) => {
      expect(() => matcherOf(['ok', glob])).toThrow(/would take too long: it takes at most 4 stars/);
    },
  );

  test('the worst that is accepted ends', () => {
    expect(matcherOf(['*a*a*a*b'])('a'.repeat(200))).toBe(false);
    expect(matcherOf(['**/a/**/a/**/b'])('a/'.repeat(200))).toBe(false);
  });

  test('a chooser knows the first glob that matched nothing', () => {
    const chooser = chooserOf(['./a', '*.pt', 'b', 'b']);
    expect(chooser.unused()).toBe('./a');
    expect(['a', 'x.pt', 'y.pt', 'c'].map(chooser.matches)).toEqual([true, true, true, false]);
    expect(chooser.unused()).toBe('b');
    expect(chooser.matches('b')).toBe(true);
    expect(chooser.unused()).toBeUndefined();
  });
});
