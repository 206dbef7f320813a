import { expect, test } from 'vitest';
import { attemptsOf, bestOf, byCommit, metricNamesOf, pointsOf } from './picture.ts';
import { commit } from './rows.testing.ts';

const ROWS = [
  commit(4, 40, { epoch: 2, metrics: { loss: 2, auc: 0.9 }, isLatest: true }),
  commit(3, 30, { epoch: 2, metrics: { loss: 1 }, state: 'retiring' }),
  commit(2, 20, { metrics: { loss: 3, auc: 0.7 } }),
  commit(1, 10, { metrics: { loss: 4 } }),
];

test('one span for each attempt, in the order of their commits', () => {
  expect(attemptsOf(byCommit(ROWS))).toEqual([
    {
      lineage: 1,
      epoch: 1,
      firstCommitMs: 600_000,
      lastCommitMs: 1_200_000,
      firstVersion: '1',
      lastVersion: '2',
      commitCount: 2,
    },
    expect.objectContaining({ epoch: 2, firstVersion: '3', lastVersion: '4', commitCount: 2 }),
  ]);
});

test('the best of each rule: live versions with the metric, best first', () => {
  const policy = {
    keepBest: [
      { metric: 'loss', mode: 'min' as const, count: 2 },
      { metric: 'auc', mode: 'max' as const, count: 5 },
      { metric: 'none', mode: 'max' as const, count: 1 },
    ],
  };
  const best = bestOf(ROWS, policy).map(({ metric, best }) => [metric, best.map(({ version }) => version)]);
  expect(best).toEqual([
    ['loss', ['4', '2']],
    ['auc', ['4', '2']],
    ['none', []],
  ]);
  expect(bestOf(ROWS, null)).toEqual([]);
  expect(metricNamesOf(ROWS)).toEqual(['auc', 'loss']);
});

test('a picture of many versions has some hundred points, among them those that stand out', () => {
  const rows = Array.from({ length: 10_000 }, (_, index) =>
    commit(index + 1, index, {
      epoch: index < 5001 ? 1 : 2,
      pins: index === 1234 ? ['paper'] : [],
      isLatest: index === 9999,
      ...(index === 4321 && { state: 'quarantined' as const }),
    }),
  );
  const best = [{ metric: 'loss', mode: 'min' as const, best: [{ version: '778', lineage: 1, epoch: 1 }] }];
  const points = pointsOf(rows, best);
  expect(points.length).toBeLessThanOrEqual(600);
  expect(points.length).toBeGreaterThan(500);
  const versions = points.map(({ version }) => version);
  for (const wanted of ['1', '778', '1235', '4322', '5001', '5002', '10000'])
    expect(versions).toContain(wanted);
  expect(points.toSorted((a, b) => a.atMs - b.atMs)).toEqual(points);
});
