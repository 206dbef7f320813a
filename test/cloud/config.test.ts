import { expect, test } from 'vitest';
import { longCount } from './config.ts';

test('how long the proofs take is a whole number; nothing means the choice that is played each time', () => {
  expect(longCount({})).toBe(0);
  expect(longCount({ HOLDFAST_TEST_LONG: '' })).toBe(0);
  expect(longCount({ HOLDFAST_TEST_LONG: '1000' })).toBe(1000);
  for (const text of ['all', '-1', '1.5'])
    expect(() => longCount({ HOLDFAST_TEST_LONG: text })).toThrow('it is a whole number from 0 on');
});
