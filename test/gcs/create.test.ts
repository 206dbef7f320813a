/** Creates: the requests, and endings that no server can be made to produce. */

import { base64Crc } from '@holdfast/cloud-http';
import { crc32c } from '@holdfast/core';
import type { CheckpointError } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { errorOf, type Reply } from '../scripted/scripted-server.ts';
import { json, partsOf, refusal, resourceOf } from './fake-gcs.ts';
import { afterEffect, isInsert, onlyFor, scriptedGcs } from './scripted-gcs.ts';

const BYTES = new TextEncoder().encode('{"record":1}');

async function createAnswered(reply: Reply): Promise<{ error: CheckpointError; sent: number }> {
  const server = await scriptedGcs(() => reply);
  const store = await server.open();
  return { error: await errorOf(store.create('a/b', BYTES)), sent: server.requests.length };
}

describe('create', () => {
  test('is one request with metadata and bytes, which only succeeds where nothing is', async () => {
    const server = await scriptedGcs();
    const store = await server.open();
    const info = await store.create('a/b', BYTES, { crc32c: crc32c(BYTES) });
    expect(info).toMatchObject({ key: 'a/b', sizeBytes: BYTES.byteLength });
    expect(server.requests).toHaveLength(1);
    const [request] = server.requests;
    if (request === undefined) throw new Error('nothing was sent');
    expect([request.method, request.path]).toEqual(['POST', '/upload/storage/v1/b/runs/o']);
    expect(request.query.get('uploadType')).toBe('multipart');
    expect(request.query.get('ifGenerationMatch')).toBe('0');
    expect(request.headers['content-length']).toBe(String(request.body.byteLength));
    expect(request.headers).not.toHaveProperty('expect');
    expect(request.headers).not.toHaveProperty('authorization');
    const { metadata, bytes } = partsOf(request);
    expect(metadata).toEqual({
      name: 'gpt/a/b',
      contentType: 'application/octet-stream',
      cacheControl: 'no-transform',
      crc32c: base64Crc(crc32c(BYTES)),
    });
    expect(bytes).toEqual(Buffer.from(BYTES));
    expect(await store.head('a/b')).toEqual({ ...info, crc32c: crc32c(BYTES) });
  });

  test('bytes that look like the frame around them come back as they are', async () => {
    const store = await (await scriptedGcs()).open();
    const bytes = Buffer.from('\r\n--holdfast-\r\n--\r\n\r\n--holdfast--');
    await store.create('a', bytes);
    expect(Buffer.from((await store.get('a', { maxBytes: 100 })).bytes)).toEqual(bytes);
  });

  test('412: another writer was first', async () => {
    const { error, sent } = await createAnswered(refusal(412, 'conditionNotMet'));
    expect([error.code, error.status, sent]).toEqual(['AlreadyExists', 'permanent', 1]);
  });

  test.each<[string, Reply]>([
    ['500 internalError', refusal(500, 'internalError')],
    ['503 backendError', refusal(503, 'backendError')],
    ['409 conflict', refusal(409, 'conflict')],
    ['408', { status: 408, headers: { 'content-type': 'text/html' }, body: '<html>408</html>' }],
    ['504 of a proxy', { status: 504, headers: { 'content-type': 'text/html' }, body: '<html>504</html>' }],
    ['a reset after the request', 'reset'],
    ['half an answer', { raw: 'HTTP/1.1 200 OK\r\nContent-Le' }],
    ['200 whose body is an error', { ...refusal(503, 'backendError'), status: 200 }],
  ])('%s: temporary, sent once, for it may have had its effect', async (_name, reply) => {
    const { error, sent } = await createAnswered(reply);
    expect([error.code, error.status, sent]).toEqual(['Unavailable', 'temporary', 1]);
  });

  test.each<[string, Reply]>([
    ['the answer is lost', 'reset'],
    ['503 after the effect', refusal(503, 'backendError')],
  ])('%s: the next create finds the object, and who asks can tell whose it is', async (_name, reply) => {
    let isFirst = true;
    const server = await scriptedGcs(
      onlyFor(
        (request) => isInsert(request) && isFirst,
        (request, fake, index) => {
          isFirst = false;
          return afterEffect(reply)(request, fake, index);
        },
      ),
    );
    const store = await server.open();
    expect((await errorOf(store.create('a', BYTES))).status).toBe('temporary');
    expect((await errorOf(store.create('a', BYTES))).code).toBe('AlreadyExists');
    expect(Buffer.from((await store.get('a', { maxBytes: 100 })).bytes)).toEqual(Buffer.from(BYTES));
  });

  test('a burst of 429: Throttled, for as long as the store asks for', async () => {
    const throttled = { ...refusal(429, 'rateLimitExceeded'), headers: { 'retry-after': '2' } };
    const { error, sent } = await createAnswered(throttled);
    expect([error.code, error.retryAfterMs, sent]).toEqual(['Throttled', 2000, 1]);
  });

  test('no answer at all: ends as soon as the signal fires', async () => {
    const stop = new AbortController();
    const server = await scriptedGcs(() => {
      stop.abort();
      return 'silence';
    });
    const store = await server.open();
    expect((await errorOf(store.create('a', BYTES, { signal: stop.signal }))).code).toBe('Aborted');
  });

  test.each<[string, Reply]>([
    ['no JSON', { body: 'created' }],
    ['JSON of something else', { body: JSON.stringify({ kind: 'greeting' }) }],
    ['a page of a proxy', { headers: { 'content-type': 'text/html' }, body: '<html>welcome</html>' }],
    ['nothing', { status: 200 }],
  ])('a success that is %s: there is no GCS', async (_name, reply) => {
    expect((await createAnswered(reply)).error.code).toBe('InvalidConfig');
  });

  test('a success of Google itself in another form was changed on its way: it may have had its effect', async () => {
    const { error } = await createAnswered(json({ kind: 'storage#objecu' }));
    expect(error).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  test('bytes that were damaged on their way are refused by the store', async () => {
    const store = await (await scriptedGcs()).open();
    expect((await errorOf(store.create('a', BYTES, { crc32c: 1 }))).code).toBe('Corrupt');
    expect((await errorOf(store.head('a'))).code).toBe('NotFound');
  });

  const writesOther = onlyFor(isInsert, (request, fake) => {
    const { metadata } = partsOf(request);
    return json(resourceOf(fake.put(String(metadata.name), Buffer.from('other bytes!'), request)));
  });

  test('a store that has written something else, and says so: Corrupt, and what is there stays, since others may have read it', async () => {
    const server = await scriptedGcs(writesOther);
    const store = await server.open();
    const error = await errorOf(store.create('a', BYTES, { crc32c: crc32c(BYTES) }));
    expect([error.code, error.status]).toEqual(['Corrupt', 'exhausted']);
    expect(server.fake.objects.size).toBe(1);
    expect(server.requests).toHaveLength(1);
  });

  test('with uploads=single the store verifies nothing, and says so', async () => {
    const store = await (await scriptedGcs()).open({ uploads: 'single' });
    expect(store.capabilities.verifiesChecksums).toBe(false);
    await store.create('a', BYTES, { crc32c: 1 });
  });
});
