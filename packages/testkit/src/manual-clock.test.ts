import { isCheckpointError } from '@holdfast/core/contract';
import { expect, test } from 'vitest';
import { ManualClock } from './manual-clock.ts';

function sleeper(clock: ManualClock, log: string[], name: string, ms: number): Promise<void> {
  return clock.sleep(ms).then(() => {
    log.push(`${name} at ${clock.monotonicMs()}`);
  });
}

test('time stands still until it is moved, and both clocks move together', async () => {
  const clock = new ManualClock({ nowMs: 1000 });
  expect([clock.nowMs(), clock.monotonicMs()]).toEqual([1000, 0]);
  await clock.advance(250);
  expect([clock.nowMs(), clock.monotonicMs()]).toEqual([1250, 250]);
});

test('sleepers wake in the order in which they are due, each at its own time', async () => {
  const clock = new ManualClock();
  const log: string[] = [];
  void sleeper(clock, log, 'c', 30);
  void sleeper(clock, log, 'a', 10);
  void sleeper(clock, log, 'b', 10);
  expect(clock.sleeperCount).toBe(3);
  await clock.advance(29);
  expect(log).toEqual(['a at 10', 'b at 10']);
  await clock.advance(1);
  expect(log).toEqual(['a at 10', 'b at 10', 'c at 30']);
  expect(clock.sleeperCount).toBe(0);
});

test('a sleeper that sleeps again while time moves wakes within the same span', async () => {
  const clock = new ManualClock();
  const log: string[] = [];
  void (async () => {
    for (let i = 0; i < 3; i++) await sleeper(clock, log, `${i}`, 10);
  })();
  await clock.advance(100);
  expect(log).toEqual(['0 at 10', '1 at 20', '2 at 30']);
  expect(clock.monotonicMs()).toBe(100);
});

test('a signal ends a sleep at once with Aborted, and the sleeper is gone', async () => {
  const clock = new ManualClock();
  const controller = new AbortController();
  const sleeping = clock.sleep(10, controller.signal);
  controller.abort();
  await expect(sleeping).rejects.toSatisfy((error) => isCheckpointError(error, 'Aborted'));
  await expect(clock.sleep(10, controller.signal)).rejects.toSatisfy((error) =>
    isCheckpointError(error, 'Aborted'),
  );
  expect(clock.sleeperCount).toBe(0);
});

test('a sleep of no time ends at once', async () => {
  const clock = new ManualClock();
  await clock.sleep(0);
  await clock.sleep(-5);
  expect(clock.monotonicMs()).toBe(0);
});

test('the wall clock can jump; no sleeper wakes and the other clock does not move', async () => {
  const clock = new ManualClock({ nowMs: 1000 });
  void clock.sleep(10);
  clock.setWallClock(50);
  expect([clock.nowMs(), clock.monotonicMs(), clock.sleeperCount]).toEqual([50, 0, 1]);
  await clock.advance(10);
  expect([clock.nowMs(), clock.sleeperCount]).toEqual([60, 0]);
});

test('autoAdvance: time goes on when all that is left is sleeping, earliest first', async () => {
  const clock = new ManualClock({ autoAdvance: true });
  const log: string[] = [];
  await Promise.all([
    sleeper(clock, log, 'late', 3_600_000),
    (async () => {
      for (let i = 0; i < 3; i++) await sleeper(clock, log, `${i}`, 60_000);
    })(),
  ]);
  expect(log).toEqual(['0 at 60000', '1 at 120000', '2 at 180000', 'late at 3600000']);
  await sleeper(clock, log, 'again', 1);
  expect(log.at(-1)).toBe('again at 3600001');
});

test('autoAdvance: while something else runs, time waits', async () => {
  const clock = new ManualClock({ autoAdvance: true });
  const controller = new AbortController();
  const timeout = clock.sleep(1000, controller.signal).catch((error: unknown) => error);
  for (let i = 0; i < 100; i++) await Promise.resolve();
  expect(clock.monotonicMs()).toBe(0);
  controller.abort();
  expect(isCheckpointError(await timeout, 'Aborted')).toBe(true);
  expect(clock.monotonicMs()).toBe(0);
});
