/**
 * Answers that no real etcd can be made to give. Tests with a real one:
 * test/training/etcd-election.test.ts.
 */

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { systemClock } from '@holdfast/core/contract';
import { afterEach, describe, expect, test } from 'vitest';
import { EtcdElection } from './etcd-election.ts';

type Answer = readonly [status: number, body: string];
/** Answers by path; a list is used up one by one. */
type Script = Record<string, Answer | (() => Answer)>;

const HEADER = '"header":{"cluster_id":"1","revision":"7"}';
const RANGE: Answer = [200, `{${HEADER}}`];
const GRANT: Answer = [200, `{${HEADER},"ID":"77","TTL":"3"}`];
const ELECTED: Answer = [200, `{${HEADER},"succeeded":true,"responses":[{"response_put":{}}]}`];
const LOST: Answer = [200, `{${HEADER},"responses":[{"response_txn":{"header":{}}}]}`];
const GOOD: Script = { range: RANGE, grant: GRANT, txn: ELECTED, revoke: RANGE };

const opened: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((close) => close()));
});

interface Scripted {
  readonly endpoint: string;
  readonly asked: { path: string; body: unknown }[];
}

async function scripted(script: Script): Promise<Scripted> {
  const asked: { path: string; body: unknown }[] = [];
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const path = request.url?.split('/').at(-1) ?? '';
    asked.push({ path, body: JSON.parse(await text(request)) });
    const given = script[path] ?? [404, 'Not Found\n'];
    const [status, body] = typeof given === 'function' ? given() : given;
    response.writeHead(status, { location: '/elsewhere' }).end(body);
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  opened.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
}

function ask(...endpoints: string[]): Promise<boolean> {
  return new EtcdElection({ endpoints, key: 'job/save' }).requestSave('a', 2001);
}

function refusal(code: number, message: string): string {
  return JSON.stringify({ error: message, code, message });
}

describe('what etcd is asked', () => {
  test('one that is elected: a read, a lease of so many whole seconds, one transaction', async () => {
    const { endpoint, asked } = await scripted(GOOD);
    expect(await ask(endpoint)).toBe(true);
    expect(asked.map(({ path }) => path)).toEqual(['range', 'grant', 'txn']);
    expect(asked[1]?.body).toEqual({ TTL: '3' });
    expect(asked[2]?.body).toMatchObject({
      compare: [{ target: 'CREATE', create_revision: '0' }],
      success: [{ request_put: { value: 'YQ==', lease: '77' } }],
    });
  });

  test('one that is not: a read', async () => {
    const value = Buffer.from('b').toString('base64');
    const held: Answer = [200, `{${HEADER},"kvs":[{"key":"aw==","mod_revision":"2","value":"${value}"}]}`];
    const { endpoint, asked } = await scripted({ ...GOOD, range: held });
    expect(await ask(endpoint)).toBe(false);
    expect(asked.map(({ path }) => path)).toEqual(['range']);
  });

  test.each([
    ['', RANGE],
    [', nor does it matter whether that arrives', [503, '']],
  ] as const)('one that was beaten to it gives its lease back%s', async (_, revoke) => {
    const { endpoint, asked } = await scripted({ ...GOOD, txn: LOST, revoke });
    expect(await ask(endpoint)).toBe(false);
    expect(asked.at(-1)).toEqual({ path: 'revoke', body: { ID: '77' } });
  });
});

describe('an error never says that this trainer is elected', () => {
  test.each([
    [400, refusal(3, 'etcdserver: user name is empty'), 'Denied'],
    [400, refusal(3, 'etcdserver: authentication failed, invalid user ID or password'), 'Denied'],
    [400, refusal(3, 'etcdserver: key is not provided'), 'InvalidArgument'],
    [504, refusal(4, 'context deadline exceeded'), 'Unavailable'],
    [403, refusal(7, 'etcdserver: permission denied'), 'Denied'],
    [429, refusal(8, 'etcdserver: too many requests'), 'Throttled'],
    [429, refusal(8, 'etcdserver: mvcc: database space exceeded'), 'StorageFull'],
    [503, refusal(14, 'etcdserver: no leader'), 'Unavailable'],
    [401, refusal(16, 'etcdserver: invalid auth token'), 'Denied'],
    [501, refusal(12, 'unknown service'), 'Unexpected'],
    [401, 'who are you', 'Denied'],
    [403, '<html>', 'Denied'],
    [429, '', 'Throttled'],
    [502, '<html>Bad Gateway', 'Unavailable'],
    [404, '404 page not found', 'InvalidConfig'],
    [404, '{"errorCode":100}', 'InvalidConfig'],
    [301, '', 'InvalidConfig'],
    [200, '<html>', 'InvalidConfig'],
    [200, '[]', 'InvalidConfig'],
    [200, '{}', 'InvalidConfig'],
    [200, `{${HEADER},"kvs":{}}`, 'InvalidConfig'],
    [200, `{${HEADER},"kvs":[{"key":"aw=="}]}`, 'InvalidConfig'],
  ])('status %d, %j: %s', async (status, body, code) => {
    const { endpoint } = await scripted({ ...GOOD, range: [status, body] });
    await expect(ask(endpoint)).rejects.toMatchObject({
      code,
      message: expect.stringContaining('/v3/kv/range'),
    });
  });

  test.each([
    ['a grant without a lease', { grant: [200, `{${HEADER}}`] }, 'InvalidConfig'],
    ['a transaction without an answer', { txn: [200, `{${HEADER}}`] }, 'InvalidConfig'],
    [
      'a lease that has ended',
      { txn: [404, refusal(5, 'etcdserver: requested lease not found')] },
      'TimedOut',
    ],
    ['a transaction that is refused', { txn: [403, refusal(7, 'etcdserver: permission denied')] }, 'Denied'],
  ] as const)('%s', async (_, change, code) => {
    const { endpoint } = await scripted({ ...GOOD, ...change });
    await expect(ask(endpoint)).rejects.toMatchObject({ code });
  });

  test.each([
    ['range', RANGE],
    ['grant', GRANT],
    ['txn', ELECTED],
  ] as const)(
    'an answer that comes when the time from the call on is over is TimedOut: %s took all of it',
    async (path, answer) => {
      let nowMs = 1000;
      const clock = { ...systemClock, monotonicMs: () => nowMs };
      const late = (ms: number) => (): Answer => {
        nowMs += ms;
        return answer;
      };
      const askAfter = async (ms: number) => {
        const { endpoint } = await scripted({ ...GOOD, [path]: late(ms) });
        const election = new EtcdElection({ endpoints: [endpoint], key: 'k', clock, timeoutMs: 60_000 });
        return election.requestSave('a', 2001);
      };
      expect(await askAfter(2000)).toBe(true);
      // The lease in etcd lasts longer, as it counts whole seconds, but the caller knows only
      // `blockMs`.
      await expect(askAfter(2001)).rejects.toMatchObject({
        code: 'TimedOut',
        message: 'asked to be elected for 2001 ms, which had passed before the answer arrived',
      });
    },
  );

  test('the deadline is that of the whole call: nothing is asked after it', async () => {
    let nowMs = 0;
    const clock = { ...systemClock, monotonicMs: () => nowMs };
    const range = () => {
      nowMs = 500;
      return RANGE;
    };
    const { endpoint, asked } = await scripted({ ...GOOD, range });
    const election = new EtcdElection({ endpoints: [endpoint], key: 'k', clock, timeoutMs: 500 });
    await expect(election.requestSave('a', 3000)).rejects.toMatchObject({ code: 'Unavailable' });
    expect(asked).toHaveLength(1);
  });
});

describe('endpoints', () => {
  test('one without a leader is passed over, and from then on the one that answered is asked first', async () => {
    const lost = await scripted({ range: [503, refusal(14, 'etcdserver: no leader')] });
    const well = await scripted(GOOD);
    expect(await ask(lost.endpoint, well.endpoint)).toBe(true);
    expect([lost.asked.length, well.asked.length]).toEqual([1, 3]);
  });

  test('a refusal is the answer of the cluster: no other is asked', async () => {
    const first = await scripted({ range: [403, refusal(7, 'etcdserver: permission denied')] });
    const second = await scripted(GOOD);
    await expect(ask(first.endpoint, second.endpoint)).rejects.toMatchObject({ code: 'Denied' });
    expect(second.asked).toEqual([]);
  });

  test.each([
    'localhost:2379',
    'ftp://localhost',
    'http://user:secret@localhost:2379',
    'http://localhost:2379/v3',
    'http://localhost:2379?x',
    '',
  ])('%j is InvalidConfig, and the message shows no password', (endpoint) => {
    const make = () => new EtcdElection({ endpoints: [endpoint], key: 'k' });
    expect(make).toThrow(
      expect.objectContaining({ code: 'InvalidConfig', message: expect.not.stringContaining('secret') }),
    );
  });

  test('none is InvalidConfig', () => {
    const make = () => new EtcdElection({ endpoints: [], key: 'k' });
    expect(make).toThrow(expect.objectContaining({ code: 'InvalidConfig' }));
  });
});

describe('what is asked for', () => {
  test.each([{ key: '' }, { timeoutMs: 0 }, { timeoutMs: Number.NaN }])('%j is InvalidArgument', (bad) => {
    const make = () => new EtcdElection({ endpoints: ['http://localhost:1'], key: 'k', ...bad });
    expect(make).toThrow(expect.objectContaining({ code: 'InvalidArgument' }));
  });

  test.each([
    ['', 1],
    ['a/b', 1],
    ['a', 0],
    ['a', 0.5],
  ])('trainer id %j for %d ms is InvalidArgument, and no request is sent', async (id, blockMs) => {
    const { endpoint, asked } = await scripted(GOOD);
    const election = new EtcdElection({ endpoints: [endpoint], key: 'k' });
    await expect(election.requestSave(id, blockMs)).rejects.toMatchObject({ code: 'InvalidArgument' });
    expect(asked).toEqual([]);
  });
});
