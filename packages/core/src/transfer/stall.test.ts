import { describe, expect, test } from 'vitest';
import {
  abortError,
  CheckpointError,
  type Clock,
  type RequestWatch,
  requestWatchOf,
} from '../contract/index.ts';
import { Deadlines } from './deadlines.ts';
import { type Stoppable, WatchedCall, withStallTimeout } from './stall.ts';

type Options = Parameters<typeof withStallTimeout<string>>[1];

class HandClock implements Clock {
  #elapsedMs = 0;
  readonly #sleepers = new Set<{ dueMs: number; wake: () => void }>();
  nowMs = () => this.#elapsedMs;
  monotonicMs = () => this.#elapsedMs;
  get sleeperCount(): number {
    return this.#sleepers.size;
  }
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((wake, reject) => {
      const sleeper = { dueMs: this.#elapsedMs + ms, wake };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', () => {
        this.#sleepers.delete(sleeper);
        reject(abortError(signal));
      });
    });
  }
  async advance(ms: number): Promise<void> {
    this.#elapsedMs += ms;
    for (const sleeper of [...this.#sleepers]) {
      if (sleeper.dueMs > this.#elapsedMs) continue;
      this.#sleepers.delete(sleeper);
      sleeper.wake();
    }
    await settled();
  }
}

const settled = () => new Promise<void>((resolve) => setImmediate(resolve));

/** A call that ends when the test ends it, whatever its signal does. */
function call() {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  let given: AbortSignal | undefined;
  const operation = (signal: AbortSignal) => {
    given = signal;
    return promise;
  };
  return { operation, resolve, reject, signal: () => given as AbortSignal };
}

function setUp(changes: Partial<Options> = {}) {
  const clock = new HandClock();
  const abandoned: Promise<string>[] = [];
  const options: Options = {
    what: 'part 3',
    stallTimeoutMs: 20_000,
    graceMs: 5000,
    deadlines: new Deadlines(clock),
    onAbandoned: (late) => abandoned.push(late),
    ...changes,
  };
  return { clock, abandoned, options };
}

/** The outcome of a promise so far. */
function watch(promise: Promise<unknown>) {
  const state: { value?: unknown; error?: unknown } = {};
  promise.then(
    (value) => {
      state.value = value;
    },
    (error) => {
      state.error = error;
    },
  );
  return state;
}

describe('stall guard', () => {
  test('an answer in time passes, and no timer is left', async () => {
    const { clock, options } = setUp();
    const { operation, resolve, signal } = call();
    const state = watch(withStallTimeout(operation, options));
    await clock.advance(19_999);
    expect(signal().aborted).toBe(false);
    resolve('answer');
    await settled();
    expect(state).toEqual({ value: 'answer' });
    expect(clock.sleeperCount).toBe(0);
  });

  test('an error of the call passes as it is', async () => {
    const { clock, options } = setUp();
    const { operation, reject } = call();
    const state = watch(withStallTimeout(operation, options));
    const denied = new CheckpointError('Denied', 'no');
    reject(denied);
    await settled();
    expect(state.error).toBe(denied);
    expect(clock.sleeperCount).toBe(0);
  });

  test('a call that throws before it returns a promise is an error like any other', async () => {
    const { options } = setUp();
    const thrown = new TypeError('bug');
    const operation = () => {
      throw thrown;
    };
    await expect(withStallTimeout(operation, options)).rejects.toBe(thrown);
  });

  test('silence: the call is stopped, and only when it has settled the error is a temporary Unavailable', async () => {
    const { clock, options, abandoned } = setUp();
    const { operation, reject, signal } = call();
    const state = watch(withStallTimeout(operation, options));
    await clock.advance(20_000);
    expect(signal().aborted).toBe(true);
    expect(state).toEqual({});
    await clock.advance(4999);
    expect(state).toEqual({});
    reject(new CheckpointError('Aborted', 'stopped'));
    await settled();
    expect(state.error).toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
      message: 'part 3: no answer for 20 s',
    });
    expect([abandoned.length, clock.sleeperCount]).toEqual([0, 0]);
  });

  test('payload that moves is no silence: the call is stopped only so long after the last byte', async () => {
    const { clock, options } = setUp();
    const { operation, reject } = call();
    const watched = new WatchedCall(options);
    const state = watch(watched.run(({ signal }) => operation(signal)));
    for (let round = 0; round < 5; round += 1) {
      await clock.advance(15_000);
      watched.onBytes();
    }
    await clock.advance(19_999);
    expect(watched.signal.aborted).toBe(false);
    await clock.advance(1);
    expect(watched.signal.aborted).toBe(true);
    reject(new CheckpointError('Aborted', 'stopped'));
    await settled();
    expect(state.error).toMatchObject({ code: 'Unavailable', message: 'part 3: no answer for 20 s' });
    expect(clock.sleeperCount).toBe(0);
  });

  test('silence, then success all the same: it is a success', async () => {
    const { clock, options } = setUp();
    const { operation, resolve } = call();
    const state = watch(withStallTimeout(operation, options));
    await clock.advance(20_000);
    resolve('late answer');
    await settled();
    expect(state).toEqual({ value: 'late answer' });
  });

  test('silence, then an error of its own: that is the error', async () => {
    const { clock, options } = setUp();
    const { operation, reject } = call();
    const state = watch(withStallTimeout(operation, options));
    await clock.advance(20_000);
    const full = new CheckpointError('StorageFull', 'no space');
    reject(full);
    await settled();
    expect(state.error).toBe(full);
  });

  test('a call that does not end when it is stopped is left behind after the grace period, exhausted', async () => {
    const { clock, options, abandoned } = setUp();
    const { operation, resolve } = call();
    const state = watch(withStallTimeout(operation, options));
    await clock.advance(20_000);
    await clock.advance(5000);
    expect(state.error).toMatchObject({ code: 'Unavailable', status: 'exhausted' });
    expect(String(state.error)).toContain(
      'no answer for 20 s, and the call did not end within 5 s of being stopped',
    );
    expect(clock.sleeperCount).toBe(0);
    resolve('much later');
    expect(await abandoned[0]).toBe('much later');
  });

  test("the caller's signal stops the call; the error waits until it has settled", async () => {
    const stop = new AbortController();
    const { options } = setUp({ signal: stop.signal });
    const { operation, reject, signal } = call();
    const state = watch(withStallTimeout(operation, options));
    stop.abort();
    await settled();
    expect([signal().aborted, state]).toEqual([true, {}]);
    reject(new CheckpointError('Aborted', 'stopped'));
    await settled();
    expect(state.error).toMatchObject({ code: 'Aborted', message: 'the caller stopped the operation' });
  });

  test("the caller's signal and a call that does not end: Aborted, and it is left behind", async () => {
    const stop = new AbortController();
    const { clock, options, abandoned } = setUp({ signal: stop.signal, stallTimeoutMs: undefined });
    const { operation } = call();
    const state = watch(withStallTimeout(operation, options));
    await clock.advance(1_000_000);
    expect(state).toEqual({});
    stop.abort();
    await clock.advance(5000);
    expect(state.error).toMatchObject({ code: 'Aborted' });
    expect(abandoned).toHaveLength(1);
  });

  test('a signal that fired before: the call is not made', async () => {
    const { options } = setUp({ signal: AbortSignal.abort() });
    const { operation, signal } = call();
    await expect(withStallTimeout(operation, options)).rejects.toMatchObject({ code: 'Aborted' });
    expect(signal()).toBeUndefined();
  });

  test('a signal that fires after the end has no effect', async () => {
    const stop = new AbortController();
    const { options } = setUp({ signal: stop.signal });
    const { operation, resolve, signal } = call();
    resolve('answer');
    await withStallTimeout(operation, options);
    stop.abort();
    expect(signal().aborted).toBe(false);
  });
});

describe('a call whose requests wait for a connection', () => {
  /** A watched call, and the watch that its requests report to. */
  function waiting() {
    const { clock, options } = setUp();
    const { operation, resolve } = call();
    const watched = new WatchedCall(options);
    const state = watch(watched.run(({ signal }) => operation(signal)));
    return { clock, watched, state, resolve, requests: requestWatchOf(watched.signal) as RequestWatch };
  }

  test('is not silent, however long it waits; silence counts from when a request has a connection', async () => {
    const { clock, watched, requests } = waiting();
    requests.changed(1, 0);
    await clock.advance(15_000);
    await clock.advance(600_000);
    requests.changed(-1, 0);
    requests.changed(0, 1);
    await clock.advance(19_999);
    expect(watched.signal.aborted).toBe(false);
    await clock.advance(20_000);
    expect(watched.signal.aborted).toBe(true);
  });

  test('is silent where another of its requests has a connection and nothing comes', async () => {
    const { clock, watched, requests } = waiting();
    requests.changed(0, 1);
    requests.changed(1, 0);
    await clock.advance(20_000);
    expect(watched.signal.aborted).toBe(true);
  });

  test('ends as any other, and no timer is left', async () => {
    const { clock, state, requests, resolve } = waiting();
    requests.changed(1, 0);
    await clock.advance(60_000);
    resolve('answer');
    await settled();
    expect(state).toEqual({ value: 'answer' });
    expect(clock.sleeperCount).toBe(0);
  });
});

describe('watched call', () => {
  test('is among those under way until it has settled or is left behind', async () => {
    const { clock, options } = setUp();
    const among = new Set<Stoppable>();
    const watched = () => new WatchedCall({ ...options, among });
    const [first, second] = [call(), call()];
    const answered = watch(watched().run(() => first.operation(new AbortController().signal)));
    const left = watch(watched().run(() => second.operation(new AbortController().signal)));
    expect(among.size).toBe(2);
    first.resolve('answer');
    await settled();
    expect([answered.value, among.size]).toEqual(['answer', 1]);
    for (const each of among) each.stop(new CheckpointError('Aborted', 'enough'));
    await clock.advance(4999);
    expect([left, among.size]).toEqual([{}, 1]);
    await clock.advance(1);
    expect(left.error).toMatchObject({ code: 'Aborted', message: 'enough' });
    expect([among.size, clock.sleeperCount]).toEqual([0, 0]);
  });

  test('a signal that is asked for after it was stopped has fired', async () => {
    const { options } = setUp();
    const { operation, resolve } = call();
    const watched = new WatchedCall(options);
    const state = watch(watched.run(() => operation(new AbortController().signal)));
    const why = new CheckpointError('Aborted', 'enough');
    watched.stop(why);
    expect(watched.signal.reason).toBe(why);
    resolve('answer all the same');
    await settled();
    expect(state.value).toBe('answer all the same');
  });
});
