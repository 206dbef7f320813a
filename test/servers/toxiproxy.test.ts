import { Buffer } from 'node:buffer';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { describeOnToxiproxy } from './describe-on-toxiproxy.ts';
import { type ToxicProxy, throughProxy } from './toxiproxy.ts';

const BODY_BYTES = 100_000;

/** Returns what it received, or `BODY_BYTES` if it received an empty body. */
let server: http.Server;
let endpoint: string;
let requestCount = 0;
beforeAll(async () => {
  server = http.createServer((request, response) => {
    requestCount++;
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () =>
      response.end(chunks.length > 0 ? Buffer.concat(chunks) : Buffer.alloc(BODY_BYTES)),
    );
    request.on('error', () => response.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

interface Answer {
  readonly bytes: number;
  readonly ms: number;
}

/**
 * Asks on a new connection. Rejects with the error of the connection, or with `cut` if it ends in
 * the middle of the answer.
 */
function ask(at: string, body?: Buffer): Promise<Answer> {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    const request = http.request(at, { agent: false, method: 'POST' }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      response.on('error', () => reject(new Error(`cut after ${bytes} bytes`)));
      response.on('end', () => resolve({ bytes, ms: performance.now() - began }));
    });
    request.on('error', reject);
    request.end(body);
  });
}

describeOnToxiproxy('s3', 'toxiproxy', (toxiproxy) => {
  let proxy: ToxicProxy;
  beforeEach(async () => {
    proxy = await toxiproxy().proxy(endpoint);
    requestCount = 0;
  });
  afterEach(() => proxy.remove());

  test('without toxics it passes everything on, at a port of its own', async () => {
    expect(proxy.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(proxy.endpoint).not.toBe(endpoint);
    expect(await ask(proxy.endpoint)).toMatchObject({ bytes: BODY_BYTES });
    expect(await ask(proxy.endpoint, Buffer.from('four'))).toMatchObject({ bytes: 4 });
  });

  test('the path of the endpoint stays', async () => {
    const other = await toxiproxy().proxy(`${endpoint}/account`);
    expect(other.endpoint).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/account$/);
    const place = { uri: `az://account/container/run?endpoint=${endpoint}/account&tier=Hot`, env: {} };
    const proxied = throughProxy({ ...place, bucket: 'container', endpoint: `${endpoint}/account` }, other);
    expect(proxied.uri).toBe(
      `az://account/container/run?endpoint=${encodeURIComponent(other.endpoint)}&tier=Hot`,
    );
    expect(proxied.endpoint).toBe(other.endpoint);
    await other.remove();
    await expect(ask(other.endpoint)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });

  test('latency: the answer comes so much later, until it is taken away', async () => {
    const remove = await proxy.add({ type: 'latency', stream: 'downstream', latencyMs: 1000, jitterMs: 10 });
    expect((await ask(proxy.endpoint)).ms).toBeGreaterThan(900);
    await remove();
    await remove();
    expect((await ask(proxy.endpoint)).ms).toBeLessThan(900);
  });

  test('bandwidth: so many bytes need so long', async () => {
    await proxy.add({ type: 'bandwidth', stream: 'downstream', kilobytesPerSecond: 400 });
    const { bytes, ms } = await ask(proxy.endpoint);
    expect(bytes).toBe(BODY_BYTES);
    expect(ms).toBeGreaterThan(150);
  });

  test('limit_data: the server has done its work, and the answer ends after so many bytes', async () => {
    await proxy.add({ type: 'limit_data', stream: 'downstream', bytes: 1000 });
    await expect(ask(proxy.endpoint)).rejects.toThrow(/^cut after \d{3} bytes$/);
    expect(requestCount).toBe(1);
  });

  test('reset_peer: the connection is reset', async () => {
    await proxy.add({ type: 'reset_peer', stream: 'downstream', timeoutMs: 0 });
    await expect(ask(proxy.endpoint)).rejects.toMatchObject({ code: 'ECONNRESET' });
  });

  test('timeout: nothing of the request arrives, and the connection ends', async () => {
    await proxy.add({ type: 'timeout', stream: 'upstream', timeoutMs: 100 });
    await expect(ask(proxy.endpoint)).rejects.toMatchObject({ code: 'ECONNRESET' });
    expect(requestCount).toBe(0);
  });

  test('slow_close: the answer is whole', async () => {
    await proxy.add({ type: 'slow_close', stream: 'downstream', delayMs: 200 });
    expect(await ask(proxy.endpoint)).toMatchObject({ bytes: BODY_BYTES });
  });

  test('toxicity 0 is no toxic; heal takes all of them away', async () => {
    await proxy.add({ type: 'reset_peer', stream: 'downstream', timeoutMs: 0, toxicity: 0 });
    expect(await ask(proxy.endpoint)).toMatchObject({ bytes: BODY_BYTES });
    await proxy.add({ type: 'reset_peer', stream: 'downstream', timeoutMs: 0 });
    await expect(ask(proxy.endpoint)).rejects.toThrow();
    await proxy.heal();
    expect(await ask(proxy.endpoint)).toMatchObject({ bytes: BODY_BYTES });
  });

  test('what it does not take is an error with its words', async () => {
    const wrong = { type: 'bandwith', stream: 'downstream', kilobytesPerSecond: 1 } as never;
    await expect(proxy.add(wrong)).rejects.toThrow(
      /POST \/proxies\/.*\/toxics was answered with 400: .*toxic/,
    );
  });
});
