import { describe, expect, test } from 'vitest';
import { abortError, CheckpointError, type Clock, isCheckpointError } from '../contract/index.ts';
import { RetryBudget, type RetryPolicy, retrying } from './retry.ts';

/** Sleeps take no time and are recorded. */
class NotedSleeps implements Clock {
  readonly sleeps: number[] = [];
  nowMs = () => 0;
  monotonicMs = () => 0;
  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) throw abortError(signal);
    this.sleeps.push(ms);
  }
}

const clock = () => new NotedSleeps();
const down = () => new CheckpointError('Unavailable', 'the store is down', { context: { key: 'k' } });

function policy(changes: Partial<RetryPolicy> = {}): RetryPolicy {
  const random = { hex: () => '', fraction: () => 0.5 };
  return {
    what: 'get k',
    countMax: 10,
    timeoutMs: 600_000,
    delayMsBase: 100,
    delayMsMax: 20_000,
    clock: clock(),
    random,
    ...changes,
  };
}

async function failure(promise: Promise<unknown>): Promise<CheckpointError> {
  try {
    await promise;
  } catch (error) {
    if (isCheckpointError(error)) return error;
    throw error;
  }
  throw new Error('it did not fail');
}

describe('retrying', () => {
  test('the delay is a random part of a limit that doubles up to its maximum', async () => {
    const noted = clock();
    const details: string[] = [];
    let calls = 0;
    const operation = async (repeats: number) => {
      expect(repeats).toBe(calls++);
      if (repeats < 10) throw down();
      return 'done';
    };
    expect(
      await retrying(operation, policy({ clock: noted, onRetry: (detail) => details.push(detail) })),
    ).toBe('done');
    expect(noted.sleeps).toEqual([50, 100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
    expect(details[0]).toBe('get k: Unavailable: the store is down; try 2 in 50 ms');
    expect(details).toHaveLength(10);
  });

  test('the random part is between nothing and all of it', async () => {
    for (const [fraction, delayMs] of [
      [0, 0],
      [0.999, 99.9],
    ] as const) {
      const noted = clock();
      const random = { hex: () => '', fraction: () => fraction };
      const operation = async (repeats: number) => {
        if (repeats === 0) throw down();
      };
      await retrying(operation, policy({ clock: noted, random }));
      expect(noted.sleeps[0]).toBeCloseTo(delayMs);
    }
  });

  test('a store that throttles is left alone for five times as long', async () => {
    const noted = clock();
    const operation = async (repeats: number) => {
      if (repeats === 1) throw down();
      if (repeats < 8) throw new CheckpointError('Throttled', 'slow down');
    };
    await retrying(operation, policy({ clock: noted }));
    expect(noted.sleeps).toEqual([250, 100, 1000, 2000, 4000, 8000, 10_000, 10_000]);
  });

  test('a store that says how long: so long and a random part more, but never above the upper limit', async () => {
    for (const code of ['Throttled', 'Unavailable'] as const) {
      const noted = clock();
      const asked = [3000, 19_900, 3_600_000];
      const operation = async (repeats: number) => {
        const retryAfterMs = asked[repeats];
        if (retryAfterMs !== undefined) throw new CheckpointError(code, 'later', { retryAfterMs });
      };
      await retrying(operation, policy({ clock: noted }));
      expect(noted.sleeps).toEqual([code === 'Throttled' ? 3250 : 3050, 20_000, 20_000]);
    }
  });

  test('a deadline ends a wait that the store has asked for', async () => {
    const stop = new AbortController();
    const sleep = (_: number, signal?: AbortSignal) =>
      new Promise<void>((_, reject) => {
        signal?.addEventListener('abort', () => reject(abortError(signal)));
        stop.abort(new CheckpointError('TimedOut', 'the deadline'));
      });
    const waiting = { nowMs: () => 0, monotonicMs: () => 0, sleep };
    const operation = () =>
      Promise.reject(new CheckpointError('Throttled', 'later', { retryAfterMs: 10_000 }));
    const error = await failure(retrying(operation, policy({ clock: waiting, signal: stop.signal })));
    expect([error.code, error.message]).toEqual(['TimedOut', 'the deadline; the last try: later']);
  });

  test('a deadline that comes in a later try tells what the one before failed with', async () => {
    const operation = async (repeats: number) => {
      throw repeats === 0 ? down() : new CheckpointError('TimedOut', 'the deadline');
    };
    const error = await failure(retrying(operation, policy()));
    expect([error.code, error.message]).toEqual([
      'TimedOut',
      'the deadline; the last try: the store is down',
    ]);
  });

  test('used up: the last error, exhausted, with the number of tries in its message', async () => {
    let calls = 0;
    const operation = async () => {
      calls += 1;
      throw new CheckpointError('Throttled', `slow down (${calls})`, { context: { key: 'k' } });
    };
    const error = await failure(retrying(operation, policy({ countMax: 3 })));
    expect(error).toMatchObject({ code: 'Throttled', status: 'exhausted', context: { key: 'k' } });
    expect(error.message).toBe('get k: tried 4 times: slow down (4)');
    expect(isCheckpointError(error.cause, 'Throttled')).toBe(true);
    expect(calls).toBe(4);
  });

  test('no repeats allowed: the first error is exhausted', async () => {
    const error = await failure(retrying(() => Promise.reject(down()), policy({ countMax: 0 })));
    expect(error).toMatchObject({ status: 'exhausted', message: 'get k: tried 1 time: the store is down' });
  });

  test.each([
    new CheckpointError('NotFound', 'no such key'),
    new CheckpointError('Unavailable', 'used up below', { status: 'exhausted' }),
    new TypeError('a bug'),
  ])('%s is not repeated and passes as it is', async (thrown) => {
    let calls = 0;
    const operation = async () => {
      calls += 1;
      throw thrown;
    };
    await expect(retrying(operation, policy())).rejects.toBe(thrown);
    expect(calls).toBe(1);
  });

  test('a signal that has fired: nothing is called', async () => {
    const signal = AbortSignal.abort(new CheckpointError('Aborted', 'enough'));
    const operation = () => Promise.reject(new Error('it was called'));
    expect((await failure(retrying(operation, policy({ signal })))).message).toBe('enough');
  });

  test('a signal that fires during the call: its temporary error is not repeated, nor announced', async () => {
    const stop = new AbortController();
    const noted = clock();
    const calls: string[] = [];
    const operation = async () => {
      calls.push('operation');
      stop.abort();
      throw down();
    };
    const onRetry = () => calls.push('onRetry');
    const error = await failure(retrying(operation, policy({ signal: stop.signal, clock: noted, onRetry })));
    expect([error.code, calls, noted.sleeps]).toEqual(['Aborted', ['operation'], []]);
  });

  test('a signal that fires during the delay ends it', async () => {
    const stop = new AbortController();
    const onRetry = () => stop.abort();
    const error = await failure(
      retrying(() => Promise.reject(down()), policy({ signal: stop.signal, onRetry })),
    );
    expect(error.code).toBe('Aborted');
  });
});

describe('retry budget', () => {
  test('while it is empty each repeat waits for the longest delay, and all of them end when their time does', async () => {
    const budget = new RetryBudget(10);
    const sleeps: number[] = [];
    const errors = await Promise.all(
      Array.from({ length: 20 }, () => {
        let nowMs = 0;
        const noted = clock();
        noted.monotonicMs = () => nowMs;
        noted.sleep = async (ms) => {
          sleeps.push(ms);
          nowMs += ms;
        };
        const limits = { budget, clock: noted, countMax: 1000, timeoutMs: 60_000 };
        return failure(retrying(() => Promise.reject(down()), policy(limits)));
      }),
    );
    expect(sleeps.filter((ms) => ms < 20_000).length).toBeLessThanOrEqual(10 + 20);
    for (const error of errors) {
      expect(error.message).toMatch(/^get k: tried \d+ times in 60 s: the store is down$/);
      expect(error.status).toBe('exhausted');
    }
  });

  test('five successes give one repeat back, and it is never more than full', async () => {
    const budget = new RetryBudget(3);
    for (let i = 0; i < 100; i += 1) budget.succeeded();
    expect([budget.take(), budget.take(), budget.take(), budget.take()]).toEqual([true, true, true, false]);
    for (let i = 0; i < 5; i += 1) budget.succeeded();
    expect(budget.repeats).toBeCloseTo(1);
  });

  test('a store that fails one call in seven can be used for ever', async () => {
    const budget = new RetryBudget(5);
    for (let call = 0; call < 1000; call += 1) {
      const operation = async (repeats: number) => {
        if (call % 6 === 0 && repeats === 0) throw down();
      };
      await retrying(operation, policy({ budget }));
    }
    expect(budget.repeats).toBeGreaterThan(4);
  });
});
