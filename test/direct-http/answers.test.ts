import { describe, expect, test } from 'vitest';
import {
  certificate,
  failureOf,
  get,
  guarded,
  makeClient,
  ok,
  pattern,
  TRANSPORTS,
} from './direct-client.ts';
import { answering, startServer } from './scripted-server.ts';

const BODY = 'the body of the answer';
const RANGE =
  'HTTP/1.1 100 Continue\r\n\r\n' +
  `HTTP/1.1 206 Partial Content\r\nETag: "e"\r\nContent-Range: bytes 10-31/100\r\nContent-Length: 22\r\n\r\n${BODY}`;
const INTO = { startBytes: 10, etag: '"e"' };

describe.each(TRANSPORTS)('answers, %s', (_, certificate) => {
  test('a range goes into the buffer wherever the answer is split, all on one connection', async () => {
    let cut = 0;
    await using server = await startServer(
      async (peer) => {
        while ((await peer.head()) !== undefined) {
          if (cut > 0) await peer.writeAlone(RANGE.slice(0, cut));
          await peer.write(RANGE.slice(cut));
        }
      },
      { certificate },
    );
    await using client = makeClient();
    for (; cut < RANGE.length; cut++) {
      const { buffer, areGuardsWhole } = guarded(22);
      const response = await client.request(get(server, { into: { buffer, ...INTO } }));
      expect(response).toMatchObject({ status: 206, bytesInto: 22, isReused: cut > 0 });
      expect(response.headers['etag']).toBe('"e"');
      expect(Buffer.from(buffer).toString()).toBe(BODY);
      expect(areGuardsWhole()).toBe(true);
    }
    expect(client.connectionsOpened).toBe(1);
    expect(server.failures).toEqual([]);
  });

  test('byte by byte', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        for (const byte of RANGE) await peer.writeAlone(byte);
      },
      { certificate },
    );
    await using client = makeClient();
    const { buffer, areGuardsWhole } = guarded(22);
    expect(await client.request(get(server, { into: { buffer, ...INTO } }))).toMatchObject({ bytesInto: 22 });
    expect(Buffer.from(buffer).toString()).toBe(BODY);
    expect(areGuardsWhole()).toBe(true);
  });

  test('bodies of every size around the records and the scratch arrive whole', async () => {
    const bytes = pattern(3 * 1024 * 1024 + 17);
    await using server = await startServer(
      answering((head) => ok(bytes.subarray(0, Number(/\/(\d+)/.exec(head)?.[1])))),
      { certificate },
    );
    await using client = makeClient();
    for (const length of [0, 1, 16_000, 16_383, 16_384, 16_385, 65_536, 200_001, bytes.length]) {
      const { buffer, areGuardsWhole } = guarded(length);
      const response = await client.request(get(server, { path: `/${length}`, into: { buffer } }));
      expect(response.bytesInto).toBe(length);
      expect(Buffer.compare(buffer, bytes.subarray(0, length))).toBe(0);
      expect(areGuardsWhole()).toBe(true);
      const collected = await client.request(get(server, { path: `/${length}` }));
      expect(collected.bytesInto).toBeUndefined();
      expect(Buffer.compare(collected.body, bytes.subarray(0, length))).toBe(0);
    }
    expect(client.connectionsOpened).toBe(1);
  });

  test('a shared buffer is filled as any other', async () => {
    const bytes = pattern(100_000);
    await using server = await startServer(
      answering(() => ok(bytes)),
      { certificate },
    );
    await using client = makeClient();
    const buffer = new Uint8Array(new SharedArrayBuffer(100_000));
    await client.request(get(server, { into: { buffer } }));
    expect(Buffer.compare(buffer, bytes)).toBe(0);
  });

  test.each([
    ['BAD_HEAD', 'HTTP/1.1 200 OK\nContent-Length: 5\n\nhello'],
    ['BAD_HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello'],
    ['BAD_HEAD', 'HTTP/1.1 101 Switching Protocols\r\n\r\nhello'],
    ['BAD_HEAD', `HTTP/1.1 200 OK\r\nX: ${'x'.repeat(70_000)}\r\nContent-Length: 5\r\n\r\nhello`],
    ['BAD_BODY', 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n'],
    ['BAD_BODY', 'HTTP/1.1 200 OK\r\n\r\nhello'],
    ['RANGE_MISMATCH', 'HTTP/1.1 200 OK\r\nETag: "e"\r\nContent-Length: 5\r\n\r\nhello'],
    [
      'ETAG_MISMATCH',
      'HTTP/1.1 206 P\r\nETag: "f"\r\nContent-Range: bytes 10-14/15\r\nContent-Length: 5\r\n\r\nhello',
    ],
    [
      'TOO_LARGE',
      `HTTP/1.1 206 P\r\nContent-Range: bytes 10-39/40\r\nContent-Length: 30\r\n\r\n${'x'.repeat(30)}`,
    ],
  ])('%s: the buffer is unchanged, and the connection is not used again: %j', async (code, answer) => {
    await using server = await startServer(
      async (peer, index) => {
        await peer.head();
        await peer.write(index === 0 ? answer : ok('fine'));
      },
      { certificate },
    );
    await using client = makeClient();
    const { buffer, isUnchanged } = guarded(22);
    const failure = await failureOf(client.request(get(server, { into: { buffer, ...INTO } })));
    expect(failure).toMatchObject({ code, phase: 'head', bytes: 0, isStale: false });
    expect(isUnchanged()).toBe(true);
    expect(await client.request(get(server))).toMatchObject({ status: 200, isReused: false });
    expect(isUnchanged()).toBe(true);
  });

  test('an error of any status is an answer with its body, however that is framed; a redirect is not followed', async () => {
    const answers = [
      'HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone',
      'HTTP/1.1 503 Slow Down\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ngo\r\n2;x\r\nne\r\n0\r\nt: u\r\n\r\n',
      'HTTP/1.1 307 Temporary\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 4\r\n\r\ngone',
      'HTTP/1.1 500 Oops\r\n\r\ngone',
    ];
    await using server = await startServer(
      async (peer) => {
        for (let head = await peer.head(); head !== undefined; head = await peer.head()) {
          const answer = answers[Number(/\/(\d)/.exec(head)?.[1])] ?? '';
          await peer.write(answer);
          if (answer.includes('Oops')) peer.end();
        }
      },
      { certificate },
    );
    await using client = makeClient();
    for (const [index, status] of [404, 503, 307, 500].entries()) {
      const { buffer, isUnchanged } = guarded(22);
      const response = await client.request(get(server, { path: `/${index}`, into: { buffer, ...INTO } }));
      expect(response).toMatchObject({ status, bytesInto: undefined, isReused: index > 0 });
      expect(Buffer.from(response.body).toString()).toBe('gone');
      expect(isUnchanged()).toBe(true);
    }
    expect(client.connectionsOpened).toBe(1);
  });

  test('HEAD, 204 and 304 leave the connection where the next answer starts', async () => {
    await using server = await startServer(
      answering((head) => {
        if (head.startsWith('HEAD')) return 'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n';
        if (head.includes('/204')) return 'HTTP/1.1 204 No Content\r\n\r\n';
        return 'HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\n\r\n';
      }),
      { certificate },
    );
    await using client = makeClient();
    for (let round = 0; round < 3; round++) {
      const head = await client.request(get(server, { method: 'HEAD' }));
      expect(head).toMatchObject({ status: 200, body: new Uint8Array(0) });
      expect(head.headers['content-length']).toBe('1000');
      expect((await client.request(get(server, { path: '/204' }))).status).toBe(204);
      expect((await client.request(get(server, { path: '/304' }))).status).toBe(304);
    }
    expect(client.connectionsOpened).toBe(1);
  });

  test.each([
    ['in the head', 'HTTP/1.1 200 OK\r\nContent-Le', 'head', 0],
    ['in the body', 'HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\nthe body', 'body', 8],
  ] as const)('an early end or a reset %s is CLOSED_EARLY', async (_name, start, phase, bytes) => {
    await using server = await startServer(
      async (peer, index) => {
        await peer.head();
        await peer.writeAlone(start);
        if (index === 0) peer.end();
        else peer.reset();
      },
      { certificate },
    );
    await using client = makeClient();
    for (let attempt = 0; attempt < 2; attempt++) {
      const { buffer, areGuardsWhole } = guarded(22);
      const failure = await failureOf(client.request(get(server, { into: { buffer }, isRepeatable: true })));
      expect(failure).toMatchObject({ code: 'CLOSED_EARLY', phase, bytes, isStale: false });
      expect(areGuardsWhole()).toBe(true);
    }
    expect(client.connectionsOpened).toBe(2);
  });

  test('an early end at every byte of a chunked answer is CLOSED_EARLY', async () => {
    const answer = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n';
    await using server = await startServer(
      async (peer, index) => {
        await peer.head();
        await peer.write(answer.slice(0, index));
        peer.end();
      },
      { certificate },
    );
    await using client = makeClient();
    for (let sent = 0; sent < answer.length; sent++) {
      expect((await failureOf(client.request(get(server)))).code).toBe('CLOSED_EARLY');
    }
    expect(Buffer.from((await client.request(get(server))).body).toString()).toBe('hello');
  });

  test('a destination of which no view can be made, as of one detached, fails the request, not the process', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.writeAlone('HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n');
        for (let piece = 0; piece < 5; piece++) await peer.writeAlone(pattern(10_000));
      },
      { certificate },
    );
    await using client = makeClient();
    let views = 0;
    class Detached extends Uint8Array {
      override subarray(start?: number, end?: number) {
        if (++views > 3) throw new TypeError('detached');
        return super.subarray(start, end);
      }
    }
    const request = client.request(get(server, { into: { buffer: new Detached(100_000) } }));
    expect(await failureOf(request)).toMatchObject({
      code: 'UNEXPECTED',
      phase: 'body',
      message: 'detached',
    });
  });
});

test('a request that cannot be written is BAD_REQUEST and sends nothing', async () => {
  await using server = await startServer(answering(() => ok('')));
  await using client = makeClient();
  for (const changes of [{ path: '/a\r\nb' }, { hostname: 'a b' }, { headers: { connection: 'close' } }]) {
    expect(await failureOf(client.request(get(server, changes)))).toMatchObject({
      code: 'BAD_REQUEST',
      phase: 'queue',
    });
  }
  expect(client.connectionsOpened).toBe(0);
});

test('messages hold neither path nor headers', async () => {
  await using server = await startServer(
    async (peer) => {
      await peer.head();
      peer.reset();
    },
    { certificate },
  );
  await using client = makeClient();
  const headers = { authorization: 'canary-in-header' };
  const failure = await failureOf(
    client.request(get(server, { path: '/?signature=canary-in-path', headers })),
  );
  expect(`${failure.message} ${JSON.stringify(failure)} ${failure.stack}`).not.toContain('canary');
});
