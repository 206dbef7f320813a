/**
 * Secrets in the environment. No output repeats them, however they are spelt, and however a server
 * repeats its requests.
 */

import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Reply, SeenRequest } from '../scripted/scripted-server.ts';
import { startScriptedServer } from '../scripted/scripted-server.ts';
import { type Env, hasten, holdfast, LOUD_MODES, newDirectory } from './in-process.ts';
import { Marks } from './marks.ts';
import { PLACES, type Place } from './places.ts';

const marks = new Marks();

/** Everything in a request, as a careless server or proxy writes it into its answer. */
function echoOf({ method, target, headers }: SeenRequest): string {
  const basic = /^Basic (.*)$/.exec(headers['proxy-authorization'] ?? '')?.[1] ?? '';
  const words = [
    method,
    target,
    decodeURIComponent(target),
    JSON.stringify(headers),
    Buffer.from(basic, 'base64'),
  ];
  for (const name of ['authorization', 'x-ms-copy-source'])
    if (headers[name]) marks.keep(name, lastWord(headers[name]));
  return words.join(' ').replace(/[<&]/g, ' ');
}

const lastWord = (text: string): string =>
  text
    .split(/[ :=]/)
    .filter((word) => word.length >= 8)
    .at(-1) ?? '--------';

const escaped = (text: string): string => text.replaceAll('"', "'");

/** Servers that repeat the request in different ways. */
const ECHOES: Readonly<Record<string, (request: SeenRequest) => Reply>> = {
  'an error of its own': (request) => ({
    status: 403,
    headers: {
      'content-type': 'application/xml',
      'x-amz-request-id': '1',
      'x-ms-request-id': '1',
      'x-guploader-uploadid': '1',
    },
    body: `<Error><Code>AccessDenied</Code><Message>${echoOf(request)}</Message></Error>`,
  }),
  'an error in JSON': (request) => ({
    status: 403,
    headers: { 'content-type': 'application/json', 'x-guploader-uploadid': '1' },
    body: JSON.stringify({
      error: { code: 403, message: echoOf(request), errors: [{ reason: 'forbidden', message: 'x' }] },
    }),
  }),
  'a line of text': (request) => ({
    status: 400,
    body: lastWord(request.headers['authorization'] ?? request.target),
  }),
  'a long text': (request) => ({
    status: 404,
    headers: { 'x-guploader-uploadid': '1' },
    body: echoOf(request),
  }),
  'a request id': (request) => ({
    status: 403,
    headers: Object.fromEntries(
      [
        'x-amz-request-id',
        'x-ms-request-id',
        'x-guploader-uploadid',
        'x-ms-error-code',
        'x-amz-bucket-region',
      ].map((name) => [name, lastWord(request.headers['authorization'] ?? request.target)]),
    ),
  }),
  'a page': (request) => ({
    headers: { 'content-type': 'text/html' },
    body: `<html>${echoOf(request)}</html>`,
  }),
  'no HTTP': (request) => ({
    raw: `HTTP/1.1 999 ${escaped(echoOf(request))}\r\n${escaped(echoOf(request))}\r\n\r\n`,
  }),
  'an error that may pass': (request) => ({
    status: 503,
    headers: { 'x-amz-request-id': '1', 'x-ms-request-id': '1', 'x-guploader-uploadid': '1' },
    body: `<Error><Code>ServerBusy</Code><Message>${echoOf(request)}</Message></Error>`,
  }),
  'a login of a proxy': (request) => ({
    status: 407,
    headers: { 'proxy-authenticate': echoOf(request).slice(0, 500) },
  }),
};

const REPEATED: readonly string[] = ['no HTTP', 'an error that may pass'];

/** Everything that servers received since this was emptied. */
let heard = '';
let reply: (request: SeenRequest) => Reply = () => 'reset';
let server: Awaited<ReturnType<typeof startScriptedServer>>;

beforeAll(async () => {
  const script = (request: SeenRequest) => {
    heard += echoOf(request);
    return reply(request);
  };
  server = await startScriptedServer(script, { keepsRequests: false });
});
afterAll(() => server.stop());

/** Secrets in the whole output of these calls, with their places. */
async function toldBy(calls: readonly (readonly string[])[], env: Env): Promise<string[]> {
  const told: string[] = [];
  for (const call of calls) {
    for (const mode of LOUD_MODES) {
      const { text } = await holdfast([...call, ...mode], env);
      expect(text).not.toBe('');
      told.push(...marks.foundIn(text).map((found) => `${call[0]} ${mode}: ${found}`));
    }
  }
  return told;
}

describe.each(PLACES)('$title', (place: Place) => {
  test.each(Object.keys(ECHOES))(
    'a server that answers with %s',
    async (name) => {
      hasten();
      heard = '';
      reply = ECHOES[name] as (request: SeenRequest) => Reply;
      const all = await place.wellFormed(marks, server.endpoint);
      // Commands that are retried take long, and report in the same way whatever the credentials.
      for (const { env, settings } of REPEATED.includes(name) ? all.slice(-1) : all) {
        expect(await toldBy([['list', place.uri(server.endpoint, settings)]], env)).toEqual([]);
      }
      expect(marks.foundIn(heard)).not.toEqual([]); // or the server had nothing to repeat
    },
    60_000,
  );

  test('commands that write, and the certificate', async () => {
    hasten();
    reply = ECHOES['an error of its own'] as (request: SeenRequest) => Reply;
    const [first] = await place.wellFormed(marks, server.endpoint);
    const directory = await newDirectory();
    const uri = place.uri(server.endpoint, first?.settings);
    const certificate = join(directory, 'certificate.json');
    const calls = [
      ['save', directory, uri],
      ['restore', uri, join(directory, 'out')],
      ['doctor', uri, '--quick'],
      ['mirror', uri, 'memory://other'],
      ['certify', uri, '--output', certificate, '--replace'],
    ];
    expect(await toldBy(calls, first?.env ?? {})).toEqual([]);
    const written = await readFile(certificate, 'utf8');
    expect(written).toContain(uri);
    expect(marks.foundIn(written)).toEqual([]);
  }, 60_000);

  test('what is not as it should be', async () => {
    hasten();
    reply = ECHOES['an error of its own'] as (request: SeenRequest) => Reply;
    for (const { name, env, settings } of await place.malformed(marks, server.endpoint)) {
      const told = await toldBy([['list', place.uri(server.endpoint, settings)]], env);
      expect(told, name).toEqual([]);
    }
  }, 60_000);
});
