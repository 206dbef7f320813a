/**
 * Proxies in the environment, for every store: a proxy that rejects requests, and a proxy that
 * cannot be used. No request ever bypasses the proxy.
 */

import { inspect } from 'node:util';
import type { CheckpointError } from '@holdfast/core/contract';
import { openStore } from '@holdfast/stores';
import { describe, expect, onTestFinished, test } from 'vitest';
import { holdfast as runProcess } from '../e2e/holdfast-process.ts';
import { type ProxyOptions, startProxy } from '../scripted/proxy.ts';
import { errorOf, firstPage, scriptedServer } from '../scripted/scripted-server.ts';
import { holdfast, inEnvironment, loggedForms } from './in-process.ts';
import { Marks } from './marks.ts';

const marks = new Marks();
const PASSWORD = marks.make('password of the proxy');
const KEY = marks.makeKey('key');

type Env = Readonly<Record<string, string>>;

/** URIs of a host that only a proxy can reach, and the credentials for it. */
const STORES: readonly [title: string, uri: (endpoint: string) => string, env: Env][] = [
  [
    'S3',
    (endpoint) => `s3://bucket/run?region=us-east-1&endpoint=${endpoint}`,
    { AWS_ACCESS_KEY_ID: 'AKIDOFTHETEST', AWS_SECRET_ACCESS_KEY: KEY },
  ],
  ['GCS', (endpoint) => `gs://bucket/run?auth=false&endpoint=${endpoint}`, {}],
  ['Azure', (endpoint) => `az://account/container/run?endpoint=${endpoint}`, { AZURE_STORAGE_KEY: KEY }],
];

const ELSEWHERE = 'https://store.example';
const login = (url: string) => url.replace('http://', `http://user:${PASSWORD}@`);
const inspected = (value: unknown) => inspect(value, { depth: Infinity, showHidden: true });

async function refusedWith(uri: string, env: Env): Promise<CheckpointError> {
  const store = await openStore(uri, env);
  onTestFinished(() => store.close());
  const error = await errorOf(firstPage(store));
  expect(marks.foundIn(loggedForms(error, inspected))).toEqual([]);
  return error;
}

/** The rejection of a proxy that repeats the credentials it got. */
const saying =
  (status: number): ProxyOptions['refusal'] =>
  (given) =>
    `${status} No ${given}\r\nX-Told: ${given} ${Buffer.from(given.slice(6), 'base64')}`;

describe.each(STORES)('%s behind a proxy', (_title, uriOf, env) => {
  test.each<[string, ProxyOptions['refusal'], string, string]>([
    [
      '407',
      saying(407),
      'Denied',
      'the proxy of HTTPS_PROXY requires credentials, or rejects those it was given (HTTP 407)',
    ],
    ['403', saying(403), 'Denied', 'the proxy of HTTPS_PROXY rejects requests to this server (HTTP 403)'],
    ['502', saying(502), 'Unavailable', 'the proxy of HTTPS_PROXY cannot reach the server (HTTP 502)'],
    ['405', saying(405), 'InvalidConfig', 'the proxy of HTTPS_PROXY does not answer like a proxy'],
    ['the end of the connection', 'hang up', 'Unavailable', 'cannot list'],
  ])('that answers CONNECT with %s', async (_name, refusal, code, words) => {
    const proxy = await startProxy({ refusal });
    const error = await refusedWith(uriOf(ELSEWHERE), { ...env, HTTPS_PROXY: login(proxy.url) });
    expect(error.code).toBe(code);
    expect(error.message).toContain(words);
    expect(proxy.asked).toEqual(['CONNECT store.example:443']);
    expect(proxy.logins).toEqual([`Basic ${Buffer.from(`user:${PASSWORD}`).toString('base64')}`]);
  });

  test('that answers a request with 407', async () => {
    const proxy = await startProxy({ refusal: saying(407) });
    const uri = uriOf('http://store.example');
    const error = await refusedWith(uri, { ...env, http_proxy: login(proxy.url) });
    expect(error.code).toBe('Denied');
    expect(error.message).toContain('the proxy of http_proxy requires credentials');
    expect(proxy.asked[0]).toMatch(/^GET http:\/\/store\.example\//);
  });

  test('the command says what to do about a 407, and exits with 8', async () => {
    const proxy = await startProxy({ refusal: saying(407) });
    const given = { ...env, HTTPS_PROXY: login(proxy.url) };
    const { code, text } = await holdfast(['list', uriOf(ELSEWHERE), '--verbose'], given);
    expect(code).toBe(8);
    expect(text).toContain('put its user and password into HTTPS_PROXY');
    expect(text).toContain('NO_PROXY');
    expect(marks.foundIn(text)).toEqual([]);
  });

  test.each([
    `user:${PASSWORD}@127.0.0.1:3128`,
    '127.0.0.1:3128',
    `socks5://user:${PASSWORD}@127.0.0.1:1080`,
    `socks4://127.0.0.1`,
    `http://user:${PASSWORD}@127.0.0.1:port`,
    `http://user:${PASSWORD}/x@127.0.0.1`,
  ])('that cannot be used is an error by its name, and is not passed by: %#', async (value) => {
    const server = await scriptedServer(() => ({ status: 500 }));
    const uri = uriOf(server.endpoint);
    const error = await errorOf(openStore(uri, { ...env, HTTP_PROXY: value }));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toMatch(
      /^HTTP_PROXY is not the URL of a usable proxy; accepted: http:\/\/host:port/,
    );
    expect(marks.foundIn(loggedForms(error, inspected))).toEqual([]);
    expect(server.connections).toBe(0);
    const beside = await openStore(uri, { ...env, HTTP_PROXY: value, NO_PROXY: '127.0.0.1' });
    await beside.close();
  });

  test('is passed by as NO_PROXY says here, and not as others read it', async () => {
    const proxy = await startProxy();
    const server = await scriptedServer(() => ({ status: 400 }));
    const range = { ...env, HTTP_PROXY: proxy.url, NO_PROXY: '127.0.0.1-127.0.0.9' };
    const store = await openStore(uriOf(server.endpoint), range);
    onTestFinished(() => store.close());
    await errorOf(firstPage(store));
    expect(proxy.asked).toHaveLength(1);
  });
});

test('S3 of AWS itself: a proxy that cannot be used is told at the first request', async () => {
  const env = {
    AWS_ACCESS_KEY_ID: 'AKIDOFTHETEST',
    AWS_SECRET_ACCESS_KEY: KEY,
    https_proxy: `socks5://${PASSWORD}`,
  };
  const error = await refusedWith('s3://bucket/run?region=us-east-1', env);
  expect([error.code, error.message.slice(0, 44)]).toEqual([
    'InvalidConfig',
    'https_proxy is not the URL of a usable proxy',
  ]);
});

test('the token server is behind the proxy as well: only the status of its 407 is reported', async () => {
  const proxy = await startProxy({ refusal: saying(407) });
  const env = {
    AZURE_TENANT_ID: 'tenant',
    AZURE_CLIENT_ID: 'client',
    AZURE_CLIENT_SECRET: marks.make('client secret'),
    AZURE_TOKEN_CREDENTIALS: 'EnvironmentCredential',
    HTTPS_PROXY: login(proxy.url),
  };
  const error = await inEnvironment(env, () => refusedWith('az://account/container/run', env));
  expect(error.code).toBe('Denied');
  expect(proxy.asked.length).toBeGreaterThan(0);
});

test('libraries that are told to log do not: the command takes that from them', async () => {
  const proxy = await startProxy({ refusal: saying(407) });
  const env = {
    AZURE_LOG_LEVEL: 'verbose',
    DEBUG: '*',
    GOOGLE_SDK_NODE_LOGGING: '*',
    AZURE_TENANT_ID: 'tenant',
    AZURE_CLIENT_ID: 'client',
    AZURE_CLIENT_SECRET: marks.make('client secret'),
    AZURE_TOKEN_CREDENTIALS: 'EnvironmentCredential',
    HTTPS_PROXY: login(proxy.url),
  };
  const { code, stdout, stderr } = await runProcess(['list', 'az://account/container/run', '--verbose'], {
    env,
  });
  expect([code, stdout]).toEqual([8, '']);
  expect(marks.foundIn(stderr)).toEqual([]);
  expect(proxy.asked.length).toBeGreaterThan(0);
}, 60_000);
