import http from 'node:http';
import { type AddressInfo, connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type CutPoint, type CuttingProxy, startCuttingProxy } from './cutting-proxy.ts';

interface Got {
  readonly method: string;
  readonly path: string;
  readonly body: string;
}

interface Reply {
  readonly status: number;
  readonly body: string;
}

/** Requests that the server behind the proxy received completely, in order. */
let got: Got[];
let server: http.Server;
let proxy: CuttingProxy;
let agent: http.Agent;

const REPLY = 'the answer';

beforeEach(async () => {
  got = [];
  server = http.createServer(async (request, response) => {
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    got.push({ method: request.method ?? '', path: request.url ?? '', body });
    response.end(REPLY);
  });
  proxy = await startCuttingProxy(await listen(server));
  agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
});

afterEach(async () => {
  agent.destroy();
  await proxy.stop();
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

async function listen(listener: http.Server | ReturnType<typeof createServer>): Promise<string> {
  await new Promise<void>((resolve) => {
    listener.listen(0, '127.0.0.1', resolve);
  });
  return `http://127.0.0.1:${(listener.address() as AddressInfo).port}`;
}

/** `chunks` is sent with chunked encoding, one chunk each. */
function send(
  method: string,
  path: string,
  { body, chunks, headers = {} }: { body?: string; chunks?: string[]; headers?: Record<string, string> } = {},
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const request = http.request(`${proxy.endpoint}${path}`, { method, agent, headers });
    request.on('error', reject);
    request.on('response', (response) => {
      text(response).then((answer) => resolve({ status: response.statusCode ?? 0, body: answer }), reject);
    });
    if (headers['expect'] !== undefined) request.on('continue', () => request.end(body));
    else if (chunks === undefined) request.end(body);
    else {
      for (const chunk of chunks) request.write(chunk);
      request.end();
    }
  });
}

/** Sends these bytes on a new connection. Resolves to what comes back until the connection ends. */
function sendRaw(bytes: string, endpoint = proxy.endpoint): Promise<string> {
  const { port } = new URL(endpoint);
  return new Promise((resolve) => {
    const socket = connect(Number(port), '127.0.0.1');
    let reply = '';
    socket.setEncoding('latin1').on('data', (more: string) => {
      reply += more;
    });
    // A reset counts as the end here. The test checks what came before it.
    socket.on('error', () => socket.destroy());
    socket.on('close', () => resolve(reply));
    socket.write(bytes);
  });
}

function rawPut(path: string, body: string, connection = 'close'): string {
  return `PUT ${path} HTTP/1.1\r\nhost: a\r\nconnection: ${connection}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
}

/** Cuts at this point. Returns what the server received and what came back. */
async function cutRaw(request: string, after: CutPoint): Promise<string> {
  got.length = 0;
  const cut = proxy.cut({ when: () => true, after });
  const reply = await sendRaw(request);
  cut.cancel();
  return reply;
}

describe('without a cut', () => {
  test('requests and replies pass, and their bytes are counted', async () => {
    const request = rawPut('/a?b=c', 'words');
    const reply = await sendRaw(request);
    expect(reply).toContain(REPLY);
    expect(got).toEqual([{ method: 'PUT', path: '/a?b=c', body: 'words' }]);
    expect(proxy.exchanges).toMatchObject([
      { method: 'PUT', path: '/a?b=c', requestBytes: request.length, replyBytes: reply.length },
    ]);
    expect(proxy.exchanges[0]?.cut).toBeUndefined();
  });

  test('the path of the endpoint stays', async () => {
    const other = await startCuttingProxy(`${proxy.endpoint}/account`);
    expect(other.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/account$/);
    await other.stop();
  });

  test('it waits for the start of a body where it is asked to, and shows it', async () => {
    const other = await startCuttingProxy(proxy.endpoint, { bodyStartBytes: 8 });
    const put = async (body: string) => {
      const answer = await fetch(`${other.endpoint}/b`, { method: 'PUT', body });
      await answer.arrayBuffer();
    };
    for (const body of ['twelve bytes', 'four', '']) await put(body);
    expect(other.exchanges.map(({ bodyStart }) => bodyStart)).toEqual(['twelve b', 'four', '']);
    await other.stop();
  });

  test('each request of a connection that is kept alive is counted by itself', async () => {
    await send('PUT', '/1', { body: 'x'.repeat(1000) });
    await send('GET', '/2');
    await send('PUT', '/3', { chunks: ['some', 'more'] });
    await send('DELETE', '/4');
    expect(got.map(({ path, body }) => [path, body.length])).toEqual([
      ['/1', 1000],
      ['/2', 0],
      ['/3', 8],
      ['/4', 0],
    ]);
    const [one, two, , four] = proxy.exchanges;
    expect(proxy.exchanges.map(({ path }) => path)).toEqual(['/1', '/2', '/3', '/4']);
    expect(one?.requestBytes).toBeGreaterThan(1000);
    expect(two?.requestBytes).toBeLessThan(200);
    expect(two?.replyBytes).toBe(four?.replyBytes);
  });

  test('bodies larger than every buffer on the way arrive whole', async () => {
    const body = 'x'.repeat(20_000_000);
    expect(await send('PUT', '/a', { body })).toEqual({ status: 200, body: REPLY });
    expect(got[0]?.body === body).toBe(true);
  });

  test('a reply that comes in pieces, after an interim one, is counted without that', async () => {
    const pieces = [
      'HTTP/1',
      '.1 100 Continue\r',
      '\n\r\nHTTP/1.1 2',
      '00 OK\r\ncontent-length: 2\r\n',
      '\r\nab',
    ];
    const final = pieces.join('').split('Continue\r\n\r\n')[1] as string;
    const odd = createServer({ noDelay: true }, (socket) => {
      socket.once('data', async () => {
        for (const piece of pieces) await new Promise((resolve) => socket.write(piece, resolve));
        socket.end();
      });
    });
    await proxy.stop();
    proxy = await startCuttingProxy(await listen(odd));
    expect(await sendRaw(rawPut('/a', 'words'))).toBe(pieces.join(''));
    expect(proxy.exchanges[0]?.replyBytes).toBe(final.length);
    await new Promise((resolve) => odd.close(resolve));
  });

  test('a client that waits for 100 Continue gets it', async () => {
    const headers = { expect: '100-continue', 'content-length': '5' };
    expect(await send('PUT', '/a', { body: 'words', headers })).toEqual({ status: 200, body: REPLY });
  });

  test('a server that is not there is a connection that ends', async () => {
    const unused = createServer();
    const endpoint = await listen(unused);
    await new Promise((resolve) => unused.close(resolve));
    await proxy.stop();
    proxy = await startCuttingProxy(endpoint);
    expect(await sendRaw(rawPut('/a', 'words'))).toBe('');
  });
});

describe('a cut of the request', () => {
  const REQUEST = rawPut('/a', 'words');

  test('at every byte but the last: the server never gets it, the client no reply', async () => {
    for (let bytes = 0; bytes < REQUEST.length; bytes++) {
      expect(await cutRaw(REQUEST, { request: bytes })).not.toContain(REPLY);
      expect(got).toEqual([]);
      expect(proxy.exchanges.at(-1)).toMatchObject({ requestBytes: bytes, replyBytes: 0, cut: 'request' });
    }
  });

  test('the client learns of it when it has sent no more than that', async () => {
    const head = REQUEST.slice(0, -'words'.length);
    expect(await cutRaw(head, { request: head.length })).not.toContain(REPLY);
    expect(proxy.exchanges.at(-1)?.cut).toBe('request');
  });

  test('past its end nothing is cut', async () => {
    const cut = proxy.cut({ when: () => true, after: { request: REQUEST.length + 1 } });
    expect(await sendRaw(REQUEST)).toContain(REPLY);
    expect(cut.exchange).toBeUndefined();
  });

  test('a body in chunks', async () => {
    const request =
      'PUT /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\nwords\r\n0\r\nx: y\r\n\r\n';
    for (let bytes = 0; bytes < request.length; bytes++) {
      expect(await cutRaw(request, { request: bytes })).not.toContain(REPLY);
      expect(got).toEqual([]);
    }
    // Without a cut, the same bytes are a valid request.
    expect(await cutRaw(request, { reply: 0 })).toBe('');
    expect(got).toHaveLength(1);
  });
});

describe('a cut of the reply', () => {
  const REQUEST = rawPut('/a', 'words');

  test('at every byte: the server has got the request, the client has got just these bytes', async () => {
    const { length } = await sendRaw(REQUEST);
    for (let bytes = 0; bytes <= length; bytes++) {
      expect(await cutRaw(REQUEST, { reply: bytes })).toHaveLength(bytes);
      expect(got).toEqual([{ method: 'PUT', path: '/a', body: 'words' }]);
      expect(proxy.exchanges.at(-1)).toMatchObject({
        requestBytes: REQUEST.length,
        replyBytes: bytes,
        cut: 'reply',
      });
    }
  });

  test('past its end nothing is cut', async () => {
    const { length } = await sendRaw(REQUEST);
    expect(await cutRaw(REQUEST, { reply: length + 1 })).toHaveLength(length);
    expect(proxy.exchanges.at(-1)?.cut).toBeUndefined();
  });

  test('waits for the rest of a request that is answered early', async () => {
    const received: string[] = [];
    const hasty = createServer((socket) => {
      socket.setEncoding('latin1').on('data', (more: string) => received.push(more));
      socket.once('data', () => socket.write('HTTP/1.1 403 No\r\ncontent-length: 0\r\n\r\n'));
      socket.on('end', () => socket.end());
    });
    await proxy.stop();
    proxy = await startCuttingProxy(await listen(hasty));
    const cut = proxy.cut({ when: () => true, after: { reply: 8 } });
    const { port } = new URL(proxy.endpoint);
    const socket = connect(Number(port), '127.0.0.1');
    socket.setEncoding('latin1').write(REQUEST.slice(0, -2));
    const first = await new Promise<string>((resolve) =>
      socket.once('data', resolve as (chunk: unknown) => void),
    );
    expect(first).toBe('HTTP/1.1');
    expect(cut.exchange).toBeUndefined();
    socket.write(REQUEST.slice(-2));
    await new Promise((resolve) => socket.once('close', resolve));
    expect(cut.exchange).toMatchObject({ cut: 'reply', replyBytes: 8 });
    await new Promise((resolve) => hasty.close(resolve));
    expect(received.join('')).toBe(REQUEST);
  });
});

describe('which request is cut', () => {
  test('the first that fits after those that are skipped, and no other', async () => {
    const cut = proxy.cut({
      when: ({ method, path }) => method === 'PUT' && path.startsWith('/catalog/'),
      skip: 1,
      after: { reply: 0 },
    });
    await send('PUT', '/catalog/1', { body: 'a' });
    await send('GET', '/catalog/2');
    await send('PUT', '/other/2', { body: 'b' });
    expect(cut.exchange).toBeUndefined();
    await expect(send('PUT', '/catalog/2', { body: 'c' })).rejects.toThrow(/socket hang up|ECONNRESET/);
    expect(cut.exchange).toMatchObject({ path: '/catalog/2', cut: 'reply' });
    expect(await send('PUT', '/catalog/2', { body: 'c' })).toEqual({ status: 200, body: REPLY });
    expect(got.filter(({ path }) => path === '/catalog/2')).toHaveLength(3);
  });

  test('none after it was cancelled', async () => {
    proxy.cut({ when: () => true, after: { request: 0 } }).cancel();
    expect(await send('GET', '/')).toEqual({ status: 200, body: REPLY });
  });

  test('can be told by a header', async () => {
    proxy.cut({ when: ({ headers }) => headers['if-none-match'] === '*', after: { request: 0 } });
    expect((await send('PUT', '/a', { body: 'a' })).status).toBe(200);
    await expect(send('PUT', '/a', { body: 'a', headers: { 'If-None-Match': '*' } })).rejects.toThrow();
  });
});

test.each([
  ['GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n', 'pipelined'],
  ['hello\r\n\r\n', 'not a request of HTTP/1.1: hello'],
])('what the proxy does not understand ends the connection, and the test: %j', async (bytes, message) => {
  const strict = await startCuttingProxy(proxy.endpoint);
  await sendRaw(bytes, strict.endpoint);
  await expect(strict.stop()).rejects.toThrow(message);
});

test('https cannot be looked into', async () => {
  await expect(startCuttingProxy('https://127.0.0.1:1')).rejects.toThrow('only http');
});
