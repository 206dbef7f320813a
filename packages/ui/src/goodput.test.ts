import { describe, expect, test } from 'vitest';
import { bestIntervalMs, expectedCostMs, goodputOf } from './goodput.ts';
import { commit, decision } from './rows.testing.ts';

const MINUTE = 60_000;

/**
 * Attempt 1.1 commits at 0, 10 and 20 min. 1.2 takes over at 26 min and commits at 30, 40 and 54
 * min. At 60 min a rollback goes back to the commit at 30 min, and 2.3 commits at 64 and 74 min.
 */
const ROWS = [
  commit(1, 0),
  commit(2, 10),
  commit(3, 20),
  commit(4, 30, { epoch: 2 }),
  commit(5, 40, { epoch: 2, isLeftBehind: true }),
  commit(6, 54, { epoch: 2, isLeftBehind: true }),
  commit(5, 64, { lineage: 2, epoch: 3 }),
  commit(6, 74, { lineage: 2, epoch: 3 }),
];
const EVENTS = [
  decision('rollback', 60, { lineage: 2, epoch: 3 }),
  decision('takeover', 26, { epoch: 2, attempt: 'job-2' }),
  decision('takeover', 0, {}),
];

describe('what checkpoints cost and saved', () => {
  test('intervals, losses and rollbacks of a run, worked out by hand', () => {
    expect(goodputOf(ROWS, { events: EVENTS }, [3000, 1000, 8000])).toEqual({
      commitCount: 8,
      firstCommitMs: 0,
      spanMs: 74 * MINUTE,
      // Within attempts: 10, 10, 10, 14 and 10 minutes.
      intervalMs: 10 * MINUTE,
      longestIntervalMs: 14 * MINUTE,
      interruptionCount: 2,
      interruptions: [
        {
          kind: 'rollback',
          from: '1.2',
          to: '2.3',
          lastVersion: '6',
          nextVersion: '5',
          lastCommitMs: 54 * MINUTE,
          startMs: 60 * MINUTE,
          nextCommitMs: 64 * MINUTE,
          lostAtMostMs: 6 * MINUTE,
        },
        {
          kind: 'takeover',
          from: '1.1',
          to: '1.2',
          lastVersion: '3',
          nextVersion: '4',
          lastCommitMs: 20 * MINUTE,
          startMs: 26 * MINUTE,
          nextCommitMs: 30 * MINUTE,
          lostAtMostMs: 6 * MINUTE,
        },
      ],
      lostAtMostMs: 12 * MINUTE,
      // The new attempt at 26 minutes begins with the commit at 20.
      savedAtLeastMs: 20 * MINUTE,
      // From 30 to 40, and to 54 minutes.
      rolledBackMs: 24 * MINUTE,
      timeToCommitMs: 3000,
      timeToCommitCount: 3,
      isWithoutAttempts: false,
    });
  });

  test('without the takeover, or with one outside of its time, the loss reaches to the next commit', () => {
    const takeover = (minutes: number) => decision('takeover', minutes, { epoch: 2 });
    for (const events of [[], [takeover(19)], [takeover(31)]]) {
      const { interruptions, lostAtMostMs } = goodputOf(ROWS.slice(0, 4), { events }, []);
      expect(interruptions).toMatchObject([{ startMs: null, lostAtMostMs: 10 * MINUTE }]);
      expect(lostAtMostMs).toBe(10 * MINUTE);
    }
  });

  test('a run without commits, with one, and with one in each attempt: what is not known is null', () => {
    const unknown = { intervalMs: null, longestIntervalMs: null, timeToCommitMs: null };
    expect(goodputOf([], { events: [] }, [])).toMatchObject({
      ...unknown,
      commitCount: 0,
      firstCommitMs: null,
    });
    expect(goodputOf([commit(1, 5)], { events: [] }, [])).toMatchObject({
      ...unknown,
      firstCommitMs: 5 * MINUTE,
      spanMs: 0,
      interruptionCount: 0,
    });
    const each = [commit(1, 0), commit(2, 7, { epoch: 2 })];
    expect(goodputOf(each, { events: [] }, [])).toMatchObject({ ...unknown, interruptionCount: 1 });
  });

  test('the median of an even number is between the two in the middle', () => {
    const rows = [commit(1, 0), commit(2, 4), commit(3, 10)];
    expect(goodputOf(rows, { events: [] }, [1000, 2000])).toMatchObject({
      intervalMs: 5 * MINUTE,
      timeToCommitMs: 1500,
    });
  });

  test.each([
    [['drawn-1', 'drawn-2', 'drawn-3'], true],
    [['drawn-1', 'drawn-2', 'job-3'], true],
    [['drawn-1', 'job-2', 'job-3'], false],
    [['drawn-1'], false],
  ])('attempts %j: whether most saves gave no id of an attempt is %s', (attempts, expected) => {
    const events = attempts.map((attempt, index) => decision('takeover', index, { epoch: index, attempt }));
    expect(goodputOf([], { events }, []).isWithoutAttempts).toBe(expected);
  });
});

describe('the model of Young and Daly', () => {
  // A day with 4 interruptions; a save blocks for 10 s.
  const model = { blockedMs: 10_000, spanMs: 1440 * MINUTE, interruptionCount: 4 };

  test('the best interval is √(2 · blocked · time between interruptions)', () => {
    // √(2 · 10 s · 21,600 s) = √432,000 s² = 657.267 s
    expect(bestIntervalMs(model)).toBeCloseTo(657_267, 0);
  });

  test('the cost is the blocked time and half an interval for each interruption', () => {
    // 144 saves of 10 s are 24 min; 4 times 5 min are 20 min.
    expect(expectedCostMs(model, 10 * MINUTE)).toBe(44 * MINUTE);
    // 288 saves are 48 min; 4 times 2.5 min are 10 min.
    expect(expectedCostMs(model, 5 * MINUTE)).toBe(58 * MINUTE);
  });

  test('no other interval costs less than the best', () => {
    const best = bestIntervalMs(model);
    for (const factor of [0.5, 0.9, 1.1, 2])
      expect(expectedCostMs(model, best * factor)).toBeGreaterThan(expectedCostMs(model, best));
  });
});
