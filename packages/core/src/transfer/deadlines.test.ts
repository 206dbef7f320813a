import { describe, expect, test } from 'vitest';
import { abortError, type Clock } from '../contract/index.ts';
import { type Deadline, Deadlines } from './deadlines.ts';

/** Sleeps end when the test ends them. `sleeps`: those that have not ended. */
function setUp() {
  let nowMs = 0;
  const sleeps = new Map<() => void, number>();
  const sleep = (ms: number, signal?: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      sleeps.set(resolve, nowMs + ms);
      signal?.addEventListener('abort', () => {
        sleeps.delete(resolve);
        reject(abortError(signal));
      });
    });
  const clock: Clock = { nowMs: () => 0, monotonicMs: () => nowMs, sleep };
  const advanceTo = async (ms: number) => {
    nowMs = ms;
    for (const [wake, dueMs] of sleeps) {
      if (dueMs > nowMs) continue;
      sleeps.delete(wake);
      wake();
    }
    await new Promise((resolve) => setImmediate(resolve));
  };
  const due: string[] = [];
  const deadline = (name: string, dueMs: number, then?: () => void): Deadline => ({
    dueMs,
    onDue: () => {
      due.push(name);
      then?.();
    },
  });
  return {
    advanceTo,
    deadline,
    deadlines: new Deadlines(clock),
    due,
    sleepsUntil: () => [...sleeps.values()],
  };
}

describe('deadlines', () => {
  test('each is due once, at its time, whatever the order in which they came', async () => {
    const { advanceTo, deadline, deadlines, due } = setUp();
    // biome-ignore format: a table
    for (const [name, dueMs] of [['c', 30], ['a', 10], ['b', 20]] as const) deadlines.add(deadline(name, dueMs));
    await advanceTo(9);
    expect(due).toEqual([]);
    await advanceTo(10);
    expect(due).toEqual(['a']);
    await advanceTo(25);
    expect(due).toEqual(['a', 'b']);
    await advanceTo(100);
    expect(due).toEqual(['a', 'b', 'c']);
  });

  test('one sleep serves all of them, and is left when the one that it was for is removed', async () => {
    const { advanceTo, deadline, deadlines, due, sleepsUntil } = setUp();
    const first = deadline('first', 10);
    deadlines.add(first);
    deadlines.add(deadline('second', 20));
    expect(sleepsUntil()).toEqual([10]);
    deadlines.remove(first);
    expect(sleepsUntil()).toEqual([10]);
    await advanceTo(10);
    expect([due, sleepsUntil()]).toEqual([[], [20]]);
    await advanceTo(20);
    expect([due, sleepsUntil()]).toEqual([['second'], []]);
  });

  test('with none left nothing sleeps, so that a process can end', () => {
    const { deadline, deadlines, sleepsUntil } = setUp();
    const only = deadline('only', 10);
    deadlines.add(only);
    deadlines.remove(only);
    expect(sleepsUntil()).toEqual([]);
    deadlines.remove(only);
    deadlines.add(deadline('next', 50));
    expect(sleepsUntil()).toEqual([50]);
  });

  test('one that is past when it is added is due at once', async () => {
    const { advanceTo, deadline, deadlines, due, sleepsUntil } = setUp();
    await advanceTo(100);
    deadlines.add(deadline('late', 10));
    expect(sleepsUntil()).toEqual([100]);
    await advanceTo(100);
    expect(due).toEqual(['late']);
  });

  test('one that is due may set another', async () => {
    const { advanceTo, deadline, deadlines, due, sleepsUntil } = setUp();
    const again = deadline('again', 25);
    deadlines.add(deadline('first', 10, () => deadlines.add(again)));
    deadlines.add(deadline('other', 30));
    await advanceTo(10);
    expect([due, sleepsUntil()]).toEqual([['first'], [25]]);
    await advanceTo(25);
    expect(due).toEqual(['first', 'again']);
    await advanceTo(30);
    expect(due).toEqual(['first', 'again', 'other']);
  });
});
