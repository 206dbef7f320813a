import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import type { TransferWorkers, WorkerPort } from '@holdfast/core/contract';
import type { DirectRequest } from '@holdfast/direct-http';
import { afterEach, describe, expect, test } from 'vitest';
import { type ServiceOptions, serve } from './http-service.ts';
import { WorkerHttp } from './worker-http.ts';

const MIB = 1024 * 1024;
const OPTIONS: ServiceOptions = { connectionsMax: 8, idleTimeoutMs: 10_000 };
const servers: Server[] = [];
const clients: WorkerHttp[] = [];
afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

type Answer = (request: IncomingMessage, response: ServerResponse) => void;

/** The service runs in this thread, so that its ports can be closed. */
async function setUp(answer: Answer, count = 2) {
  const server = createServer(answer).listen(0, '127.0.0.1');
  servers.push(server);
  await new Promise((resolve) => server.once('listening', resolve));
  const ports: MessagePort[] = [];
  const connect: TransferWorkers['connect'] = (_index, _service, options) => {
    const { port1, port2 } = new MessageChannel();
    serve(port2 as unknown as WorkerPort, options as ServiceOptions);
    ports.push(port2);
    return port1 as unknown as WorkerPort;
  };
  const client = new WorkerHttp({ count, connect }, OPTIONS);
  clients.push(client);
  const request = (more: Partial<DirectRequest> = {}): DirectRequest => ({
    ...{ protocol: 'http:', hostname: '127.0.0.1', port: (server.address() as AddressInfo).port },
    ...{ method: 'GET', path: '/a', headers: {}, ...more },
  });
  return { client, request, ports };
}

const shared = (sizeBytes: number) => new Uint8Array(new SharedArrayBuffer(sizeBytes));

async function received(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

describe('WorkerHttp', () => {
  test('a body is sent from shared memory, and its progress is told', async () => {
    let found: Buffer | undefined;
    const { client, request } = await setUp((incoming, response) => {
      void received(incoming).then((bytes) => {
        found = bytes;
        response.setHeader('ETag', '"e"').end('thanks');
      });
    });
    const body = shared(5 * MIB).fill(3);
    let movedCount = 0;
    const answer = await client.request(request({ method: 'PUT', body, onBytes: () => movedCount++ }));
    expect([answer.status, answer.headers['etag'], Buffer.from(answer.body).toString()]).toEqual([
      200,
      '"e"',
      'thanks',
    ]);
    expect(found?.equals(body)).toBe(true);
    expect(movedCount).toBeGreaterThan(0);
  });

  test('an answer arrives in shared memory, and in no byte beside it', async () => {
    const { client, request } = await setUp((_, response) => response.end(Buffer.alloc(MIB, 9)));
    const memory = shared(MIB + 200);
    const buffer = memory.subarray(100, MIB + 100);
    const answer = await client.request(request({ into: { buffer } }));
    expect([answer.bytesInto, answer.body.byteLength]).toEqual([MIB, 0]);
    expect(buffer.every((byte) => byte === 9)).toBe(true);
    expect(memory.filter((byte) => byte !== 9)).toHaveLength(200);
  });

  test('requests are spread over the workers', async () => {
    const { client, request, ports } = await setUp(
      (_, response) => void setTimeout(() => response.end('a'), 20),
      3,
    );
    await Promise.all(Array.from({ length: 6 }, () => client.request(request())));
    expect(ports).toHaveLength(3);
  });

  test('a signal ends a request once nothing writes to its memory any more', async () => {
    const stop = new AbortController();
    const { client, request } = await setUp((_, response) => {
      response.writeHead(200, { 'content-length': `${MIB}` });
      const more = setInterval(() => response.write(Buffer.alloc(1000, 5)), 1);
      response.on('close', () => clearInterval(more));
      setTimeout(() => stop.abort(new Error('enough')), 30);
    });
    const buffer = shared(MIB);
    const failing = client.request(request({ into: { buffer }, signal: stop.signal }));
    const error = await failing.catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ name: 'DirectHttpError', code: 'ABORTED', cause: { message: 'enough' } });
    const after = buffer.slice();
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(Buffer.from(after).equals(Buffer.from(buffer))).toBe(true);
  });

  test('close stops requests, and waits until nothing writes to their memory', async () => {
    const { client, request } = await setUp((_, response) => {
      response.writeHead(200, { 'content-length': `${MIB}` });
      const more = setInterval(() => response.write(Buffer.alloc(1000, 5)), 1);
      response.on('close', () => clearInterval(more));
    });
    const buffer = shared(MIB);
    const failing = client.request(request({ into: { buffer } })).catch((thrown: unknown) => thrown);
    await expect.poll(() => buffer[0], { timeout: 10_000 }).toBe(5);
    await client.close();
    const after = buffer.slice();
    expect(await failing).toMatchObject({ code: 'CLIENT_CLOSED' });
    await new Promise((resolve) => setTimeout(resolve, 30));
    expect(Buffer.from(after).equals(Buffer.from(buffer))).toBe(true);
  });

  test('close ends connections that are idle', async () => {
    const { client, request } = await setUp((_, response) => {
      // Longer than the test: no timer of either side ends the connection.
      response.setHeader('Keep-Alive', 'timeout=60').end('a');
    }, 1);
    const [server] = servers;
    if (server) server.keepAliveTimeout = 60_000;
    const closed = new Promise((resolve) =>
      server?.once('connection', (socket) => socket.once('close', resolve)),
    );
    await client.request(request());
    await client.close();
    await closed;
  });

  test('errors are those of the direct client, with their cause', async () => {
    const { client, request } = await setUp((incoming) => incoming.socket.destroy());
    await expect(client.request(request())).rejects.toMatchObject({ code: 'CLOSED_EARLY', phase: 'head' });
    await expect(client.request(request({ port: 1 }))).rejects.toMatchObject({
      code: 'CONNECT_FAILED',
      cause: { code: 'ECONNREFUSED' },
    });
    await expect(client.request(request({ headers: { a: 'b\nc' } }))).rejects.toMatchObject({
      code: 'BAD_REQUEST',
    });
  });

  test('an error says that a kept connection was stale, so that the request may be sent again', async () => {
    let count = 0;
    const { client, request } = await setUp((incoming, response) => {
      count += 1;
      if (count === 1) response.end('a');
      else incoming.socket.destroy();
    }, 1);
    await client.request(request());
    await expect(client.request(request())).rejects.toMatchObject({ code: 'CLOSED_EARLY', isStale: true });
  });

  test('a service that cannot be loaded is not usable', async () => {
    const { client, request, ports } = await setUp(() => undefined, 1);
    const failing = client.request(request());
    await expect.poll(() => ports.length, { timeout: 10_000 }).toBe(1);
    ports[0]?.close();
    await expect(failing).rejects.toMatchObject({ code: 'CLOSED_EARLY' });
    expect(client.isUsable).toBe(false);
  });

  test('a thread that ends fails its requests, and the next one goes to a new thread', async () => {
    let isSilent = true;
    const { client, request, ports } = await setUp((_, response) => void (isSilent || response.end('a')), 1);
    isSilent = false;
    await client.request(request());
    isSilent = true;
    const failing = client.request(request());
    await new Promise((resolve) => setTimeout(resolve, 20));
    ports[0]?.close();
    await expect(failing).rejects.toMatchObject({ code: 'CLOSED_EARLY' });
    isSilent = false;
    expect([(await client.request(request())).status, client.isUsable]).toEqual([200, true]);
  });
});
