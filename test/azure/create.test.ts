/** Creates with endings that no server can be made to produce. */

import type { CheckpointError, ListOptions, ListPage, ObjectStore } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { errorOf, FRAMINGS, firstPage, type Reply, sequence } from '../scripted/scripted-server.ts';
import { azureInMemory, blob, CREATED, listing, refusal, scriptedAzure } from './scripted-azure.ts';

const BYTES = new TextEncoder().encode('{"record":1}');

async function createAnswered(reply: Reply): Promise<{ error: CheckpointError; sent: number }> {
  const server = await scriptedAzure(() => reply);
  const store = await server.open();
  return { error: await errorOf(store.create('a/b', BYTES)), sent: server.requests.length };
}

describe('create', () => {
  test('is one Put Blob that only succeeds where nothing is', async () => {
    const server = await scriptedAzure(() => CREATED);
    const store = await server.open();
    expect(await store.create('a/b', BYTES, { crc32c: 0x1234abcd })).toMatchObject({
      key: 'a/b',
      sizeBytes: BYTES.byteLength,
      etag: 'e1',
      createdAtMs: Date.UTC(2026, 10, 21, 10),
    });
    expect(server.requests).toHaveLength(1);
    const [request] = server.requests;
    expect(request).toMatchObject({ method: 'PUT', target: '/runs/gpt/a/b' });
    expect(request?.headers).toMatchObject({
      'if-none-match': '*',
      'content-length': String(BYTES.byteLength),
      'x-ms-blob-type': 'BlockBlob',
      'x-ms-blob-content-type': 'application/octet-stream',
      'x-ms-meta-crc32c': 'EjSrzQ==',
    });
    for (const name of ['expect', 'content-md5', 'x-ms-access-tier'])
      expect(request?.headers).not.toHaveProperty(name);
    expect(request?.body).toEqual(Buffer.from(BYTES));
  });

  test.each<[string, Reply]>([
    ['409 BlobAlreadyExists', refusal(409, 'BlobAlreadyExists')],
    ['412 ConditionNotMet', refusal(412, 'ConditionNotMet')],
    [
      '409 BlobImmutableDueToPolicy, which a new blob is not refused for',
      refusal(409, 'BlobImmutableDueToPolicy'),
    ],
    [
      '403 UnauthorizedBlobOverwrite of a SAS that may only create',
      refusal(403, 'UnauthorizedBlobOverwrite'),
    ],
  ])('%s: another writer was first', async (_name, reply) => {
    const { error, sent } = await createAnswered(reply);
    expect([error.code, error.status, sent]).toEqual(['AlreadyExists', 'permanent', 1]);
  });

  test.each<[string, Reply]>([
    ['409 that nobody knows', refusal(409, 'BrandNewConflict')],
    ['500 InternalError', refusal(500, 'InternalError')],
    ['500 OperationTimedOut', refusal(500, 'OperationTimedOut')],
    ['504 of a proxy', { status: 504, headers: { 'content-type': 'text/html' }, body: '<html>504</html>' }],
    ['a reset after the request', 'reset'],
    ['half an answer', { raw: 'HTTP/1.1 201 Created\r\nContent-Le' }],
  ])('%s: temporary, sent once, for it may have had its effect', async (_name, reply) => {
    const { error, sent } = await createAnswered(reply);
    expect([error.code, error.status, sent]).toEqual(['Unavailable', 'temporary', 1]);
  });

  test('503 ServerBusy: throttled, for as long as the store asks', async () => {
    const { error, sent } = await createAnswered(
      refusal(503, 'ServerBusy', { headers: { 'retry-after': '7' } }),
    );
    expect([error.code, error.status, error.retryAfterMs, sent]).toEqual(['Throttled', 'temporary', 7000, 1]);
  });

  test.each(['reset', 'error'] as const)('applied, and then a %s: the next one finds it', async (how) => {
    const server = await azureInMemory({}, (_, pass, index) => {
      const answer = pass();
      if (index > 0) return answer;
      return how === 'reset' ? 'reset' : refusal(500, 'InternalError');
    });
    const store = await server.open();
    expect((await errorOf(store.create('a', BYTES))).code).toBe('Unavailable');
    expect((await errorOf(store.create('a', BYTES))).code).toBe('AlreadyExists');
    expect(Buffer.from((await store.get('a', { maxBytes: 100 })).bytes)).toEqual(Buffer.from(BYTES));
  });

  test('a reset on a connection that was in use before: still sent once', async () => {
    const server = await scriptedAzure(sequence(CREATED, 'reset', CREATED));
    const store = await server.open();
    await store.create('a', BYTES);
    expect((await errorOf(store.create('b', BYTES))).code).toBe('Unavailable');
    expect(server.requests).toHaveLength(2);
  });

  test('no answer at all: ends as soon as the signal fires', async () => {
    const { promise: arrival, resolve: arrived } = Promise.withResolvers<void>();
    const server = await scriptedAzure(() => {
      arrived();
      return 'silence';
    });
    const store = await server.open();
    const controller = new AbortController();
    const creating = errorOf(store.create('a', BYTES, { signal: controller.signal }));
    await arrival;
    controller.abort();
    expect((await creating).code).toBe('Aborted');
  });

  test('a success in another form is no success of Azure', async () => {
    const { error } = await createAnswered({ status: 200, body: '<html>welcome</html>' });
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('does not lead to a server that speaks Azure Blob Storage');
  });
});

describe('reads', () => {
  test.each([
    ['the store says that it is missing', refusal(404, 'BlobNotFound'), 'NotFound'],
    ['a load balancer answers again', { status: 404, body: '404 page not found' }, 'InvalidConfig'],
    ['the blob is there', blob('abc'), 'Unavailable'],
  ] as const)('head: 404 that may be of a load balancer: GET is asked, and %s', async (_, answer, code) => {
    const server = await scriptedAzure(({ method }) => (method === 'HEAD' ? { status: 404 } : answer));
    const store = await server.open();
    expect(await errorOf(store.head('a'))).toMatchObject({ code });
    expect(server.requests.map(({ method }) => method)).toEqual(['HEAD', 'GET']);
  });

  test('readInto: another object under the key by now is Corrupt, not a mix', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    const { etag } = await store.create('a', BYTES);
    const buffer = new Uint8Array(4);
    expect(await store.readInto('a', 2, buffer, { etag })).toBe(4);
    expect((await errorOf(store.readInto('a', 2, buffer, { etag: 'other' }))).code).toBe('Corrupt');
    expect(server.requests.at(-1)?.headers).toMatchObject({
      'if-match': '"other"',
      'x-ms-range': 'bytes=2-5',
    });
    expect(await store.readInto('a', 99, buffer, { etag })).toBe(0);
  });

  test('readInto: a proxy that ignores the condition does not get through with it', async () => {
    const server = await scriptedAzure(() => ({
      status: 206,
      headers: { ...CREATED.headers, etag: '"e2"', 'content-range': 'bytes 0-2/3' },
      body: 'abc',
    }));
    const store = await server.open();
    expect((await errorOf(store.readInto('a', 0, new Uint8Array(3), { etag: 'e1' }))).code).toBe('Corrupt');
  });

  test.each<[string, Reply]>([
    [
      'a shorter body than told',
      {
        raw: 'HTTP/1.1 206 Partial Content\r\nETag: "e1"\r\nContent-Length: 3\r\nContent-Range: bytes 0-2/3\r\n\r\nab',
      },
    ],
    [
      'another range',
      { status: 206, headers: { etag: '"e1"', 'content-range': 'bytes 1-3/9' }, body: 'abc' },
    ],
    [
      'the whole, where a part was asked for',
      { status: 200, headers: CREATED.headers ?? {}, body: 'a longer body' },
    ],
    [
      'an encoded body',
      {
        status: 206,
        headers: { etag: '"e1"', 'content-range': 'bytes 0-2/3', 'content-encoding': 'gzip' },
        body: 'abc',
      },
    ],
  ])('readInto: %s is temporary, never taken', async (_name, reply) => {
    const server = await scriptedAzure(() => reply);
    const store = await server.open();
    const error = await errorOf(store.readInto('a', 0, new Uint8Array(3)));
    expect([error.code, error.status]).toEqual(['Unavailable', 'temporary']);
  });

  test('get and head: a directory of a hierarchical account is no object', async () => {
    const server = await azureInMemory({ isHierarchical: true });
    const store = await server.open();
    await store.create('d/a', BYTES);
    expect((await errorOf(store.head('d'))).code).toBe('NotFound');
    expect((await errorOf(store.get('d', { maxBytes: 9 }))).code).toBe('NotFound');
  });

  test('get: a larger object than expected is Corrupt before it is read', async () => {
    const server = await azureInMemory();
    const store = await server.open();
    await store.create('a', BYTES);
    expect((await errorOf(store.get('a', { maxBytes: 3 }))).code).toBe('Corrupt');
  });
});

describe('deleteMany', () => {
  test('one request for each, snapshots included; what is gone counts, what is refused is told', async () => {
    const server = await azureInMemory({}, ({ method, path }, pass) => {
      if (method !== 'DELETE' || !path.endsWith('/locked')) return pass();
      return refusal(409, 'BlobImmutableDueToPolicy');
    });
    const store = await server.open();
    await store.create('a', BYTES);
    const results = await store.deleteMany(['a', 'missing', 'locked']);
    expect(results.map(({ key, error }) => [key, error?.code])).toEqual([
      ['a', undefined],
      ['missing', undefined],
      ['locked', 'Denied'],
    ]);
    expect(results[2]?.error?.message).toContain('an immutability policy or a legal hold keeps it');
    const deletes = server.requests.filter(({ method }) => method === 'DELETE');
    expect(deletes.map(({ headers }) => headers['x-ms-delete-snapshots'])).toEqual(Array(3).fill('include'));
  });

  test('at most 32 at the same time', async () => {
    let [running, most] = [0, 0];
    const server = await scriptedAzure(async () => {
      running += 1;
      most = Math.max(most, running);
      await new Promise(setImmediate);
      running -= 1;
      return { status: 202, headers: { 'x-ms-request-id': 'REQ1' } };
    });
    const store = await server.open();
    const keys = Array.from({ length: 100 }, (_, index) => `k${index}`);
    expect(await store.deleteMany(keys)).toEqual(keys.map((key) => ({ key })));
    expect(most).toBeLessThanOrEqual(32);
    expect(server.requests).toHaveLength(100);
  });

  test('a missing container is told for each key', async () => {
    const server = await scriptedAzure(() => refusal(404, 'ContainerNotFound'));
    const store = await server.open();
    const [result] = await store.deleteMany(['a']);
    expect(result?.error).toMatchObject({
      code: 'NotFound',
      message: expect.stringContaining('a container'),
    });
  });
});

async function pagesOf(store: ObjectStore, prefix: string, options: ListOptions = {}): Promise<ListPage[]> {
  const pages: ListPage[] = [];
  for await (const page of store.list(prefix, options)) pages.push(page);
  return pages;
}

describe('list', () => {
  test('pages without blobs are passed over, and the marker is told as it came', async () => {
    const server = await scriptedAzure(
      sequence(listing([], '2!88!a+b/c=='), listing([], 'm2'), listing(['gpt/x'])),
    );
    const store = await server.open();
    const pages = await pagesOf(store, '');
    expect(pages.map(({ objects }) => objects.map(({ key }) => key))).toEqual([[], ['x']]);
    expect(server.requests.map(({ query }) => query.get('marker'))).toEqual([null, '2!88!a+b/c==', 'm2']);
  });

  test('begins where it has to, and leaves out what comes before', async () => {
    const server = await scriptedAzure(() => listing(['gpt/c/0001', 'gpt/c/0001-a', 'gpt/c/0002']));
    const store = await server.open();
    const [page] = await pagesOf(store, 'c/', { startAfter: 'c/0001-a' });
    expect(page?.objects.map(({ key }) => key)).toEqual(['c/0002']);
    expect(server.requests[0]?.query.get('startFrom')).toBe('gpt/c/0001');
    expect(await pagesOf(store, 'c/', { startAfter: 'd' })).toEqual([]);
    expect(server.requests).toHaveLength(1);
  });

  test('a store that turns in a circle is told', async () => {
    const server = await scriptedAzure(() => listing(['gpt/x'], 'again'));
    const store = await server.open();
    const error = await errorOf(pagesOf(store, ''));
    expect([error.code, server.requests.length]).toEqual(['Unavailable', 2]);
  });

  test('keys that come back in another order than that of their bytes are told', async () => {
    const server = await scriptedAzure(sequence(listing(['gpt/b'], 'm'), listing(['gpt/a'])));
    const store = await server.open();
    const error = await errorOf(pagesOf(store, ''));
    expect([error.code, error.message]).toEqual(['Unavailable', expect.stringContaining('out of order')]);
  });

  describe.each(FRAMINGS)('cut off, %s', (_name, framed) => {
    const { body, headers } = listing(['gpt/a', 'gpt/b']) as {
      body: string;
      headers: Record<string, string>;
    };

    test.each([0, 8, 60, body.indexOf('<Blob>'), body.indexOf('</Blobs>'), body.length - 3])(
      'after %i characters is a broken answer and not what is there',
      async (length) => {
        let isCut = true;
        const server = await scriptedAzure(() => framed(headers, isCut ? body.slice(0, length) : body));
        const store = await server.open();
        expect(await errorOf(pagesOf(store, ''))).toMatchObject({
          code: 'Unavailable',
          status: 'temporary',
          message: expect.stringContaining('the answer was cut off or changed in transit'),
        });
        isCut = false;
        const [page] = await pagesOf(store, '');
        expect(page?.objects.map(({ key }) => key)).toEqual(['a', 'b']);
      },
    );
  });

  test('a page with another root is no empty container: if it is from Azure itself, it was changed in transit', async () => {
    const codeWith = async (headers: Record<string, string>) => {
      const body = '<EnumerationResulta><Blobs/><NextMarker/></EnumerationResulta>';
      const store = await (await scriptedAzure(() => ({ status: 200, headers, body }))).open();
      return (await errorOf(firstPage(store) as Promise<unknown>)).code;
    };
    expect(await codeWith({ 'x-ms-request-id': 'REQ1' })).toBe('Unavailable');
    expect(await codeWith({})).toBe('InvalidConfig');
  });

  test('a page of another server is not an empty container', async () => {
    const server = await scriptedAzure(() => ({ status: 200, body: '<html>welcome</html>' }));
    const store = await server.open();
    expect((await errorOf(firstPage(store) as Promise<unknown>)).code).toBe('InvalidConfig');
  });

  test('ages are told by the clock of the store', async () => {
    const date = 'Sat, 21 Nov 2020 10:00:00 GMT';
    const server = await scriptedAzure(() => ({ ...listing(['gpt/x']), headers: { date } }));
    const store = await server.open();
    expect(await firstPage(store)).toMatchObject({ storeTimeMs: Date.parse(date) });
  });
});
