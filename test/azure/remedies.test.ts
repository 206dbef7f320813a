/**
 * Rejections that the adapter resolves by itself, once: a wrong clock, and a server with an older
 * API.
 */

import { inspect } from 'node:util';
import type { ObjectStore } from '@holdfast/core/contract';
import { describe, expect, test, vi } from 'vitest';
import { errorOf, firstPage, type Script, sequence } from '../scripted/scripted-server.ts';
import { ACCOUNT, blob, CREATED, listing, refusal, scriptedAzure } from './scripted-azure.ts';

const BYTES = new Uint8Array([1, 2, 3]);
const HOUR_MS = 3_600_000;

const CALLS: readonly [string, (store: ObjectStore) => Promise<unknown>][] = [
  ['create', (store) => store.create('a', BYTES)],
  ['list', (store) => firstPage(store)],
  ['head', (store) => store.head('a')],
];

const succeed: Script = ({ method }) =>
  method === 'PUT' ? CREATED : method === 'HEAD' ? blob('abc') : listing([]);

describe('a wrong clock', () => {
  test.each(CALLS)('%s: sent again with the time of the store, which is remembered', async (_name, act) => {
    vi.useFakeTimers({ now: Date.UTC(2026, 10, 21, 10), toFake: ['Date'] });
    try {
      const storeMs = Date.now() + HOUR_MS;
      const date = new Date(storeMs).toUTCString();
      const server = await scriptedAzure((request, index) =>
        request.headers['x-ms-date'] === date
          ? succeed(request, index)
          : refusal(403, 'AuthenticationFailed', { headers: { date } }),
      );
      const store = await server.open();
      await act(store);
      for (const [, another] of CALLS) await another(store);
      expect(server.requests).toHaveLength(2 + CALLS.length);
    } finally {
      vi.useRealTimers();
    }
  });

  test('a clock that is right is not the reason: refused at once', async () => {
    const server = await scriptedAzure(() =>
      refusal(403, 'AuthenticationFailed', { headers: { date: new Date().toUTCString() } }),
    );
    const store = await server.open();
    expect((await errorOf(store.head('a'))).code).toBe('Denied');
    expect(server.requests).toHaveLength(1);
  });
});

test('a server that tells the account key it knows: it is told no further', async () => {
  const message = `your key is ${ACCOUNT.key}`;
  const server = await scriptedAzure(() => refusal(403, 'AuthorizationFailure', { message }));
  const store = await server.open();
  for (const [, act] of CALLS) {
    const error = await errorOf(act(store));
    expect(error.code).toBe('Denied');
    expect(inspect(error, { depth: 9 })).not.toContain(ACCOUNT.key);
  }
});

describe('a server that is behind', () => {
  const behind: Script = (request, index) => {
    const version = request.headers['x-ms-version'] ?? '';
    if (version <= '2021-12-02') return succeed(request, index);
    return refusal(400, 'InvalidHeaderValue', { xml: '<HeaderName>x-ms-version</HeaderName>' });
  };

  test.each(CALLS)('%s: sent again in an older version, which is remembered', async (_name, act) => {
    const server = await scriptedAzure(behind);
    const store = await server.open();
    await act(store);
    for (const [, another] of CALLS) await another(store);
    expect(server.requests).toHaveLength(2 + CALLS.length);
  });

  test('requests that were under way together are all sent again', async () => {
    const server = await scriptedAzure(behind);
    const store = await server.open();
    await Promise.all(Array.from({ length: 8 }, (_, index) => store.create(`a${index}`, BYTES)));
    expect(server.requests.length).toBeLessThanOrEqual(16);
  });

  test('it is not asked to begin a listing anywhere but at its beginning', async () => {
    const server = await scriptedAzure(behind);
    const store = await server.open();
    for (let round = 0; round < 2; round++) for await (const _ of store.list('', { startAfter: 'c/1' }));
    expect(server.requests.map(({ query }) => query.get('startFrom'))).toEqual(['gpt/c/1', null, null]);
  });

  test('one that takes no version at all is Unsupported', async () => {
    const server = await scriptedAzure(() =>
      refusal(400, 'InvalidHeaderValue', { xml: '<HeaderName>x-ms-version</HeaderName>' }),
    );
    const store = await server.open();
    expect((await errorOf(store.create('a', BYTES))).code).toBe('Unsupported');
    expect(server.requests).toHaveLength(2);
    expect((await errorOf(store.create('a', BYTES))).code).toBe('Unsupported');
    expect(server.requests).toHaveLength(3);
  });
});

describe('repeats', () => {
  test('a read that may be repeated goes to a new connection when the old one is closed', async () => {
    const server = await scriptedAzure(sequence(blob('abc'), 'reset', blob('abc')));
    const store = await server.open();
    await store.head('a');
    expect(await store.head('a')).toMatchObject({ sizeBytes: 3 });
  });

  test.each([500, 503])('%i: never repeated here', async (status) => {
    const server = await scriptedAzure(() =>
      refusal(status, status === 503 ? 'ServerBusy' : 'InternalError'),
    );
    const store = await server.open();
    await errorOf(store.head('a'));
    expect(server.requests).toHaveLength(1);
  });
});
