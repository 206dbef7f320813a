import { expect, test } from 'vitest';
import { isMet, ratios, type Verdict, verdictTable } from './results.ts';

const LIMIT: Verdict = { what: 'a', values: [1, 1.3, 9], wanted: { atMost: 1.4 } };

test('isMet: the median counts, and the limit itself is met', () => {
  expect(isMet(LIMIT)).toBe(true);
  expect(isMet({ ...LIMIT, values: [1.4] })).toBe(true);
  expect(isMet({ ...LIMIT, values: [1.41] })).toBe(false);
  expect(isMet({ ...LIMIT, wanted: { atLeast: 1.3 } })).toBe(true);
  expect(isMet({ ...LIMIT, wanted: { atLeast: 1.31 } })).toBe(false);
  expect(isMet({ what: 'told only', values: [100] })).toBe(true);
});

test('isMet: a figure without a value is not met', () => {
  expect(isMet({ ...LIMIT, values: [] })).toBe(false);
  expect(isMet({ ...LIMIT, values: [], wanted: { atLeast: 0 } })).toBe(false);
});

test('verdictTable: each figure with its limit, and what is missed in bold', () => {
  const missed: Verdict = { what: 'b', values: [1], wanted: { atLeast: 2 } };
  const lines = verdictTable([LIMIT, missed, { what: 'c', values: [3] }]).split('\n');
  expect(lines.slice(2)).toEqual([
    '| a | ≤ 1.4 | 1.30 [1.00–9.00] | yes |',
    '| b | ≥ 2 | 1.00 [1.00–1.00] | **no** |',
    '| c |  | 3.00 [3.00–3.00] |  |',
  ]);
});

test('ratios: round by round, as far as both have been measured', () => {
  expect(ratios([2, 9], [1, 3])).toEqual([2, 3]);
  expect(ratios([2, 9], [4])).toEqual([0.5]);
  expect(ratios([2], [4, 8])).toEqual([0.5]);
});
