import { withDeadline } from '@holdfast/core/internal/manager/records/deadline';
import { readAhead } from '@holdfast/core/internal/manager/records/read-ahead';
import { checkFileCount } from '@holdfast/core/internal/manager/save/sources';
import { ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { failure } from './memory-run.ts';

describe('a deadline', () => {
  test('that is renewed counts anew from then on, and ends work that is renewed no more', async () => {
    const clock = new ManualClock();
    const bounds = { clock, timeoutMs: 100, what: 'the work', signal: undefined };
    const states: boolean[] = [];
    const work = withDeadline(bounds, async (signal, renew) => {
      for (const stepMs of [90, 90, 90, 101]) {
        await clock.advance(stepMs);
        states.push(signal.aborted);
        renew();
      }
      signal.throwIfAborted();
    });
    expect(await failure(work)).toBe('TimedOut: the work took longer than 0.1 s');
    expect(states).toEqual([false, false, false, true]);
  });
});

describe('reading ahead', () => {
  test('gives results in their order, with no more at once than asked for', async () => {
    let underWay = 0;
    let most = 0;
    const delays = [50, 10, 40, 20, 30, 10];
    const read = readAhead(delays, { count: 3, signal: undefined }, async (delay) => {
      most = Math.max(most, ++underWay);
      for (let turn = 0; turn < delay; turn++) await Promise.resolve();
      underWay--;
      return delay;
    });
    const results: number[] = [];
    for await (const delay of read) results.push(delay);
    expect(results).toEqual(delays);
    expect(most).toBe(3);
  });

  test('stops what is under way when its reader goes, and has settled then', async () => {
    const stopped: number[] = [];
    const read = readAhead([0, 1, 2, 3, 4], { count: 3, signal: undefined }, async (item, signal) => {
      if (item === 0) return item;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      stopped.push(item);
      return item;
    });
    for await (const item of read) {
      expect(item).toBe(0);
      break;
    }
    expect(stopped).toEqual([1, 2]);
  });

  test('throws a failure where its turn comes, not before', async () => {
    const read = readAhead([0, 1, 2], { count: 3, signal: undefined }, async (item) => {
      if (item === 1) throw new Error('of item 1');
      return item;
    });
    expect(await read.next()).toEqual({ done: false, value: 0 });
    await expect(read.next()).rejects.toThrow('of item 1');
  });
});

test('more files than the receipt of one writer holds are refused by their number', async () => {
  expect(checkFileCount(2_000_000)).toBe(undefined);
  expect(await failure(Promise.resolve().then(() => checkFileCount(2_000_001)))).toBe(
    'InvalidArgument: there are 2000001 files; one writer saves at most 2000000 in a checkpoint',
  );
});
