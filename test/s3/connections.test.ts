/**
 * How requests travel: over kept connections, through proxies, to servers with deviations. Also how
 * they end when they are stopped.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { watchRequests } from '@holdfast/core/contract';
import { openS3Store } from '@holdfast/store-s3';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { startProxy } from '../scripted/proxy.ts';
import {
  allPages,
  errorOf,
  firstPage,
  openUploads,
  type Reply,
  type Script,
  sequence,
} from '../scripted/scripted-server.ts';
import { makeCertificates } from '../servers/certificates.ts';
import { CREATED, KEYS, listing, object, scriptedS3, uploadGoesWell } from './scripted-s3.ts';

const BYTES = new Uint8Array([1, 2, 3]);
const PART_BYTES = 5 * 1024 * 1024;

const answerAll: Script = (request, index) => {
  if (request.query.has('uploads') || request.query.has('uploadId')) return uploadGoesWell(request, index);
  if (request.query.has('list-type')) return listing();
  return request.method === 'PUT' ? CREATED : object('abc');
};

describe('connections', () => {
  test('are kept: one after the other needs one', async () => {
    const server = await scriptedS3(answerAll);
    const store = await server.open();
    for (let index = 0; index < 10; index++) await store.create(`a${index}`, BYTES);
    await firstPage(store);
    expect(server.connections).toBe(1);
  });

  test('an endpoint may have a path, which goes before all others', async () => {
    const server = await scriptedS3(answerAll);
    const store = await server.open({ endpoint: `${server.endpoint}/store/s3/` });
    await store.create('a', BYTES);
    await firstPage(store);
    expect(server.requests.map(({ path, signatureFault }) => [path, signatureFault])).toEqual([
      ['/store/s3/runs/gpt/a', undefined],
      ['/store/s3/runs/', undefined],
    ]);
  });

  test('one that the server has closed meanwhile is not the end of a read', async () => {
    const server = await scriptedS3(sequence(object('abc'), 'reset', object('abc')));
    const store = await server.open();
    await store.get('a', { maxBytes: 10 });
    expect((await store.get('a', { maxBytes: 10 })).sizeBytes).toBe(3);
    expect(server.requests).toHaveLength(3);
  });
});

describe('a server that speaks an odd dialect of HTTP', () => {
  /** More headers than the adapter's client accepts. */
  const MANY_HEADERS = Array.from({ length: 250 }, (_, index) => `X-${index}: y\r\n`).join('');
  const odd = (body: string) => ({
    raw: `HTTP/1.1 200 OK\r\nConnection: close\r\n${MANY_HEADERS}ETag: "e1"\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  });

  test('HTTP/1.0 without kept connections is understood', async () => {
    const server = await scriptedS3(() => ({
      raw: 'HTTP/1.0 200 OK\r\nETag: "e1"\r\nLast-Modified: Sat, 21 Nov 2026 10:00:00 GMT\r\nContent-Length: 3\r\n\r\nabc',
    }));
    const store = await server.open();
    expect((await store.get('a', { maxBytes: 10 })).sizeBytes).toBe(3);
    expect((await store.get('a', { maxBytes: 10 })).sizeBytes).toBe(3);
    expect(server.connections).toBe(2);
  });

  test('what our own client refuses goes through that of Node, and from then on all does', async () => {
    const server = await scriptedS3(() => odd('abc'));
    const store = await server.open();
    expect((await store.get('a', { maxBytes: 10 })).sizeBytes).toBe(3);
    expect(server.requests).toHaveLength(2);
    expect((await store.get('a', { maxBytes: 10 })).sizeBytes).toBe(3);
    expect(server.requests).toHaveLength(3);
  });

  test('a create is not sent twice for it', async () => {
    const server = await scriptedS3(() => odd(''));
    const store = await server.open();
    expect(await errorOf(store.create('a', BYTES))).toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
    expect(server.requests).toHaveLength(1);
    expect((await store.create('a', BYTES)).etag).toBe('e1');
    expect(server.requests).toHaveLength(2);
  });

  test('no HTTP at all is an error that may be repeated, in bounded time', async () => {
    const server = await scriptedS3(() => ({ raw: 'SSH-2.0-OpenSSH_9.6\r\n' }));
    const store = await server.open();
    expect(await errorOf(store.get('a', { maxBytes: 10 }))).toMatchObject({
      code: 'Unavailable',
      status: 'temporary',
    });
  });
});

describe('more requests than connections', () => {
  test('wait, which is told to who watches them, and are sent as connections become free', async () => {
    const LIMIT = 128;
    const replies: ((reply: Reply) => void)[] = [];
    const server = await scriptedS3(() => new Promise<Reply>((resolve) => replies.push(resolve)));
    const store = await server.open();
    const first = Array.from({ length: LIMIT }, (_, index) => store.get(`a${index}`, { maxBytes: 3 }));
    const { signal } = new AbortController();
    const counts = { waiting: 0, sent: 0 };
    watchRequests(signal, {
      changed: (waiting, sent) => {
        counts.waiting += waiting;
        counts.sent += sent;
      },
    });
    await vi.waitFor(() => expect(replies).toHaveLength(LIMIT), { timeout: 20_000 });
    const last = store.get('last', { maxBytes: 3, signal });
    await vi.waitFor(() => expect(counts).toEqual({ waiting: 1, sent: 0 }), { timeout: 20_000 });
    replies[0]?.(object('abc'));
    await first[0];
    await vi.waitFor(() => expect(replies).toHaveLength(LIMIT + 1), { timeout: 20_000 });
    expect(counts).toEqual({ waiting: 0, sent: 1 });
    for (const reply of replies) reply(object('abc'));
    await Promise.all([...first, last]);
    expect(counts).toEqual({ waiting: 0, sent: 0 });
  });
});

describe('a proxy of the environment', () => {
  test('HTTP_PROXY: every request goes through it, signed for the store', async () => {
    const proxy = await startProxy();
    const server = await scriptedS3(answerAll);
    const store = await server.open({}, { HTTP_PROXY: proxy.url });
    await store.create('a b', BYTES);
    await firstPage(store);
    expect((await store.get('a b', { maxBytes: 3 })).sizeBytes).toBe(3);
    expect(proxy.asked).toHaveLength(3);
    expect(proxy.asked[0]).toBe(`PUT ${server.endpoint}/runs/gpt/a%20b`);
    expect(server.requests.map(({ signatureFault }) => signatureFault)).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  test('HTTP_PROXY: ranges end up in the buffer, and only there', async () => {
    const proxy = await startProxy();
    const server = await scriptedS3(() => ({
      status: 206,
      headers: { etag: '"e1"', 'content-range': 'bytes 2-4/5' },
      body: 'cde',
    }));
    const store = await server.open({}, { http_proxy: proxy.url });
    const memory = new Uint8Array(7).fill(0xee);
    expect(await store.readInto('a', 2, memory.subarray(2, 5))).toBe(3);
    expect(Buffer.from(memory).toString('latin1')).toBe('\xee\xeecde\xee\xee');
  });

  test('HTTPS_PROXY: through a tunnel, with the certificates of ca=', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-s3-'));
    onTestFinished(() => rm(directory, { recursive: true, force: true }));
    const { caPath, certificatePath, keyPath } = await makeCertificates(directory);
    const tls = { cert: await readFile(certificatePath), key: await readFile(keyPath) };
    const server = await scriptedS3(answerAll, { tls });
    const proxy = await startProxy();
    const env = { HTTPS_PROXY: proxy.url };
    const store = await server.open({ ca: caPath }, env);
    await store.create('a', BYTES);
    await firstPage(store);
    expect([...new Set(proxy.asked)]).toEqual([`CONNECT 127.0.0.1:${server.port}`]);
    expect(server.requests.map(({ signatureFault }) => signatureFault)).toEqual([undefined, undefined]);
    const distrustful = await server.open({}, env);
    const error = await errorOf(distrustful.create('a', BYTES));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('ca=');
  });

  test('HTTPS_PROXY: what speaks no TLS at the end of the tunnel is told as such', async () => {
    const proxy = await startProxy();
    const { port } = await scriptedS3(answerAll);
    const store = await openS3Store(`s3://runs?endpoint=https://127.0.0.1:${port}&region=us-east-1`, {
      ...KEYS,
      HTTPS_PROXY: proxy.url,
    });
    onTestFinished(() => store.close());
    const error = await errorOf(store.create('a', BYTES));
    expect(error.code).toBe('InvalidConfig');
    expect(error.message).toContain('does not speak TLS there');
    expect(proxy.asked).toEqual([`CONNECT 127.0.0.1:${port}`]);
  });

  test('plain http to another machine: the body is signed, for nothing else protects it', async () => {
    const server = await scriptedS3(answerAll);
    const proxy = await startProxy({ portOfAll: server.port });
    const store = await server.open({ endpoint: 'http://store.example' }, { HTTP_PROXY: proxy.url });
    await store.create('a', BYTES);
    expect(proxy.asked).toEqual(['PUT http://store.example/runs/gpt/a']);
    expect(server.requests[0]?.headers['x-amz-content-sha256']).toMatch(/^[0-9a-f]{64}$/);
    expect(server.requests[0]?.signatureFault).toBeUndefined();
  });

  test.each([
    ['runs', 'false', 'runs.s3.example'],
    ['runs', 'true', 's3.example'],
    ['runs.of.mine', 'false', 's3.example'],
    ['Runs_of_mine', 'false', 's3.example'],
  ])(
    'bucket %s with pathStyle=%s over TLS is reached at %s: a certificate covers one label',
    async (bucket, pathStyle, host) => {
      const proxy = await startProxy();
      const uri = `s3://${bucket}/gpt?endpoint=https://s3.example&region=us-east-1&pathStyle=${pathStyle}`;
      const store = await openS3Store(uri, { ...KEYS, HTTPS_PROXY: proxy.url });
      onTestFinished(() => store.close());
      for (const call of [store.create('a', BYTES), firstPage(store)]) await errorOf(call);
      expect([...new Set(proxy.asked)]).toEqual([`CONNECT ${host}:443`]);
    },
  );

  test.each(['127.0.0.1', '*', 'example.org,127.0.0.1'])('NO_PROXY=%s: past it', async (noProxy) => {
    const proxy = await startProxy();
    const server = await scriptedS3(answerAll);
    const store = await server.open({}, { HTTP_PROXY: proxy.url, NO_PROXY: noProxy });
    await store.create('a', BYTES);
    expect(proxy.asked).toEqual([]);
    expect(server.requests).toHaveLength(1);
  });

  test('one that is down is Unavailable, and a password in its address is not told', async () => {
    const server = await scriptedS3(answerAll);
    const store = await server.open({}, { HTTP_PROXY: 'http://me:canary@127.0.0.1:9' });
    const error = await errorOf(store.create('a', BYTES));
    expect([error.code, error.status]).toEqual(['Unavailable', 'temporary']);
    expect(JSON.stringify([error.message, error.context])).not.toContain('canary');
  });
});

/** Every call that sends a request, on a store whose server never answers it. */
const CALLS = [
  'create',
  'head',
  'get',
  'readInto',
  'list',
  'listUploads',
  'deleteMany',
  'beginUpload',
  'resumeUpload',
  'putPart',
  'listParts',
  'complete',
  'abort',
] as const;

async function underWay(call: (typeof CALLS)[number], signal?: AbortSignal) {
  let isSilent = false;
  let arrived: () => void = () => undefined;
  const arrival = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  const server = await scriptedS3((request, index) => {
    if (!isSilent) return answerAll(request, index);
    arrived();
    return 'silence';
  });
  const store = await server.open();
  const upload = await store.beginUpload('u', { partSizeBytes: PART_BYTES });
  const part = await upload.putPart(0, BYTES, { crc32c: 1 });
  isSilent = true;
  const options = { signal };
  const make: Record<(typeof CALLS)[number], () => Promise<unknown>> = {
    create: () => store.create('a', BYTES, options),
    head: () => store.head('a', options),
    get: () => store.get('a', { maxBytes: 10, ...options }),
    readInto: () => store.readInto('a', 0, new Uint8Array(3), options),
    list: () => allPages(store, options),
    listUploads: () => openUploads(store, '', options),
    deleteMany: () => store.deleteMany(['a'], options),
    beginUpload: () => store.beginUpload('a', { partSizeBytes: PART_BYTES, ...options }),
    resumeUpload: () => store.resumeUpload(upload.token, options),
    putPart: () => upload.putPart(0, BYTES, { crc32c: 1, ...options }),
    listParts: () => upload.listParts(options),
    complete: () => upload.complete([part], { sizeBytes: 3, crc32c: 1, ...options }),
    abort: () => upload.abort(options),
  };
  const failing = errorOf(make[call]());
  await arrival;
  return { store, failing };
}

describe('a signal that fires while there is no answer', () => {
  test.each(CALLS)('%s ends with Aborted', async (call) => {
    const stop = new AbortController();
    const { failing } = await underWay(call, stop.signal);
    stop.abort();
    expect((await failing).code).toBe('Aborted');
  });
});

describe('close', () => {
  test.each(CALLS)('%s under way ends with Aborted', async (call) => {
    const { store, failing } = await underWay(call);
    await store.close();
    expect((await failing).code).toBe('Aborted');
  });

  test('may be called again, and at the same time', async () => {
    const server = await scriptedS3(answerAll);
    const store = await server.open();
    await Promise.all([store.close(), store.close()]);
    await store.close();
    expect((await errorOf(store.create('a', BYTES))).message).toContain('is closed');
    expect(server.requests).toHaveLength(0);
  });

  test('through a proxy, a call under way ends too', async () => {
    const proxy = await startProxy();
    let arrived: () => void = () => undefined;
    const arrival = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const server = await scriptedS3(() => {
      arrived();
      return 'silence';
    });
    const store = await server.open({}, { HTTP_PROXY: proxy.url });
    const failing = errorOf(store.get('a', { maxBytes: 10 }));
    await arrival;
    await store.close();
    expect((await failing).code).toBe('Aborted');
  });
});
