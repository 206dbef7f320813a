import { SeededRandom } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import type { Counted } from './counter.ts';
import { stepsOf } from './crowd.ts';
import { type Load, runLoad } from './prefix-load.ts';

const LIMITS = { writesPerSecond: 100, readsPerSecond: 200 };
const run = (load: Load) => runLoad(load, LIMITS, new SeededRandom(1));

test('clients below the limits are as fast as their answers, and no request is refused', () => {
  // 5 clients, 4 requests after one another of 30 ms each, from the first 30 ms on.
  const { seconds, refused, connections } = run({ clients: 5, reads: 2, writes: 2, lanes: 1 });
  expect(seconds).toBeGreaterThanOrEqual(0.12);
  expect(seconds).toBeLessThanOrEqual(0.15);
  expect([refused, connections]).toEqual([0, 5]);
});

test('clients above the limits take as long as the store allows, and longer by their delays', () => {
  const load = { clients: 100, reads: 0, writes: 10, lanes: 4 };
  const { seconds, refused, connections } = run(load);
  expect(seconds).toBeGreaterThan(10);
  expect(seconds).toBeLessThan(30);
  expect(refused).toBeGreaterThan(100);
  expect(connections).toBe(400);
  expect(run(load)).toEqual({ seconds, refused, connections });
});

test('requests of more writers are on the line through those that were counted', () => {
  const counted = (writers: number): Counted[] =>
    [
      { what: 'join', requests: 4, writes: 1 },
      { what: 'save', requests: 9 + writers / 1000, writes: 3 },
      { what: 'last save and commit', requests: 16 + 2 * writers, writes: 5 },
    ].map(({ what, ...counts }) => ({
      ...counts,
      what: `writers: ${what}`,
      count: writers,
      bytes: 0,
      ms: 0,
    }));
  const steps = stepsOf(10_000, 16 * 1024 ** 2, [counted(1000), counted(2000)]);
  expect(steps.map(({ clients, reads, writes }) => [clients, reads, writes])).toEqual([
    [10_000, 3, 1],
    [10_000, 0, 5],
    [10_000, 0, 2],
    [10_000, 0, 2],
    [10_000, 13, 0],
    [1, 19_995, 2],
  ]);
});
