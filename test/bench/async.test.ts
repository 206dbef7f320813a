import { expect, test } from 'vitest';
import { type AsyncRun, asyncVerdicts } from './async.ts';
import { isMet } from './results.ts';

function round(laterMs: number, throttledMs = laterMs): AsyncRun[] {
  const run = (kind: AsyncRun['kind'], blockedMs: number): AsyncRun => ({
    kind,
    blockedMs,
    totalMs: 9,
    loopBlockedMs: 1,
  });
  return [
    run('synchronous', 1000),
    run('copy', 100),
    run('first', 300),
    run('later', laterMs),
    run('throttled', throttledMs),
  ];
}

test('later saves are held to the time of a copy, round by round, and the rest is told', () => {
  const judged = (...runs: AsyncRun[]) =>
    asyncVerdicts({ conditions: 'here', runs }).map((verdict) => isMet(verdict));
  expect(judged(...round(150))).toEqual([true, true, true, true]);
  expect(judged(...round(151))).toEqual([false, false, true, true]);
  expect(judged(...round(120, 500), ...round(120, 500), ...round(500, 120))).toEqual([
    true,
    false,
    true,
    true,
  ]);
  const [, , first, synchronous, none] = asyncVerdicts({ conditions: 'here', runs: round(200) });
  expect([first?.values, synchronous?.values, none]).toEqual([[3], [5], undefined]);
  const directory: AsyncRun = { kind: 'directory', blockedMs: 400, totalMs: 0, loopBlockedMs: 0 };
  const verdicts = asyncVerdicts({ conditions: 'here', runs: [...round(100), directory] });
  expect(verdicts.at(-1)).toEqual({ what: 'directory: held up, in plain copies', values: [4] });
});
