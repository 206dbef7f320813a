import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { Credentials, credentialsError, type Token } from './credentials.ts';
import { CredentialsError } from './errors.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;

/** Tokens `t1`, `t2`, … of an hour, by a clock that the test moves. */
function setUp(lifeMs = HOUR_MS) {
  const state = { nowMs: 0, fetched: 0, failure: undefined as Error | undefined };
  const fetchToken = async (): Promise<Token> => {
    state.fetched++;
    if (state.failure !== undefined) throw state.failure;
    return { value: `t${state.fetched}`, expiresAtMs: state.nowMs + lifeMs };
  };
  return { state, credentials: new Credentials({ fetchToken, now: () => state.nowMs }) };
}

describe('a token', () => {
  it('is fetched once, also for calls at the same time', async () => {
    const { state, credentials } = setUp();
    expect(await Promise.all([credentials.token(), credentials.token()])).toEqual(['t1', 't1']);
    expect(await credentials.token()).toBe('t1');
    expect(state.fetched).toBe(1);
  });

  it('is fetched anew when it has five minutes left', async () => {
    const { state, credentials } = setUp();
    await credentials.token();
    state.nowMs = HOUR_MS - 5 * MINUTE_MS - 1;
    expect(await credentials.token()).toBe('t1');
    state.nowMs += 1;
    expect(await credentials.token()).toBe('t2');
  });

  it('is used until its end where no other can be had, which is tried now and then only', async () => {
    const { state, credentials } = setUp();
    await credentials.token();
    state.nowMs = HOUR_MS - 4 * MINUTE_MS;
    state.failure = new CredentialsError('Unavailable', 'away');
    expect([await credentials.token(), await credentials.token()]).toEqual(['t1', 't1']);
    expect(state.fetched).toBe(2);
    state.nowMs += 11_000;
    expect(await credentials.token()).toBe('t1');
    expect(state.fetched).toBe(3);
    state.nowMs = HOUR_MS - 5_000;
    await expect(credentials.token()).rejects.toThrow('away');
    state.failure = undefined;
    state.nowMs += 11_000;
    expect(await credentials.token()).toBe('t5');
  });

  it('that the store refused is not used again; one that was renewed meanwhile is', async () => {
    const { credentials } = setUp();
    await credentials.token();
    credentials.forget('t1');
    expect(await credentials.token()).toBe('t2');
    credentials.forget('t1');
    expect(await credentials.token()).toBe('t2');
  });

  it('of a short life is not fetched for every request', async () => {
    const { state, credentials } = setUp(3 * MINUTE_MS);
    await credentials.token();
    state.nowMs = 9_000;
    await credentials.token();
    expect(state.fetched).toBe(1);
    state.nowMs = 10_000;
    await credentials.token();
    expect(state.fetched).toBe(2);
  });

  it('without an end is used until it is refused', async () => {
    const credentials = new Credentials({ fetchToken: async () => ({ value: 'for ever' }) });
    expect([await credentials.token(), await credentials.token()]).toEqual(['for ever', 'for ever']);
  });
});

it('a token that does not come is given up after 30 seconds, and asked for again', async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  let count = 0;
  const fetchToken = () =>
    count++ === 0 ? new Promise<Token>(() => undefined) : Promise.resolve({ value: 't' });
  const credentials = new Credentials({ fetchToken });
  const failing = expect(credentials.token()).rejects.toMatchObject({
    code: 'Unavailable',
    message: 'no token came within 30 s',
  });
  await vi.advanceTimersByTimeAsync(30_000);
  await failing;
  expect(await credentials.token()).toBe('t');
});

it('whoever waits for a token and is stopped leaves it to the others', async () => {
  let give: (token: Token) => void = () => undefined;
  const fetchToken = () => new Promise<Token>((resolve) => (give = resolve));
  const credentials = new Credentials({ fetchToken });
  const stopped = new AbortController();
  const mine = credentials.token(stopped.signal);
  const other = credentials.token(new AbortController().signal);
  stopped.abort();
  await expect(mine).rejects.toMatchObject({ code: 'Aborted' });
  await expect(credentials.token(stopped.signal)).rejects.toMatchObject({ code: 'Aborted' });
  give({ value: 't' });
  expect(await other).toBe('t');
});

describe('what the library fails with', () => {
  const answered = (status: number, message: string) =>
    Object.assign(new Error(message), { response: { status } });

  it.each<[string, Error, string, string]>([
    [
      'no credentials anywhere',
      new Error('Could not load the default credentials. Browse to https://…'),
      'Denied',
      'gcloud auth application-default login',
    ],
    ['a grant that is over', answered(400, 'invalid_grant: Token has been revoked.'), 'Denied', 'revoked'],
    ['a machine without a service account', answered(404, 'not found'), 'Denied', 'refused'],
    ['a token server that stumbles', answered(503, 'try later'), 'Unavailable', 'at present'],
    ['one that is asked too often', answered(429, 'slow down'), 'Unavailable', 'at present'],
    [
      'a network that is down',
      Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' }),
      'Unavailable',
      'at present',
    ],
    [
      'no answer in time',
      Object.assign(new Error('The operation was aborted due to timeout'), { code: 'TimeoutError' }),
      'Unavailable',
      'at present',
    ],
    [
      'a file that cannot be used',
      Object.assign(
        new Error('Unable to read the credential file specified by GOOGLE_APPLICATION_CREDENTIALS: gone'),
        { code: 'ENOENT' },
      ),
      'InvalidConfig',
      'GOOGLE_APPLICATION_CREDENTIALS',
    ],
  ])('%s', (_name, error, code, words) => {
    const found = credentialsError(error);
    expect(found.code).toBe(code);
    expect(found.message).toContain(words);
    expect(found.cause).toBeUndefined();
  });
});
