import { expect, test } from 'vitest';
import { longCount, share } from './config.ts';

test('how long the proofs take is a whole number; nothing means the choice that is played each time', () => {
  expect(longCount({})).toBe(0);
  expect(longCount({ HOLDFAST_TEST_LONG: '' })).toBe(0);
  expect(longCount({ HOLDFAST_TEST_LONG: '1000' })).toBe(1000);
  for (const text of ['all', '-1', '1.5'])
    expect(() => longCount({ HOLDFAST_TEST_LONG: text })).toThrow('it is a whole number from 0 on');
});

test('S3 has every point of a choice, the others one in thirteen, and all of them in a long run', () => {
  const points = Array.from({ length: 15 }, (_, index) => index);
  expect(share({ suite: 's3' }, points, 0)).toEqual(points);
  expect(share({ suite: 'gcs' }, points, 0)).toEqual([0, 13]);
  expect(share({ suite: 'azure' }, points, 1)).toEqual(points);
});
