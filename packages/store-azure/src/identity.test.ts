import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CredentialsError } from './errors.ts';
import { IdentityTokens } from './identity.ts';

const HOUR_MS = 3_600_000;

/** Gives out token-1, token-2, …, each for an hour. */
function issuer() {
  const issued = { count: 0, isDown: false };
  const getToken = async () => {
    if (issued.isDown) throw new Error('down');
    issued.count += 1;
    return { token: `token-${issued.count}`, expiresOnTimestamp: Date.now() + HOUR_MS };
  };
  return { issued, tokens: new IdentityTokens(async () => ({ getToken })) };
}

describe('tokens', () => {
  beforeEach(() => {
    vi.useFakeTimers({ now: Date.UTC(2026, 10, 21) });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('one is used until five minutes before it ends', async () => {
    const { tokens } = issuer();
    expect(await tokens.current(undefined)).toBe('token-1');
    vi.setSystemTime(Date.now() + HOUR_MS - 5 * 60_000 - 1);
    expect(await tokens.current(undefined)).toBe('token-1');
    vi.setSystemTime(Date.now() + 1);
    expect(await tokens.current(undefined)).toBe('token-2');
  });

  it('many who wait ask once', async () => {
    const { tokens, issued } = issuer();
    const found = await Promise.all(Array.from({ length: 20 }, () => tokens.current(undefined)));
    expect(new Set(found)).toEqual(new Set(['token-1']));
    expect(issued.count).toBe(1);
  });

  it('renew: says whether there is another one', async () => {
    const { tokens } = issuer();
    await tokens.current(undefined);
    expect(await tokens.renew(undefined)).toBe(true);
    const token = { token: 'always', expiresOnTimestamp: Date.now() + HOUR_MS };
    const same = new IdentityTokens(async () => ({ getToken: async () => token }));
    await same.current(undefined);
    expect(await same.renew(undefined)).toBe(false);
  });

  it('who stops waiting does not stop the others', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const tokens = new IdentityTokens(async () => ({
      getToken: async () => {
        await promise;
        return { token: 'late', expiresOnTimestamp: Date.now() + HOUR_MS };
      },
    }));
    const controller = new AbortController();
    const stopped = tokens.current(controller.signal);
    const other = tokens.current(undefined);
    controller.abort();
    await expect(stopped).rejects.toMatchObject({ code: 'Aborted' });
    resolve();
    expect(await other).toBe('late');
  });

  it('one that cannot be renewed is used to its end; from then on it is a matter of time', async () => {
    const { tokens, issued } = issuer();
    await tokens.current(undefined);
    issued.isDown = true;
    vi.setSystemTime(Date.now() + HOUR_MS - 1);
    expect(await tokens.current(undefined)).toBe('token-1');
    vi.setSystemTime(Date.now() + 1);
    await expect(tokens.current(undefined)).rejects.toMatchObject({
      isTemporary: true,
      message: 'the token has expired, and no other could be had (Error)',
    });
    issued.isDown = false;
    expect(await tokens.current(undefined)).toBe('token-2');
  });

  it('none: says so in one line, with what can be done, and looks again at the next request', async () => {
    let isFound = false;
    const tokens = new IdentityTokens(async () => ({
      getToken: async () => {
        if (!isFound)
          throw new Error('ChainedTokenCredential authentication failed.\nCaused by: a hundred lines');
        return { token: 'found', expiresOnTimestamp: Date.now() + HOUR_MS };
      },
    }));
    const error = await tokens.current(undefined).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CredentialsError);
    expect((error as CredentialsError).isTemporary).toBe(false);
    expect((error as Error).message).toBe(
      'no credentials were found (Error); set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, sign in with `az login`, or give the machine an identity',
    );
    isFound = true;
    expect(await tokens.current(undefined)).toBe('found');
  });
});
