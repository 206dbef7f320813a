/**
 * Bodies that do not match the request. The store must not return any of their bytes as the object.
 */

import type { ObjectStore } from '@holdfast/core/contract';
import { describe, expect, test } from 'vitest';
import { allPages, errorOf, FRAMINGS, type Reply, sequence } from '../scripted/scripted-server.ts';
import { object, refusal, scriptedS3 } from './scripted-s3.ts';

const HEAD_206 = 'HTTP/1.1 206 Partial Content\r\nETag: "e1"\r\n';

const range = (first: number, last: number, total: number | '*', body: string, headers = {}): Reply => ({
  status: 206,
  headers: { etag: '"e1"', 'content-range': `bytes ${first}-${last}/${total}`, ...headers },
  body,
});

/** Reads 4 bytes at offset 2 of an object of 10. */
async function read(reply: Reply, etag?: string) {
  const server = await scriptedS3(() => reply);
  const store = await server.open();
  const memory = new Uint8Array(8).fill(0xee);
  const call = store.readInto('a', 2, memory.subarray(2, 6), etag === undefined ? {} : { etag });
  return { server, memory, call };
}

describe('readInto', () => {
  test('asks for exactly the bytes, and for the object it knows', async () => {
    const { server, memory, call } = await read(range(2, 5, 10, 'cdef'), 'e1');
    expect(await call).toBe(4);
    expect(Buffer.from(memory).toString('latin1')).toBe('\xee\xeecdef\xee\xee');
    expect(server.requests[0]?.headers).toMatchObject({ range: 'bytes=2-5', 'if-match': '"e1"' });
  });

  test('less than the buffer only where the object ends', async () => {
    expect(await (await read(range(2, 3, 4, 'cd'))).call).toBe(2);
  });

  test('416 is the end of the object', async () => {
    expect(await (await read(refusal(416, 'InvalidRange'))).call).toBe(0);
  });

  test.each<[string, Reply]>([
    ['ends too early', { raw: `${HEAD_206}Content-Range: bytes 2-5/10\r\nContent-Length: 4\r\n\r\ncd` }],
    ['is shorter than its range', range(2, 5, 10, 'cd')],
    ['is a shorter range, though the object goes on', range(2, 3, 10, 'cd')],
    ['is another range', range(0, 3, 10, 'abcd')],
    ['is longer than was asked for', range(2, 9, 10, 'cdefghij')],
    ['is the whole object', object('abcdefghij')],
    ['has no range', { status: 206, headers: { etag: '"e1"' }, body: 'cdef' }],
    ['is compressed', range(2, 5, 10, 'cdef', { 'content-encoding': 'gzip' })],
    [
      'is in chunks',
      {
        raw: `${HEAD_206}Content-Range: bytes 2-5/10\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ncdef\r\n0\r\n\r\n`,
      },
    ],
  ])(
    'a body that %s is an error that may be repeated, and no byte beside the buffer is touched',
    async (_name, reply) => {
      const { memory, call } = await read(reply);
      expect(await errorOf(call)).toMatchObject({ code: 'Unavailable', status: 'temporary' });
      expect([...memory.subarray(0, 2), ...memory.subarray(6)]).toEqual([0xee, 0xee, 0xee, 0xee]);
    },
  );

  test('bytes after the body are of no answer: the next request does not see them', async () => {
    const server = await scriptedS3(
      sequence(
        {
          raw: `${HEAD_206}Content-Range: bytes 2-5/10\r\nContent-Length: 4\r\n\r\ncdefHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n`,
        },
        range(2, 5, 10, 'CDEF'),
      ),
    );
    const store = await server.open();
    const buffer = new Uint8Array(4);
    expect(await store.readInto('a', 2, buffer)).toBe(4);
    expect(Buffer.from(buffer).toString()).toBe('cdef');
    expect(await store.readInto('a', 2, buffer)).toBe(4);
    expect(Buffer.from(buffer).toString()).toBe('CDEF');
    expect(server.connections).toBe(2);
  });

  test('412: another object by now, which is Corrupt and not a mix', async () => {
    const { call } = await read(refusal(412, 'PreconditionFailed'), 'e1');
    const error = await errorOf(call);
    expect([error.code, error.status]).toEqual(['Corrupt', 'permanent']);
    expect(error.message).toContain('was replaced by another object');
  });

  test('a store that ignores the condition and sends another object is found by its etag', async () => {
    const { call } = await read(range(2, 5, 10, 'cdef', { etag: '"e2"' }), 'e1');
    expect((await errorOf(call)).code).toBe('Corrupt');
  });

  test('503 with Retry-After tells how long', async () => {
    const { call } = await read(refusal(503, 'SlowDown', { headers: { 'retry-after': '3' } }));
    expect(await errorOf(call)).toMatchObject({ code: 'Throttled', retryAfterMs: 3000 });
  });

  test('an empty buffer needs no request', async () => {
    const server = await scriptedS3(() => 'reset');
    const store = await server.open();
    expect(await store.readInto('a', 2, new Uint8Array(0))).toBe(0);
    expect(server.requests).toHaveLength(0);
  });
});

describe('get', () => {
  async function get(reply: Reply, maxBytes = 10, toHead: Reply = reply) {
    const server = await scriptedS3(({ method }) => (method === 'HEAD' ? toHead : reply));
    const store = await server.open();
    return store.get('a', { maxBytes });
  }

  test('an object may say <Error>: it is no refusal', async () => {
    const text = '<?xml version="1.0"?><Error><Code>InternalError</Code></Error>';
    expect(Buffer.from((await get(object(text), 1000)).bytes).toString()).toBe(text);
  });

  test('larger than allowed: Corrupt, before it is read', async () => {
    const error = await errorOf(get({ raw: 'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 11\r\n\r\n' }));
    expect(error.code).toBe('Corrupt');
    expect(error.message).toContain('larger than the 10 bytes');
  });

  test('larger than allowed, in chunks: Corrupt', async () => {
    const chunked =
      'HTTP/1.1 200 OK\r\nETag: "e"\r\nTransfer-Encoding: chunked\r\n\r\nb\r\nabcdefghijk\r\n0\r\n\r\n';
    expect((await errorOf(get({ raw: chunked }, 10, object('abcdefghijk')))).code).toBe('Corrupt');
  });

  test('an answer that is larger than the object, by HEAD, is of another server and may be repeated', async () => {
    const error = await errorOf(get({ status: 200, body: 'x'.repeat(11) }, 10, object('abc')));
    expect(error).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  test.each<[string, Reply]>([
    ['ends too early', { raw: 'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 10\r\n\r\nabc' }],
    [
      'has chunks that end too early',
      { raw: 'HTTP/1.1 200 OK\r\nETag: "e"\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc' },
    ],
    [
      'has chunks that are none',
      { raw: 'HTTP/1.1 200 OK\r\nETag: "e"\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nabc' },
    ],
  ])('a body that %s may be read again', async (_name, reply) => {
    expect(await errorOf(get(reply))).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  // A proxy that compresses on the way: the bytes are not those of the object.
  test('a body that a proxy has compressed is refused', async () => {
    expect((await errorOf(get(object('\u001f\u008b', { 'content-encoding': 'gzip' })))).code).toBe(
      'Unavailable',
    );
  });

  test('206 although all was asked for is refused', async () => {
    expect((await errorOf(get(range(0, 2, 10, 'abc')))).code).toBe('Unavailable');
  });
});

test.each<[string, number, (store: ObjectStore) => Promise<unknown>]>([
  ['readInto', 206, (store) => store.readInto('a', 2, new Uint8Array(4))],
  ['get', 200, (store) => store.get('a', { maxBytes: 10 })],
  ['head', 200, (store) => store.head('a')],
  ['create', 200, (store) => store.create('a', new Uint8Array(3))],
])('%s: a success of the store itself without its etag may be repeated', async (_, status, call) => {
  const headers = { 'x-amz-request-id': 'REQ1', 'content-range': 'bytes 2-5/10' };
  const server = await scriptedS3(() => ({ status, headers, body: 'cdef' }));
  const error = await errorOf(call(await server.open()));
  expect(error).toMatchObject({ code: 'Unavailable', status: 'temporary', context: { httpStatus: status } });
});

describe('head', () => {
  test('without a length is refused: nothing is made up', async () => {
    const server = await scriptedS3(() => ({
      status: 200,
      headers: { etag: '"e1"', 'transfer-encoding': 'chunked' },
    }));
    const store = await server.open();
    expect((await errorOf(store.head('a'))).code).toBe('InvalidConfig');
  });

  test('404 is NotFound, 403 Denied: HEAD has no code to go by', async () => {
    const headers = { 'x-amz-request-id': 'REQ1' };
    const server = await scriptedS3(sequence({ status: 404, headers }, { status: 403, headers }));
    const store = await server.open();
    expect((await errorOf(store.head('a'))).code).toBe('NotFound');
    expect((await errorOf(store.head('a'))).code).toBe('Denied');
    expect(server.requests).toHaveLength(2);
  });

  test.each([
    ['the store says that it is missing', refusal(404, 'NoSuchKey'), 'NotFound'],
    ['a load balancer answers again', { status: 404, body: '404 page not found' }, 'InvalidConfig'],
    ['the object is there', object('abc'), 'Unavailable'],
    ['the object is there, without bytes', object(''), 'Unavailable'],
  ] as const)('404 that may be of a load balancer: GET is asked, and %s', async (_, answer, code) => {
    const server = await scriptedS3(({ method }) => (method === 'HEAD' ? { status: 404 } : answer));
    const store = await server.open();
    expect(await errorOf(store.head('a'))).toMatchObject({ code });
    expect(server.requests.map(({ method }) => method)).toEqual(['HEAD', 'GET']);
  });

  test('a page of another server has no etag, and is no object', async () => {
    const server = await scriptedS3(() => ({ status: 200, headers: {}, body: '<html>' }));
    expect((await errorOf((await server.open()).head('a'))).code).toBe('InvalidConfig');
  });
});

describe('list', () => {
  const page = (body: string): Reply => ({
    body: `<?xml version="1.0"?><ListBucketResult>${body}</ListBucketResult>`,
  });
  const entry = (key: string) =>
    `<Contents><Key>${key}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><ETag>"e"</ETag><Size>3</Size></Contents>`;

  test('page by page, each asked for with the token of the last', async () => {
    const server = await scriptedS3(
      sequence(
        page(
          `<IsTruncated>true</IsTruncated><NextContinuationToken>T+/=1</NextContinuationToken>${entry('gpt/a')}`,
        ),
        page(`<IsTruncated>false</IsTruncated>${entry('gpt/b')}`),
      ),
    );
    const store = await server.open();
    const pages = await allPages(store, { startAfter: '0' });
    expect(pages.map(({ objects }) => objects.map(({ key }) => key))).toEqual([['a'], ['b']]);
    expect(
      server.requests.map(({ query }) => [query.get('start-after'), query.get('continuation-token')]),
    ).toEqual([
      ['gpt/0', null],
      [null, 'T+/=1'],
    ]);
  });

  test('a page with fewer objects than it says may be asked for again', async () => {
    const server = await scriptedS3(() =>
      page(`<KeyCount>6</KeyCount><IsTruncated>false</IsTruncated>${entry('gpt/a')}`),
    );
    const store = await server.open();
    expect(await errorOf(allPages(store))).toMatchObject({ code: 'Unavailable', status: 'temporary' });
  });

  test('a page that says there is more, and not where, is an error and not the end', async () => {
    const server = await scriptedS3(() => page(`<IsTruncated>true</IsTruncated>${entry('gpt/a')}`));
    const store = await server.open();
    expect((await errorOf(allPages(store))).code).toBe('Unavailable');
  });

  test.each([
    ['no word on whether it is the last', `<IsTruncatee>true</IsTruncatee>${entry('gpt/a')}`],
    ['an object without a name', `<IsTruncated>false</IsTruncated>${entry('').replaceAll('Key>', 'Kex>')}`],
    ['a name outside the prefix', `<IsTruncated>false</IsTruncated>${entry('gpu/a')}`],
  ])('a page with %s may be asked for again', async (_, body) => {
    const server = await scriptedS3(() => page(body));
    expect(await errorOf(allPages(await server.open()))).toMatchObject({
      code: 'Unavailable',
      message: expect.stringContaining('the answer was cut off or changed in transit'),
    });
  });

  test.each(['ListBucketResulu', 'ListAllMyBucketsResult', 'html'])(
    'a page whose root is <%s> is no empty bucket: if it is from S3 itself, it was changed in transit',
    async (root) => {
      const codeWith = async (headers: Record<string, string>) => {
        const server = await scriptedS3(() => ({ headers, body: `<${root}></${root}>` }));
        return (await errorOf(allPages(await server.open()))).code;
      };
      expect(await codeWith({ 'x-amz-request-id': 'REQ1' })).toBe('Unavailable');
      expect(await codeWith({})).toBe('InvalidConfig');
    },
  );

  test('a page with 100,000 elements in each other may be asked for again', async () => {
    const depth = 100_000;
    const deep = `${'<a>'.repeat(depth)}${'</a>'.repeat(depth)}`;
    const server = await scriptedS3(() => page(`<IsTruncated>false</IsTruncated>${deep}`));
    expect((await errorOf(allPages(await server.open()))).code).toBe('Unavailable');
  });

  test('a page that is its own next one is an error, and nothing more is asked', async () => {
    const again = '<IsTruncated>true</IsTruncated><NextContinuationToken>T</NextContinuationToken>';
    const server = await scriptedS3(() => page(again));
    const store = await server.open();
    expect((await errorOf(allPages(store))).code).toBe('Unavailable');
    expect(server.requests).toHaveLength(2);
  });

  describe.each(FRAMINGS)('a page that is cut off, %s,', (_name, framed) => {
    const whole = `<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>${entry('gpt/a')}</ListBucketResult>`;
    const headers = { 'content-type': 'application/xml', 'x-amz-request-id': 'REQ1' };

    test.each([0, 8, 30, whole.indexOf('<Contents>'), whole.indexOf('</Contents>'), whole.length - 2])(
      'after %i characters is a broken answer, which may be whole the next time',
      async (length) => {
        let isCut = false;
        const server = await scriptedS3(() => framed(headers, isCut ? whole.slice(0, length) : whole));
        const store = await server.open();
        // A body without a length is rejected once. After that, the client that accepts it is used.
        await allPages(store).catch(() => undefined);
        isCut = true;
        expect(await errorOf(allPages(store))).toMatchObject({
          code: 'Unavailable',
          status: 'temporary',
          message: expect.stringContaining('the answer was cut off or changed in transit'),
        });
        isCut = false;
        const [found] = await allPages(store);
        expect(found?.objects.map(({ key }) => key)).toEqual(['a']);
      },
    );
  });

  test('a page with a changed tag is a broken answer, too', async () => {
    const server = await scriptedS3(() => page('<Contents></IsTruncated>'));
    const store = await server.open();
    const error = await errorOf(allPages(store));
    expect(error).toMatchObject({ code: 'Unavailable', status: 'temporary' });
    expect(error.message).toContain('its </IsTruncated> ends another element');
  });

  test('a page of another kind, whole or cut off, is of a server that is no S3', async () => {
    for (const body of ['<html><body>welcome</body></html>', '<html><bo', 'welcome', '']) {
      const server = await scriptedS3(() => ({ body }));
      expect((await errorOf(allPages(await server.open()))).code).toBe('InvalidConfig');
    }
  });

  test('what is no object of ours is left out: markers of folders, keys outside the grammar', async () => {
    const server = await scriptedS3(() =>
      page(`<IsTruncated>false</IsTruncated>${['gpt/', 'gpt/a/', 'gpt/../x', 'gpt/b'].map(entry).join('')}`),
    );
    const store = await server.open();
    const [first] = await allPages(store);
    expect(first?.objects.map(({ key }) => key)).toEqual(['b']);
  });
});
