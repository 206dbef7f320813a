import { describe, expect, test } from 'vitest';
import { matcherOf } from './globs.ts';

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
});
