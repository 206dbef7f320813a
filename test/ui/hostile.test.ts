/** Attacks on the server of the page: from other sites, by names in `Host`, and by paths. */

import { request } from 'node:http';
import { systemClock } from '@holdfast/core/contract';
import { openCheckpointManager } from '@holdfast/stores';
import { type RunningUi, startUi } from '@holdfast/ui';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { asAttempt, newPlace, saveAll } from './made-run.ts';

const TOKEN = 'token-for-tests-0123456789';
const PAGE = `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'sha256-x'">`;

const place = newPlace();
const uri = place.uri('run');
let ui: RunningUi;
beforeAll(async () => {
  await asAttempt(uri, 'job', (run) => saveAll(run, [{ version: 1 }]));
  ui = await start();
});
afterAll(async () => {
  await ui.close();
  place.remove();
});

function start(more: { port?: number; host?: string; tls?: string } = {}): Promise<RunningUi> {
  return startUi({
    session: { programVersion: '1.2.3', uris: [uri], mayChange: false },
    page: PAGE,
    token: TOKEN,
    host: more.host ?? '127.0.0.1',
    port: more.port ?? 0,
    tls: more.tls ?? null,
    clock: systemClock,
    open: (each) => openCheckpointManager(each),
  });
}

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
  readonly headers: Record<string, unknown>;
}

/** A request as any program can send it: path and headers as given, nothing normalized. */
function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = { authorization: `Bearer ${TOKEN}`, ...headers };
    const asked = request({ host: '127.0.0.1', port: ui.port, path, method, headers: sent }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode, text, headers: response.headers }));
    });
    asked.on('error', reject);
    asked.end();
  });
}

const RUN = `/api/run?uri=${encodeURIComponent(uri)}`;

describe('requests that are refused', () => {
  test('the token is required in a header, and nowhere else', async () => {
    expect((await ask(RUN)).status).toBe(200);
    expect((await ask(RUN, { authorization: '' })).status).toBe(401);
    expect((await ask(RUN, { authorization: `Bearer ${TOKEN.slice(1)}x` })).status).toBe(401);
    expect((await ask(`${RUN}&token=${TOKEN}`, { authorization: '' })).status).toBe(401);
    expect((await ask(RUN, { authorization: '', cookie: `token=${TOKEN}` })).status).toBe(401);
  });

  test.each(['evil.example', 'evil.example:80', '127.0.0.1', '127.0.0.1:1', 'localhost.evil.example'])(
    'DNS rebinding: the name %s in Host, also with the token, and for the page itself',
    async (host) => {
      expect((await ask(RUN, { host })).status).toBe(421);
      expect((await ask('/', { host })).status).toBe(421);
    },
  );

  test('a page of another origin, however it sends the request', async () => {
    for (const origin of ['http://evil.example', 'null', `http://127.0.0.1:${ui.port + 1}`])
      expect((await ask(RUN, { origin })).status, origin).toBe(403);
    for (const site of ['cross-site', 'same-site', 'none'])
      expect((await ask(RUN, { 'sec-fetch-site': site })).status, site).toBe(403);
    expect(
      (await ask(RUN, { origin: `http://127.0.0.1:${ui.port}`, 'sec-fetch-site': 'same-origin' })).status,
    ).toBe(200);
    const preflight = await ask(
      RUN,
      { origin: 'http://evil.example', 'access-control-request-method': 'GET' },
      'OPTIONS',
    );
    expect(preflight.status).toBe(403);
    expect(Object.keys(preflight.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  });

  test('methods that the page does not use', async () => {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH', 'HEAD'])
      expect((await ask(RUN, {}, method)).status, method).toBe(405);
  });

  test.each([
    '/../../etc/passwd',
    '/%2e%2e/%2e%2e/etc/passwd',
    '/api/../../../etc/passwd',
    '/..\\..\\etc\\passwd',
    '/dist/page.html',
    '/api/constructor',
    '/api/__proto__',
    '//evil.example/api/session',
    '/api/run/%00',
  ])('path traversal: %s is no file and no call', async (path) => {
    const { status, text } = await ask(path);
    expect([404, 400]).toContain(status);
    expect(text).not.toContain('root:');
  });

  test('a run that the command was not started for', async () => {
    for (const other of ['file:///etc', `${uri}/../other`, `${uri}/`, 's3://bucket/run', '']) {
      const { status, text } = await ask(`/api/run?uri=${encodeURIComponent(other)}`);
      expect(status, other).toBe(400);
      expect(JSON.parse(text).message).toBe('this page was not started for that run');
    }
  });

  test.each([
    ['/api/run', 'the parameter uri is missing'],
    [
      `/api/run/versions?uri=${encodeURIComponent(uri)}&limit=201`,
      'limit: a whole number from 0 to 200 is accepted',
    ],
    [`/api/run/versions?uri=${encodeURIComponent(uri)}&offset=-1`, /^offset: a whole number/],
    [`/api/run/versions?uri=${encodeURIComponent(uri)}&filter=constructor`, /^filter: one of all, pinned/],
    [`/api/version?uri=${encodeURIComponent(uri)}&version=1e3`, /^version: a version is accepted/],
  ])('%s is refused by name', async (path, message) => {
    const { status, text } = await ask(path);
    expect(status).toBe(400);
    expect(JSON.parse(text).message).toEqual(
      typeof message === 'string' ? message : expect.stringMatching(message),
    );
  });
});

test('each answer forbids frames, sniffing, caches and scripts of others', async () => {
  for (const { headers } of [await ask('/'), await ask(RUN), await ask('/nothing')]) {
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'content-security-policy': "default-src 'none'; script-src 'sha256-x'; frame-ancestors 'none'",
      'referrer-policy': 'no-referrer',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    });
  }
});

test('a port that is taken, and an address of others without TLS, are InvalidArgument', async () => {
  await expect(start({ port: ui.port })).rejects.toThrow(
    `cannot serve 127.0.0.1 port ${ui.port}: another program uses it`,
  );
  await expect(start({ host: '0.0.0.0' })).rejects.toThrow(
    '0.0.0.0 is reached by other machines, so it needs TLS',
  );
  await expect(start({ tls: 'no certificate' })).rejects.toThrow(/^the TLS file must have a certificate/);
});
