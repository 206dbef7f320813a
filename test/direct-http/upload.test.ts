import { connect } from 'node:net';
import { describe, expect, test } from 'vitest';
import { failureOf, get, guarded, makeClient, ok, pattern, TRANSPORTS } from './direct-client.ts';
import { answering, type Peer, startServer, turnOfLoop } from './scripted-server.ts';

const REFUSAL = 'HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\ndenied';

describe.each(TRANSPORTS)('upload, %s', (_, certificate) => {
  test('bodies of every size around a slice arrive whole, all on one connection', async () => {
    const bytes = pattern(3 * 1024 * 1024 + 5);
    const sizes = [0, 1, 16_384, 524_287, 524_288, 524_289, 1_048_576, bytes.byteLength];
    await using server = await startServer(
      async (peer) => {
        for (const size of sizes) {
          expect(await peer.head()).toContain(`\r\nContent-Length: ${size}\r\n`);
          expect(Buffer.compare(await peer.body(size), bytes.subarray(0, size))).toBe(0);
          await peer.write(ok(''));
        }
      },
      { certificate },
    );
    await using client = makeClient();
    for (const size of sizes) {
      const response = await client.request(get(server, { method: 'PUT', body: bytes.subarray(0, size) }));
      expect(response.status).toBe(200);
    }
    expect(client.connectionsOpened).toBe(1);
    expect(server.failures).toEqual([]);
  });

  test('200 answers that come as soon as the last byte is there leave the connection in use', async () => {
    await using server = await startServer(
      answering(() => ok('')),
      { certificate },
    );
    await using client = makeClient();
    const body = pattern(700_000);
    for (let round = 0; round < 200; round++) await client.request(get(server, { method: 'PUT', body }));
    expect(client.connectionsOpened).toBe(1);
  });

  test('onBytes is called for each piece that was sent, and when an answer comes', async () => {
    const body = pattern(3 * 512 * 1024);
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.body(body.byteLength);
        calls.push('answer');
        await peer.write(ok(''));
      },
      { certificate },
    );
    const calls: string[] = [];
    await using client = makeClient();
    await client.request(get(server, { method: 'PUT', body, onBytes: () => calls.push('bytes') }));
    expect(calls.filter((call) => call === 'bytes').length).toBeGreaterThanOrEqual(3);
    expect(calls.lastIndexOf('bytes')).toBeGreaterThan(calls.indexOf('answer'));
  });

  test('100 Continue, asked for or not, is no answer', async () => {
    const body = pattern(100_000);
    await using server = await startServer(
      async (peer) => {
        const head = await peer.head();
        expect(head).toContain('\r\nexpect: 100-continue\r\n');
        await peer.write('HTTP/1.1 100 Continue\r\n\r\n');
        expect(Buffer.compare(await peer.body(body.byteLength), body)).toBe(0);
        await peer.write(ok('done'));
      },
      { certificate },
    );
    await using client = makeClient();
    const headers = { expect: '100-continue' };
    expect(await client.request(get(server, { method: 'PUT', body, headers }))).toMatchObject({
      status: 200,
    });
    expect(server.failures).toEqual([]);
  });

  test('an answer before the body was taken is the answer; the connection ends, and the body is no longer read', async () => {
    const body = pattern(32 * 1024 * 1024);
    const original = body.slice();
    const received: Buffer[] = [];
    await using server = await startServer(
      async (peer, index) => {
        if (index > 0) return answering(() => ok('fine'))(peer);
        await peer.head();
        await peer.has(100_000);
        peer.socket.pause();
        await peer.write(REFUSAL);
      },
      { certificate },
    );
    await using client = makeClient();
    const response = await client.request(get(server, { method: 'PUT', body, isRepeatable: true }));
    expect(response).toMatchObject({ status: 403, bytesInto: undefined, isReused: false });
    expect(Buffer.from(response.body).toString()).toBe('denied');
    body.fill(0xa5);
    const [peer] = server.peers;
    peer?.socket.on('data', (bytes: Buffer) => received.push(bytes));
    peer?.socket.resume();
    await peer?.gone();
    expect(Buffer.concat(received).includes(Buffer.alloc(64, 0xa5))).toBe(false);
    expect(original.includes(0xa5)).toBe(true);
    expect(await client.request(get(server))).toMatchObject({ status: 200, isReused: false });
  });

  test('an early answer of a server that closes at once is not lost over the body that cannot be sent', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.has(100_000);
        await peer.write(REFUSAL);
        peer.socket.destroy();
      },
      { certificate },
    );
    await using client = makeClient();
    const body = new Uint8Array(16 * 1024 * 1024);
    for (let round = 0; round < 30; round++) {
      const response = await client.request(get(server, { method: 'PUT', body }));
      expect(response).toMatchObject({ status: 403, isReused: false });
    }
  });

  test('a body in shared memory is sent as any other', async () => {
    const bytes = pattern(700_000);
    const body = new Uint8Array(new SharedArrayBuffer(bytes.byteLength));
    body.set(bytes);
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        expect(Buffer.compare(await peer.body(bytes.byteLength), bytes)).toBe(0);
        await peer.write(ok(''));
      },
      { certificate },
    );
    await using client = makeClient();
    expect(await client.request(get(server, { method: 'PUT', body }))).toMatchObject({ status: 200 });
    expect(server.failures).toEqual([]);
  });

  test('an early answer goes into the buffer, too, and no other bytes do', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        peer.socket.pause();
        await peer.write(ok('hello'));
        await peer.write('more');
      },
      { certificate },
    );
    await using client = makeClient();
    const { buffer, areGuardsWhole } = guarded(5);
    const body = new Uint8Array(32 * 1024 * 1024);
    const response = await client.request(get(server, { method: 'POST', body, into: { buffer } }));
    expect(response).toMatchObject({ status: 200, bytesInto: 5 });
    expect(Buffer.from(buffer).toString()).toBe('hello');
    expect(areGuardsWhole()).toBe(true);
  });

  test.each([
    ['ends', (peer: Peer) => peer.end()],
    ['resets', (peer: Peer) => peer.reset()],
  ])('a server that %s within the body is CLOSED_EARLY', async (_name, close) => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.has(100_000);
        close(peer);
      },
      { certificate },
    );
    await using client = makeClient();
    const body = pattern(16 * 1024 * 1024);
    const failure = await failureOf(client.request(get(server, { method: 'PUT', body })));
    expect(failure).toMatchObject({ code: 'CLOSED_EARLY', phase: 'head', isStale: false });
  });
});

test('the control: a body that is given back while its socket is open is read from', async () => {
  await using server = await startServer(async (peer) => {
    await peer.head();
    peer.socket.pause();
  });
  const body = pattern(32 * 1024 * 1024);
  const socket = connect(server.port, server.hostname);
  socket.write('PUT / HTTP/1.1\r\n\r\n');
  socket.write(body);
  while (!server.peers[0]?.socket.isPaused()) await turnOfLoop();
  body.fill(0xa5);
  const received: Buffer[] = [];
  const [peer] = server.peers;
  peer?.socket.on('data', (bytes: Buffer) => received.push(bytes));
  peer?.socket.resume();
  await peer?.has(body.byteLength);
  expect(Buffer.concat(received).includes(Buffer.alloc(64, 0xa5))).toBe(true);
  socket.destroy();
});
