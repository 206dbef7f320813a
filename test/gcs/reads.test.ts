/** Reads and listings. The store must reject every answer that does not match the request. */

import { describe, expect, test } from 'vitest';
import { allPages, errorOf, FRAMINGS, type Reply, sequence } from '../scripted/scripted-server.ts';
import { json, page, refusal } from './fake-gcs.ts';
import { isList, isMetadata, isRead, onlyFor, scriptedGcs } from './scripted-gcs.ts';

const HEAD_206 = 'HTTP/1.1 206 Partial Content\r\nx-goog-generation: 7\r\n';

const range = (first: number, last: number, total: number | '*', body: string, headers = {}): Reply => ({
  status: 206,
  headers: { 'x-goog-generation': '7', 'content-range': `bytes ${first}-${last}/${total}`, ...headers },
  body,
});

/** Reads 4 bytes at offset 2 of an object of 10 bytes. */
async function read(reply: Reply, etag?: string) {
  const server = await scriptedGcs(() => reply);
  const store = await server.open();
  const memory = new Uint8Array(8).fill(0xee);
  const call = store.readInto('a', 2, memory.subarray(2, 6), etag === undefined ? {} : { etag });
  return { server, memory, call };
}

describe('readInto', () => {
  test('asks for exactly the bytes as they are stored, and for the object it knows', async () => {
    const { server, memory, call } = await read(range(2, 5, 10, 'cdef'), '7');
    expect(await call).toBe(4);
    expect(Buffer.from(memory).toString('latin1')).toBe('\xee\xeecdef\xee\xee');
    const [request] = server.requests;
    expect(request?.path).toBe('/download/storage/v1/b/runs/o/gpt%2Fa');
    expect(request?.search).toBe('alt=media&ifGenerationMatch=7');
    expect(request?.headers).toMatchObject({ range: 'bytes=2-5', 'accept-encoding': 'gzip' });
  });

  test.each<[string, Reply]>([
    ['ends too early', { raw: `${HEAD_206}Content-Range: bytes 2-5/10\r\nContent-Length: 4\r\n\r\ncd` }],
    ['is shorter than its range', range(2, 5, 10, 'cd')],
    ['is a shorter range, though the object goes on', range(2, 3, 10, 'cd')],
    ['is another range', range(0, 3, 10, 'abcd')],
    ['is longer than was asked for', range(2, 9, 10, 'cdefghij')],
    ['is the whole object', { headers: { 'x-goog-generation': '7' }, body: 'abcdefghij' }],
    ['is packed', range(2, 5, 10, 'cdef', { 'content-encoding': 'gzip' })],
  ])(
    'a body that %s is an error that may be repeated, and no byte beside the buffer is touched',
    async (_name, reply) => {
      const { memory, call } = await read(reply);
      expect(await errorOf(call)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
      expect([...memory.subarray(0, 2), ...memory.subarray(6)]).toEqual([0xee, 0xee, 0xee, 0xee]);
    },
  );

  test('412: another object by now, which is Corrupt and not a mix', async () => {
    const { call } = await read(refusal(412, 'conditionNotMet'), '7');
    expect(await errorOf(call)).toMatchObject({ code: 'Corrupt', status: 'permanent' });
  });

  test('a server that ignores the condition and sends another object is found by its generation', async () => {
    const { call } = await read(range(2, 5, 10, 'cdef'), '6');
    expect((await errorOf(call)).code).toBe('Corrupt');
  });

  test('416 is the end of the object, and an empty buffer needs no request', async () => {
    expect(await (await read({ status: 416, headers: { 'x-guploader-uploadid': 'U1' } })).call).toBe(0);
    const server = await scriptedGcs(() => 'reset');
    expect(await (await server.open()).readInto('a', 2, new Uint8Array(0))).toBe(0);
    expect(server.requests).toHaveLength(0);
  });

  test('bytes come slowly: the one who watches hears of each piece', async () => {
    const { server } = await read(range(2, 5, 10, 'cdef'));
    const store = await server.open();
    let count = 0;
    await store.readInto('a', 2, new Uint8Array(4), { onBytes: () => count++ });
    expect(count).toBeGreaterThan(0);
  });
});

describe('get', () => {
  /** `facts`: the answer about the object instead of its bytes. */
  const get = async (reply: Reply, maxBytes = 10, facts: Reply = reply) => {
    const server = await scriptedGcs(({ query }) => (query.get('alt') === 'media' ? reply : facts));
    const store = await server.open();
    return store.get('a', { maxBytes });
  };

  test('larger than allowed: Corrupt, before it is read', async () => {
    const error = await errorOf(
      get({ raw: 'HTTP/1.1 200 OK\r\nx-goog-generation: 7\r\nContent-Length: 11\r\n\r\n' }, 10, {
        body: JSON.stringify({
          name: 'gpt/a',
          size: '11',
          generation: '7',
          timeCreated: '2026-11-21T10:00:00Z',
        }),
      }),
    );
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain('larger than the 10 bytes');
  });

  test('an object may look like an error: it is no refusal', async () => {
    const text = '{"error": {"code": 503}}';
    const { bytes } = await get({ headers: { 'x-goog-generation': '7' }, body: text }, 1000);
    expect(Buffer.from(bytes).toString()).toBe(text);
  });

  test.each<[string, Reply, string]>([
    [
      'packed',
      { headers: { 'x-goog-generation': '7', 'content-encoding': 'gzip' }, body: 'x' },
      'Unavailable',
    ],
    ['a part of it', range(0, 2, 10, 'abc'), 'Unavailable'],
    ['without a generation: no GCS', { body: 'abc' }, 'InvalidConfig'],
  ])('an answer that is %s is refused', async (_name, reply, code) => {
    expect((await errorOf(get(reply))).code).toBe(code);
  });
});

describe('a missing object', () => {
  test('is told in plain text, for media', async () => {
    const store = await (await scriptedGcs()).open();
    expect((await errorOf(store.get('a', { maxBytes: 10 }))).message).toContain(
      'object a in gs://runs/gpt does not exist',
    );
    expect((await errorOf(store.readInto('a', 0, new Uint8Array(4)))).code).toBe('NotFound');
    expect((await errorOf(store.head('a'))).code).toBe('NotFound');
  });

  const plain: Reply = { status: 404, headers: { 'content-type': 'text/plain' }, body: 'Not Found\n' };

  test('reported by an emulator, in a form that any server may have: the metadata say that it is GCS', async () => {
    const server = await scriptedGcs(onlyFor(isRead, plain));
    const store = await server.open();
    expect((await errorOf(store.get('a', { maxBytes: 10 }))).code).toBe('NotFound');
    expect(server.requests.map(isMetadata)).toEqual([false, true]);
  });

  test('told so by a server that is no GCS: it says so', async () => {
    const store = await (await scriptedGcs(() => plain)).open();
    expect((await errorOf(store.get('a', { maxBytes: 10 }))).code).toBe('InvalidConfig');
    expect((await errorOf(store.head('a'))).code).toBe('InvalidConfig');
  });

  test('one that has come meanwhile is read', async () => {
    let reads = 0;
    const server = await scriptedGcs(onlyFor(isRead, () => (reads++ === 0 ? plain : undefined)));
    const store = await server.open();
    await store.create('a', Buffer.from('abc'));
    expect(Buffer.from((await store.get('a', { maxBytes: 10 })).bytes).toString()).toBe('abc');
  });
});

describe('list', () => {
  const item = (name: string) => ({
    name,
    size: '3',
    generation: '7',
    timeCreated: '2026-11-21T10:00:00.000Z',
  });
  const keysOf = (pages: Awaited<ReturnType<typeof allPages>>) =>
    pages.map(({ objects }) => objects.map(({ key }) => key));

  test('page by page, each asked for with the token of the last, from after the key that is given', async () => {
    const server = await scriptedGcs((_request, _fake, index) =>
      sequence(
        page({ nextPageToken: 'T+/=1', items: [item('gpt/a'), item('gpt/b')] }),
        page({ nextPageToken: 'T2' }),
        page({ items: [item('gpt/b'), item('gpt/c')] }),
      )(_request, index),
    );
    const store = await server.open();
    expect(keysOf(await allPages(store, { startAfter: 'a' }))).toEqual([['b'], ['c']]);
    expect(
      server.requests.map(({ query }) => [
        query.get('prefix'),
        query.get('startOffset'),
        query.get('pageToken'),
      ]),
    ).toEqual([
      ['gpt/', 'gpt/a', null],
      ['gpt/', 'gpt/a', 'T+/=1'],
      ['gpt/', 'gpt/a', 'T2'],
    ]);
  });

  test('shows nothing of what is kept below the root for uploads, nor what is no key', async () => {
    const names = ['gpt/', 'gpt/.holdfast-compose/u/begun', 'gpt/a/', 'gpt/../x', 'gpt/b'];
    const store = await (await scriptedGcs(onlyFor(isList, page({ items: names.map(item) })))).open();
    expect(keysOf(await allPages(store))).toEqual([['b']]);
  });

  test.each<[string, Reply]>([
    ['has an object without a time', page({ items: [{ name: 'gpt/a', generation: '7' }] })],
    ['has no list', page({ items: 'many' })],
    ['is of another kind', json({ kind: 'storage#object', items: [item('gpt/a')] })],
    ['has a changed name for its list', page({ itemt: [item('gpt/a')] })],
    ['has a changed name for its next page', page({ items: [item('gpt/a')], nextPageTokem: 'T' })],
    ['has a name outside the prefix', page({ items: [item('gpu/a')] })],
    ['names itself as the next one', page({ nextPageToken: 'T', items: [] })],
  ])('a page of Google that %s was changed on its way, and is not the end', async (_name, reply) => {
    const store = await (await scriptedGcs(() => reply)).open();
    expect(await errorOf(allPages(store))).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  test.each(['{}', '{"ok":true}', '{"items":[]}', '[]', '"ok"', 'null', '<html></html>', 'ok'])(
    '%s of any server is no empty bucket',
    async (body) => {
      const server = await scriptedGcs(() => ({
        headers: { 'content-type': 'application/json' },
        body,
      }));
      expect((await errorOf(allPages(await server.open()))).code).toBe('InvalidConfig');
    },
  );

  test('a bucket without objects is empty', async () => {
    const server = await scriptedGcs(() => page({}));
    expect(keysOf(await allPages(await server.open()))).toEqual([[]]);
    expect(server.requests[0]?.query.get('fields')).toMatch(/^kind,/);
  });

  describe.each(FRAMINGS)('a page that is cut off, %s,', (_name, framed) => {
    const { body, headers = {} } = page({ items: [item('gpt/a')] }) as {
      body: string;
      headers?: Record<string, string>;
    };

    test.each([1, 5, body.length - 1])(
      'after %i characters is a broken answer, which may be whole the next time',
      async (length) => {
        let isCut = true;
        const server = await scriptedGcs(() => framed(headers, isCut ? body.slice(0, length) : body));
        const store = await server.open();
        expect(await errorOf(allPages(store))).toMatchObject({
          code: 'Unavailable',
          status: 'temporary',
          message: expect.stringContaining('the answer was cut off or changed in transit'),
        });
        isCut = false;
        expect(keysOf(await allPages(store))).toEqual([['a']]);
      },
    );
  });

  test('a page of nothing is broken where Google says that it answered, and else of another server', async () => {
    const codeWith = async (headers: Record<string, string>) => {
      const server = await scriptedGcs(onlyFor(isList, { headers, body: '' }));
      return (await errorOf(allPages(await server.open()))).code;
    };
    expect(await codeWith({ 'x-guploader-uploadid': 'UP1' })).toBe('Unavailable');
    expect(await codeWith({})).toBe('InvalidConfig');
  });

  test('the time is that of the store', async () => {
    const date = new Date(1_700_000_000_000).toUTCString();
    const answer = page({});
    const store = await (
      await scriptedGcs(() => ({ ...answer, headers: { ...answer.headers, date } }))
    ).open();
    expect((await allPages(store))[0]?.storeTimeMs).toBe(1_700_000_000_000);
  });
});

describe('deleteMany', () => {
  test('one request for each, at most 32 at the same time; what is not there is gone', async () => {
    let running = 0;
    let most = 0;
    const server = await scriptedGcs(async ({ method }) => {
      if (method !== 'DELETE') return undefined;
      most = Math.max(most, ++running);
      for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve));
      running--;
      return undefined;
    });
    const store = await server.open();
    const keys = Array.from({ length: 80 }, (_, index) => `k${index}`);
    await store.create('k1', Buffer.from('x'));
    const results = await store.deleteMany(keys);
    expect(results).toEqual(keys.map((key) => ({ key })));
    expect(server.fake.objects.size).toBe(0);
    expect(most).toBeLessThanOrEqual(32);
    expect(most).toBeGreaterThan(1);
  });

  test.each([
    ['locked', 403, 'retentionPolicyNotMet', 'Denied'],
    ['held', 403, 'objectUnderActiveHold', 'Denied'],
    ['slow', 429, 'rateLimitExceeded', 'Throttled'],
    ['lost', 503, 'backendError', 'Unavailable'],
  ])('%s: an error of this key, and the others are gone', async (name, status, reason, code) => {
    const server = await scriptedGcs(({ path }) =>
      path.endsWith(name) ? refusal(status, reason) : undefined,
    );
    const store = await server.open();
    const results = await store.deleteMany(['a', name, 'b']);
    expect(results.map(({ error }) => error?.code)).toEqual([undefined, code, undefined]);
    expect(results[1]?.error?.message).toContain(`cannot delete object ${name} in gs://runs/gpt`);
  });

  test('404 of a server that is no GCS is no success', async () => {
    const store = await (await scriptedGcs(() => ({ status: 404, body: '<html>404</html>' }))).open();
    const [result] = await store.deleteMany(['a']);
    expect(result?.error?.code).toBe('InvalidConfig');
  });

  test('ends soon after the signal has fired, as a whole', async () => {
    const stop = new AbortController();
    const server = await scriptedGcs(() => {
      stop.abort();
      return 'silence';
    });
    const store = await server.open();
    expect((await errorOf(store.deleteMany(['a', 'b'], { signal: stop.signal }))).code).toBe('Aborted');
  });

  test('a bucket that is missing is no bucket that is empty', async () => {
    const missing = refusal(404, 'notFound', 'The specified bucket does not exist.');
    const store = await (await scriptedGcs(() => missing)).open();
    const [result] = await store.deleteMany(['a']);
    expect(result?.error?.message).toContain('names a bucket that does not exist');
  });
});
