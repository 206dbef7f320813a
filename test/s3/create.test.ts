/** Creates with outcomes that no real server can be made to produce. */

import type { CheckpointError } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { errorOf, firstPage, type Reply, sequence } from '../scripted/scripted-server.ts';
import { CREATED, listing, refusal, scriptedS3 } from './scripted-s3.ts';

const BYTES = new TextEncoder().encode('{"record":1}');

async function createAnswered(reply: Reply): Promise<{ error: CheckpointError; sent: number }> {
  const server = await scriptedS3(() => reply);
  const store = await server.open();
  return { error: await errorOf(store.create('a/b', BYTES)), sent: server.requests.length };
}

describe('create', () => {
  test('is one PUT that only succeeds where nothing is', async () => {
    const server = await scriptedS3(() => CREATED);
    const store = await server.open();
    expect(await store.create('a/b', BYTES, { crc32c: 0x1234abcd })).toMatchObject({
      key: 'a/b',
      sizeBytes: BYTES.byteLength,
      etag: 'e1',
    });
    expect(server.requests).toHaveLength(1);
    const [request] = server.requests;
    expect(request).toMatchObject({ method: 'PUT', path: '/runs/gpt/a/b', signatureFault: undefined });
    expect(request?.headers).toMatchObject({
      'if-none-match': '*',
      'content-length': String(BYTES.byteLength),
      'x-amz-checksum-crc32c': 'EjSrzQ==',
    });
    expect(request?.headers).not.toHaveProperty('expect');
    expect(request?.body).toEqual(Buffer.from(BYTES));
  });

  test('412: another writer was first', async () => {
    const { error, sent } = await createAnswered(refusal(412, 'PreconditionFailed'));
    expect([error.code, error.status, sent]).toEqual(['AlreadyExists', 'permanent', 1]);
  });

  // The loser of two creates may get this answer, and so may a create that met a delete. It does
  // not show whether an object exists.
  test('409 ConditionalRequestConflict: temporary, and no claim that there is an object', async () => {
    const { error, sent } = await createAnswered(refusal(409, 'ConditionalRequestConflict'));
    expect([error.code, error.status, sent]).toEqual(['Unavailable', 'temporary', 1]);
  });

  test.each<[string, Reply]>([
    ['500 InternalError', refusal(500, 'InternalError')],
    ['503 ServiceUnavailable', refusal(503, 'ServiceUnavailable')],
    ['504 of a proxy', { status: 504, headers: { 'content-type': 'text/html' }, body: '<html>504</html>' }],
    ['400 RequestTimeout', refusal(400, 'RequestTimeout')],
    ['a reset after the request', 'reset'],
    ['half an answer', { raw: 'HTTP/1.1 200 OK\r\nContent-Le' }],
    ['200 whose body is an error', { ...refusal(200, 'InternalError') }],
  ])('%s: temporary, sent once, for it may have had its effect', async (_name, reply) => {
    const { error, sent } = await createAnswered(reply);
    expect([error.code, error.status, sent]).toEqual(['Unavailable', 'temporary', 1]);
  });

  test('a reset on a connection that was in use before: still sent once', async () => {
    const server = await scriptedS3(sequence(CREATED, 'reset', CREATED));
    const store = await server.open();
    await store.create('a', BYTES);
    expect(await errorOf(store.create('b', BYTES))).toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
    expect(server.requests).toHaveLength(2);
  });

  test('no answer at all: ends as soon as the signal fires', async () => {
    let arrived: () => void = () => undefined;
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const server = await scriptedS3(() => {
      arrived();
      return 'silence';
    });
    const store = await server.open();
    const stop = new AbortController();
    const creating = errorOf(store.create('a', BYTES, { signal: stop.signal }));
    await arrival;
    stop.abort();
    expect((await creating).code).toBe('Aborted');
  });

  test('503 SlowDown: Throttled, with the time that the store asks for', async () => {
    const { error, sent } = await createAnswered(
      refusal(503, 'SlowDown', { headers: { 'retry-after': '7' } }),
    );
    expect([error.code, error.status, error.retryAfterMs, sent]).toEqual(['Throttled', 'temporary', 7000, 1]);
  });

  test('429 of a proxy, which is no answer of S3, is Throttled all the same', async () => {
    const { error } = await createAnswered({
      status: 429,
      headers: { 'retry-after': '2' },
      body: '<html>slow</html>',
    });
    expect([error.code, error.retryAfterMs]).toEqual(['Throttled', 2000]);
  });

  test('413 of a proxy names the size, not the endpoint, as what is wrong', async () => {
    const { error } = await createAnswered({ status: 413, body: '<html>Request Entity Too Large</html>' });
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('rejects requests of this size');
  });

  test('507: the store has no room left', async () => {
    const { error } = await createAnswered(refusal(507, 'XMinioStorageFull'));
    expect([error.code, error.status]).toEqual(['StorageFull', 'permanent']);
  });

  test('a quota of the bucket that is used up is StorageFull too', async () => {
    const { error } = await createAnswered(refusal(400, 'XMinioAdminBucketQuotaExceeded'));
    expect(error.code).toBe('StorageFull');
  });
});

describe('a server that is no S3', () => {
  test.each<[string, Reply]>([
    [
      '404 of a web server',
      { status: 404, headers: { 'content-type': 'text/html' }, body: '<html>nginx</html>' },
    ],
    ['405', { status: 405, body: 'Method Not Allowed' }],
    ['a redirect to a page', { status: 302, headers: { location: '/login' }, body: '<a href="/login">' }],
    ['403 of a firewall', { status: 403, body: '<html>blocked</html>' }],
    [
      'a page for everything',
      {
        status: 200,
        headers: { 'content-type': 'text/html' },
        body: '<!doctype html><html><p>hi<br></html>',
      },
    ],
    [
      'JSON for everything',
      { status: 200, headers: { 'content-type': 'application/json' }, body: '{"ok":true}' },
    ],
    ['nothing for everything', { status: 200 }],
  ])('%s: InvalidConfig for list and for create', async (_name, reply) => {
    const server = await scriptedS3(() => reply);
    const store = await server.open();
    const errors = [await errorOf(firstPage(store)), await errorOf(store.create('a', BYTES))];
    for (const error of errors) {
      expect(error.code).toBe('InvalidConfig');
      expect(error.message).toContain('does not lead to a server that speaks S3');
      expect(error.message).toContain('endpoint');
    }
  });

  test('502 of a proxy: temporary, for the store behind it may come back', async () => {
    const { error } = await createAnswered({
      status: 502,
      headers: { 'content-type': 'text/html' },
      body: '<html>',
    });
    expect([error.code, error.status]).toEqual(['Unavailable', 'temporary']);
  });

  test('an empty listing of a real S3 is no such thing', async () => {
    const server = await scriptedS3(() => listing());
    const store = await server.open();
    expect(await firstPage(store)).toMatchObject({ objects: [] });
  });
});
