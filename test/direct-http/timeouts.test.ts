import type { DirectHttpError } from '@holdfast/direct-http';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { failureOf, get, guarded, makeClient, ok, TRANSPORTS } from './direct-client.ts';
import { fireLate, fireUntilTimeout, moveTimers, pass } from './moved-timers.ts';
import { startServer } from './scripted-server.ts';

const IDLE_TIMEOUT_MS = 1000;

beforeEach(moveTimers);

describe.each(TRANSPORTS)('timeouts, %s', (_, certificate) => {
  test.each([
    ['before the head', '', 'head', 0],
    ['in the head', 'HTTP/1.1 200 OK\r\n', 'head', 0],
    ['in the body', 'HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\nthe body', 'body', 8],
    ['in a chunk', 'HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel', 'body', 3],
  ] as const)('a stall %s is TIMED_OUT', async (_name, sent, phase, bytes) => {
    const stalls = Promise.withResolvers<void>();
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        if (sent === '') stalls.resolve();
        await peer.write(sent);
      },
      { certificate },
    );
    await using client = makeClient({ idleTimeoutMs: IDLE_TIMEOUT_MS });
    const { buffer, areGuardsWhole } = guarded(22);
    const onFailure = vi.fn<(failure: DirectHttpError) => void>();
    const request = get(server, { into: { buffer }, isRepeatable: true, onBytes: stalls.resolve });
    const failing = failureOf(client.request(request)).then(onFailure);
    await stalls.promise;
    await pass(IDLE_TIMEOUT_MS - 1);
    expect(onFailure).not.toHaveBeenCalled();
    await pass(IDLE_TIMEOUT_MS);
    await failing;
    expect(onFailure.mock.lastCall?.[0]).toMatchObject({ code: 'TIMED_OUT', phase, bytes, isStale: false });
    expect(areGuardsWhole()).toBe(true);
    expect(client.connectionsOpened).toBe(1);
  });

  test('the time of the request goes before the one of the client, also on a used connection', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.write(ok(''));
        await peer.head();
        await pass(30);
      },
      { certificate },
    );
    await using client = makeClient();
    await client.request(get(server));
    const failure = await failureOf(client.request(get(server, { idleTimeoutMs: 30 })));
    expect(failure).toMatchObject({ code: 'TIMED_OUT', phase: 'head' });
  });

  test('slow but alive is not a stall, however long it takes', async () => {
    let arrived = Promise.withResolvers<void>();
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        for (const byte of ok('0123456789').toString('latin1')) {
          arrived = Promise.withResolvers<void>();
          await peer.write(byte);
          await arrived.promise;
          await pass(IDLE_TIMEOUT_MS - 1);
        }
      },
      { certificate },
    );
    await using client = makeClient({ idleTimeoutMs: IDLE_TIMEOUT_MS });
    const { buffer } = guarded(10);
    const startedAt = performance.now();
    await client.request(get(server, { into: { buffer }, onBytes: () => arrived.resolve() }));
    expect(Buffer.from(buffer).toString()).toBe('0123456789');
    expect(performance.now() - startedAt).toBeGreaterThan(20 * IDLE_TIMEOUT_MS);
  });

  test('a server that takes a body slowly is not a stall, however long it takes', async () => {
    // More than the system buffers at both ends, so that the client notices each pause.
    const body = new Uint8Array(48 * 1024 * 1024);
    const sliceBytes = 2 * 1024 * 1024;
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        for (let slice = 1; slice <= 12; slice++) {
          peer.socket.pause();
          await pass(IDLE_TIMEOUT_MS / 4);
          peer.socket.resume();
          await peer.has(slice * sliceBytes);
        }
        await peer.has(body.byteLength);
        await peer.write(ok('done'));
      },
      { certificate },
    );
    await using client = makeClient({ idleTimeoutMs: IDLE_TIMEOUT_MS });
    const startedAt = performance.now();
    expect(await client.request(get(server, { method: 'PUT', body }))).toMatchObject({ status: 200 });
    expect(performance.now() - startedAt).toBeGreaterThan(2 * IDLE_TIMEOUT_MS);
  });

  test('a server that takes no more of a body is TIMED_OUT', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        peer.socket.pause();
        // The system still takes some of it, and each slice starts the time again.
        for (let count = 0; count < 100 && !peer.socket.destroyed; count++) await pass(IDLE_TIMEOUT_MS);
      },
      { certificate },
    );
    await using client = makeClient({ idleTimeoutMs: IDLE_TIMEOUT_MS });
    const body = new Uint8Array(32 * 1024 * 1024);
    const failure = await failureOf(client.request(get(server, { method: 'PUT', body })));
    expect(failure).toMatchObject({ code: 'TIMED_OUT', phase: 'head' });
  });

  test('a process that was busy for longer than the timeout reads what has come meanwhile', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.writeAlone('HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\n');
        // The system buffers these bytes now. The client reads them when its event loop is free
        // again.
        peer.socket.write('the body');
        fireLate();
        await pass(1);
        await peer.write(' of the answer');
      },
      { certificate },
    );
    for (let round = 0; round < 5; round++) {
      await using client = makeClient({ idleTimeoutMs: IDLE_TIMEOUT_MS });
      const { buffer } = guarded(22);
      expect(await client.request(get(server, { into: { buffer } }))).toMatchObject({ bytesInto: 22 });
      expect(Buffer.from(buffer).toString()).toBe('the body of the answer');
    }
  });

  test('a process that was busy for longer than the timeout goes on sending', async () => {
    const body = new Uint8Array(32 * 1024 * 1024);
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.has(1_000_000);
        peer.socket.pause();
        await pass(1);
        fireUntilTimeout();
        // By now the server has not yet read what it is about to read.
        await pass(1);
        peer.socket.resume();
        await peer.has(body.byteLength);
        await peer.write(ok(''));
      },
      { certificate },
    );
    await using client = makeClient({ idleTimeoutMs: IDLE_TIMEOUT_MS });
    expect(await client.request(get(server, { method: 'PUT', body }))).toMatchObject({ status: 200 });
  });

  test('a process that was busy while it connected is connected', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.write(ok(''));
      },
      { certificate },
    );
    await using client = makeClient({ connectTimeoutMs: 500 });
    const request = client.request(get(server));
    // A TLS handshake needs several turns of the event loop, so there its time must not be over.
    if (certificate) await vi.advanceTimersByTimeAsync(499);
    else fireLate();
    expect(await request).toMatchObject({ status: 200 });
  });
});
