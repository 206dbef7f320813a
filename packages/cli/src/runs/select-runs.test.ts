import type { RunSummary } from '@holdfast/fleet';
import { describe, expect, test } from 'vitest';
import { ageMs, lateness, type Order, selectRuns, type Wanted } from './select-runs.ts';

const HOUR_MS = 3600_000;
const NOTHING_CHOSEN: Wanted = { states: [], nameText: '', order: 'name', prices: null };

function run(name: string, facts: object = {}): RunSummary {
  const known = { uri: `s3://b/${name}`, name, state: 'ok', problem: null, asOfMs: 10 * HOUR_MS };
  return { ...known, latest: null, storedBytes: null, recentAttemptCount: null, ...facts } as RunSummary;
}

function committed(
  name: string,
  atHour: number,
  storedBytes: number,
  recentAttemptCount: number,
): RunSummary {
  const latest = { committedAtMs: atHour * HOUR_MS, ageMs: (10 - atHour) * HOUR_MS };
  return run(name, { latest, storedBytes, recentAttemptCount });
}

const namesOf = (runs: readonly RunSummary[]) => runs.map(({ name }) => name).join('');

describe('selectRuns', () => {
  const runs = [committed('b', 5, 30, 1), committed('c', 7, 10, 4), committed('a', 6, 20, 2)];

  test.each<[Order, string]>([
    ['name', 'abc'],
    ['age', 'bac'],
    ['stored', 'bac'],
    ['attempts', 'cab'],
    ['cost', 'cba'],
  ])('by %s: the largest first', (order, names) => {
    const byPrefix = [
      { prefix: 's3://b/c', perGiBMonth: 5 },
      { prefix: 's3://', perGiBMonth: 1 },
    ];
    const prices = { currency: 'EUR', byPrefix };
    expect(namesOf(selectRuns(runs, { ...NOTHING_CHOSEN, order, prices }))).toBe(names);
  });

  test('what is unknown comes before all others, and equal runs by name', () => {
    const more = [...runs, run('z'), run('d', { recentAttemptCount: 4 })];
    expect(namesOf(selectRuns(more, { ...NOTHING_CHOSEN, order: 'attempts' }))).toBe('zcdab');
  });

  test('only the states and names that are wanted', () => {
    const states = ['ok', 'empty', 'damaged', 'denied', 'unreachable'] as const;
    const each = states.map((state) => run(`of-${state}`, { state }));
    const chosen = selectRuns(each, { ...NOTHING_CHOSEN, states: ['denied', 'unreachable', 'empty'] });
    expect(chosen.map(({ state }) => state)).toEqual(['denied', 'empty', 'unreachable']);
    expect(selectRuns(each, { ...NOTHING_CHOSEN, nameText: 'of-e' })).toMatchObject([{ state: 'empty' }]);
  });
});

describe('lateness', () => {
  const young = committed('a', 9, 1, 1);

  test('the age grows with the time since the look, and never shrinks', () => {
    expect(ageMs(young, 10 * HOUR_MS)).toBe(HOUR_MS);
    expect(ageMs(young, 12 * HOUR_MS)).toBe(3 * HOUR_MS);
    expect(ageMs(young, 3 * HOUR_MS)).toBe(HOUR_MS);
    expect(lateness(young, 2 * HOUR_MS, 11 * HOUR_MS)).toBeNull();
    expect(lateness(young, 2 * HOUR_MS, 11 * HOUR_MS + 1)).toBe('2 h old');
  });

  test('a run without a known checkpoint is late', () => {
    expect(lateness(run('b', { state: 'empty' }), HOUR_MS, 0)).toBe('no checkpoint');
    const denied = { ...young, state: 'denied', problem: { code: 'Denied', message: 'no' } } as const;
    expect(lateness(denied, HOUR_MS, 10 * HOUR_MS)).toBe('denied (Denied)');
  });
});
