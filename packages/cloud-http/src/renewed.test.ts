import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { CredentialsError } from './credentials-error.ts';
import { type Expiring, Renewed } from './renewed.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** `t1`, `t2`, … valid for an hour each, by a clock that the test moves. */
function setUp(lifeMs = HOUR_MS) {
  const state = { nowMs: 0, fetched: 0, failure: undefined as Error | undefined };
  const fetch = async (): Promise<Expiring<string>> => {
    state.fetched++;
    if (state.failure !== undefined) throw state.failure;
    return { value: `t${state.fetched}`, expiresAtMs: state.nowMs + lifeMs };
  };
  return { state, tokens: renewed(fetch, () => state.nowMs) };
}

function renewed(
  fetch: (signal: AbortSignal) => Promise<Expiring<string>>,
  now?: () => number,
): Renewed<string> {
  return new Renewed({
    fetch,
    now,
    source: () => 'the moon',
    failure: (error, wasGiven) => new CredentialsError('Denied', `${error} ${wasGiven}`),
  });
}

describe('credentials', () => {
  it('are fetched once, also for calls at the same time', async () => {
    const { state, tokens } = setUp();
    expect(await Promise.all([tokens.current(), tokens.current()])).toEqual(['t1', 't1']);
    expect(await tokens.current()).toBe('t1');
    expect(state.fetched).toBe(1);
  });

  it('are fetched anew when they have five minutes left', async () => {
    const { state, tokens } = setUp();
    await tokens.current();
    state.nowMs = HOUR_MS - 5 * MINUTE_MS - 1;
    expect(await tokens.current()).toBe('t1');
    state.nowMs += 1;
    expect(await tokens.current()).toBe('t2');
  });

  it('are used until their end where no others can be had, which is tried now and then only', async () => {
    const { state, tokens } = setUp();
    await tokens.current();
    state.nowMs = HOUR_MS - 4 * MINUTE_MS;
    state.failure = new CredentialsError('Unavailable', 'away');
    expect([await tokens.current(), await tokens.current()]).toEqual(['t1', 't1']);
    expect(state.fetched).toBe(2);
    state.nowMs += 11_000;
    expect(await tokens.current()).toBe('t1');
    expect(state.fetched).toBe(3);
    state.nowMs = HOUR_MS - 5_000;
    await expect(tokens.current()).rejects.toThrow('away');
    state.failure = undefined;
    expect(await tokens.current()).toBe('t5');
  });

  it('that the store refused are not used again; those renewed meanwhile are', async () => {
    const { state, tokens } = setUp();
    await tokens.current();
    expect(await Promise.all([tokens.renew('t1'), tokens.renew('t1')])).toEqual(['t2', 't2']);
    expect(await tokens.renew('t1')).toBe('t2');
    expect(state.fetched).toBe(2);
  });

  it('short-lived credentials are not fetched for every request, and never used after their end', async () => {
    const { state, tokens } = setUp(3 * MINUTE_MS);
    await tokens.current();
    state.nowMs = 9_999;
    expect(await tokens.current()).toBe('t1');
    state.nowMs = 10_000;
    expect(await tokens.current()).toBe('t2');
    const brief = setUp(3_000);
    await brief.tokens.current();
    brief.state.nowMs = 3_000;
    expect(await brief.tokens.current()).toBe('t2');
  });

  it('without an end are used until they are refused', async () => {
    const tokens = renewed(async () => ({ value: 'for ever' }));
    expect([await tokens.current(), await tokens.current()]).toEqual(['for ever', 'for ever']);
  });

  it('that cannot be had are told in the words of who asked; whether there were some is known', async () => {
    const { state, tokens } = setUp();
    state.failure = new Error('one');
    await expect(tokens.current()).rejects.toThrow(new CredentialsError('Denied', 'Error: one false'));
    state.failure = undefined;
    await tokens.current();
    state.failure = new Error('two');
    await expect(tokens.renew('t2')).rejects.toThrow(new CredentialsError('Denied', 'Error: two true'));
  });
});

describe('what does not come in 20 seconds', () => {
  const late = { code: 'Unavailable', message: 'no credentials arrived within 20 s from the moon' };

  it('is stopped, told by name, and asked for again', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    let count = 0;
    const tokens = renewed((signal) =>
      count++ > 0
        ? Promise.resolve({ value: 't' })
        : new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(new Error('stopped')));
          }),
    );
    const failing = expect(tokens.current()).rejects.toMatchObject(late);
    await vi.advanceTimersByTimeAsync(20_000);
    await failing;
    expect(await tokens.current()).toBe('t');
  });

  it('and cannot be stopped is waited for by the next call: no second beside it', async () => {
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const { promise, resolve } = Promise.withResolvers<Expiring<string>>();
    let count = 0;
    const tokens = renewed(() => {
      count++;
      return promise;
    });
    const failing = expect(tokens.current()).rejects.toMatchObject(late);
    await vi.advanceTimersByTimeAsync(20_000);
    await failing;
    const second = tokens.current();
    resolve({ value: 't' });
    expect([await second, await tokens.current(), count]).toEqual(['t', 't', 1]);
  });
});

it('a caller that is stopped leaves what comes to the others', async () => {
  const { promise, resolve } = Promise.withResolvers<Expiring<string>>();
  const tokens = renewed(() => promise);
  const stopped = new AbortController();
  const mine = tokens.current(stopped.signal);
  const other = tokens.current(new AbortController().signal);
  stopped.abort();
  await expect(mine).rejects.toMatchObject({ code: 'Aborted' });
  await expect(tokens.current(stopped.signal)).rejects.toMatchObject({ code: 'Aborted' });
  resolve({ value: 't' });
  expect(await other).toBe('t');
});
