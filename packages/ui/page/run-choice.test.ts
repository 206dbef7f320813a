import { expect, test } from 'vitest';
import { runSummary } from '../src/rows.testing.ts';
import { aheadOf, chosenRuns, ORDER_NAMES, type RunChoice } from './run-choice.ts';

const HOUR_MS = 3_600_000;
const UNREAD = {
  asOfMs: null,
  storeTimeMs: null,
  storedBytes: null,
  recentFenceCount: null,
  attempt: null,
} as const;
const RUNS = [
  runSummary('young', 90, { storedBytes: 10, recentFenceCount: 1 }),
  runSummary('old', 10, { storedBytes: 3000, recentFenceCount: 5 }),
  runSummary('begun', null, { storedBytes: 0 }),
  runSummary('gone', null, { ...UNREAD, state: 'unreachable' }),
  runSummary('closed', null, { ...UNREAD, state: 'denied' }),
  runSummary('broken', null, { ...UNREAD, state: 'damaged' }),
];

function names(choice: Partial<RunChoice>): string[] {
  return chosenRuns(RUNS, { text: '', state: '', order: 'name', ...choice }).map(({ name }) => name);
}

test.each([
  ['', ['begun', 'broken', 'closed', 'gone', 'old', 'young']],
  ['ok', ['old', 'young']],
  ['empty', ['begun']],
  ['unreachable', ['gone']],
  ['denied', ['closed']],
  ['damaged', ['broken']],
] as const)('the state "%s" chooses %j', (state, expected) => {
  expect(names({ state })).toEqual(expected);
});

test.each([
  ['name', ['begun', 'broken', 'closed', 'gone', 'old', 'young']],
  ['age', ['begun', 'broken', 'closed', 'gone', 'old', 'young']],
  ['stored', ['old', 'young', 'begun', 'broken', 'closed', 'gone']],
  ['fences', ['old', 'young', 'begun', 'broken', 'closed', 'gone']],
] as const)('the order by %s', (order, expected) => {
  expect(names({ order })).toEqual(expected);
  expect(Object.keys(ORDER_NAMES)).toContain(order);
});

test('the order by age is by the time since the commit, whatever the clocks of the stores say', () => {
  const ahead = (name: string, minutes: number, hours: number) => {
    const run = runSummary(name, minutes + 60 * hours);
    return { ...run, storeTimeMs: (run.storeTimeMs ?? 0) + hours * HOUR_MS };
  };
  const runs = [ahead('a', 30, 0), ahead('b', 20, 5), ahead('c', 40, -7)];
  expect(runs.map(aheadOf)).toEqual([0, 5 * HOUR_MS, -7 * HOUR_MS]);
  const chosen = chosenRuns(runs, { text: '', state: '', order: 'age' });
  expect(chosen.map(({ name }) => name)).toEqual(['b', 'a', 'c']);
});

test('a text is looked for in URIs and ids of attempts, in any case', () => {
  expect(names({ text: ' OLD ' })).toEqual(['old']);
  expect(names({ text: 'job-of-y' })).toEqual(['young']);
  expect(names({ text: 'bucket', state: 'empty' })).toEqual(['begun']);
  expect(names({ text: 'none of them' })).toEqual([]);
});
