import { expect, test } from 'vitest';
import { median, spread, summarize } from './statistics.ts';

test('median: the middle of an odd number, the mean of the middle two of an even one, in any order', () => {
  expect(median([5, 1, 3])).toBe(3);
  expect(median([10, 9, 1, 2])).toBe(5.5);
  expect(median([7])).toBe(7);
});

test('summarize: numbers are ordered as numbers, and the input stays as it was', () => {
  const values = [10, 9, 100];
  expect(summarize(values)).toEqual({ median: 10, min: 9, max: 100, count: 3 });
  expect(values).toEqual([10, 9, 100]);
});

test('spread: median first, then the limits; nothing measured is a dash', () => {
  expect(spread([0.5, 0.254, 1])).toBe('0.50 [0.25–1.00]');
  expect(spread([1, 2, 4], 0)).toBe('2 [1–4]');
  expect(spread([])).toBe('–');
});
