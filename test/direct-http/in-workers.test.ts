/** Requests that transfer workers send and receive, in real threads and memory that they share. */

import { subscribe } from 'node:diagnostics_channel';
import { HttpTransport, Proxies, type TransportRequest } from '@holdfast/cloud-http';
import { setWorkersOf, type TransferWorkers } from '@holdfast/core/contract';
import { openWorkers } from '@holdfast/core/internal/workers/index';
import { SeededRandom } from '@holdfast/testkit';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { ok, certificate as ownCertificate, pattern, TRANSPORTS } from './direct-client.ts';
import { answering, type ScriptedServer, startServer, turnOfLoop } from './scripted-server.ts';

const MIB = 1024 * 1024;
const MARK = 0xa5;
/** For a busy machine. */
const LONG = { timeout: 20_000 };

let workers: TransferWorkers;
let closeWorkers: () => void;
let transport: HttpTransport;
beforeEach(async () => {
  ({ workers, close: closeWorkers } = await openWorkers(2));
  transport = new HttpTransport({
    ca: [ownCertificate.cert],
    proxies: new Proxies({}),
    refusalOf: ({ status }) => new Error(`answered with ${status}`),
  });
});
afterEach(async () => {
  await transport.close();
  closeWorkers();
  expect(ownSocketCount).toBe(0);
});

/** Connections that this thread has opened. */
let ownSocketCount = 0;
subscribe('net.client.socket', () => {
  ownSocketCount += 1;
});

/** Memory that the workers know. */
function shared(sizeBytes: number): Uint8Array {
  const memory = new SharedArrayBuffer(sizeBytes);
  setWorkersOf(memory, workers);
  return new Uint8Array(memory);
}

function requestTo(server: ScriptedServer, more: Partial<TransportRequest> = {}): TransportRequest {
  const { protocol, hostname, port } = server;
  return { protocol, hostname, port, method: 'GET', path: '/', headers: {}, secrets: [], ...more };
}

/** `filled`, or the code of the error. */
async function outcomeOf(sent: Promise<unknown>): Promise<string> {
  return sent.then(
    () => 'filled',
    ({ code }: { code: string }) => code,
  );
}

/** The system may hold bytes that a thread has yet to read. */
async function aWhile(): Promise<void> {
  for (let turn = 0; turn < 300; turn++) await turnOfLoop();
}

function isAll(bytes: Uint8Array, value: number): boolean {
  return bytes.every((byte) => byte === value);
}

describe.each(TRANSPORTS)('in workers, %s', (_, certificate) => {
  test('a flood: each request settles, each aborted buffer stays as it is, each other is filled', async () => {
    const body = pattern(400_000);
    await using server = await startServer(
      answering(() => ok(body)),
      { certificate },
    );
    const random = new SeededRandom(20_240);
    const outcomes = new Set<string>();
    const returned: Uint8Array[] = [];
    const one = async () => {
      const controller = new AbortController();
      const buffer = shared(body.byteLength);
      const sent = outcomeOf(
        transport.send(requestTo(server), { into: { buffer }, signal: controller.signal }),
      );
      const turns = random.uint32() % 200;
      for (let turn = 0; turn < turns; turn++) await turnOfLoop();
      if (turns < 160) controller.abort();
      const outcome = await sent;
      outcomes.add(outcome);
      if (outcome === 'filled') expect(Buffer.compare(buffer, body)).toBe(0);
      returned.push(buffer.fill(MARK));
    };
    for (let flood = 0; flood < 5; flood++) await Promise.all(Array.from({ length: 20 }, one));
    expect([...outcomes].sort()).toEqual(['ABORTED', 'filled']);
    await aWhile();
    expect(returned.filter((buffer) => !isAll(buffer, MARK))).toHaveLength(0);
  });

  test('a body that is being sent is no longer read after an abort', async () => {
    const body = shared(16 * MIB);
    body.set(pattern(body.byteLength));
    const received: Buffer[] = [];
    const arrived = Promise.withResolvers<void>();
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.has(1_000_000);
        peer.socket.pause();
        peer.socket.on('data', (bytes: Buffer) => received.push(bytes));
        arrived.resolve();
      },
      { certificate },
    );
    const controller = new AbortController();
    const request = requestTo(server, { method: 'PUT', body });
    const sent = outcomeOf(transport.send(request, { signal: controller.signal }));
    await arrived.promise;
    controller.abort();
    expect(await sent).toBe('ABORTED');
    body.fill(MARK);
    const [peer] = server.peers;
    peer?.socket.resume();
    await peer?.gone();
    // `pattern` never contains 64 mark bytes in a row.
    expect(Buffer.concat(received).includes(Buffer.alloc(64, MARK))).toBe(false);
  });

  test('close in the middle of everything: nothing is written afterwards', async () => {
    const answer = ok(pattern(2 * MIB));
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.write(answer.subarray(0, answer.byteLength - 1)); // never the end
      },
      { certificate },
    );
    const buffers = Array.from({ length: 12 }, () => shared(2 * MIB));
    const sent = buffers.map((buffer) => outcomeOf(transport.send(requestTo(server), { into: { buffer } })));
    await expect.poll(() => buffers[0]?.[1], LONG).not.toBe(0);
    await transport.close();
    for (const buffer of buffers) buffer.fill(MARK);
    expect(await Promise.all(sent)).toEqual(buffers.map(() => 'CLIENT_CLOSED'));
    await aWhile();
    expect(buffers.every((buffer) => isAll(buffer, MARK))).toBe(true);
  });

  test('threads that end fail what they do, write nothing any more, and are replaced', async () => {
    const body = pattern(2 * MIB);
    let mayEnd = true;
    await using server = await startServer(
      async (peer) => {
        while ((await peer.head()) !== undefined)
          await peer.write(mayEnd ? ok(body) : ok(body).subarray(0, body.byteLength));
      },
      { certificate },
    );
    // A service that has never answered is taken for one that cannot be loaded.
    await transport.send(requestTo(server), { into: { buffer: shared(body.byteLength) } });
    mayEnd = false;
    const buffers = Array.from({ length: 12 }, () => shared(body.byteLength));
    const sent = buffers.map((buffer) => outcomeOf(transport.send(requestTo(server), { into: { buffer } })));
    await expect.poll(() => buffers[0]?.[1], LONG).not.toBe(0);
    mayEnd = true;
    const exit = new URL('data:text/javascript,export const serve = () => process.exit()');
    for (const index of [0, 1]) workers.connect(index, exit);
    expect(await Promise.all(sent)).toEqual(buffers.map(() => 'CLOSED_EARLY'));
    for (const buffer of buffers) buffer.fill(MARK);
    const again = shared(body.byteLength);
    await expect
      .poll(() => outcomeOf(transport.send(requestTo(server), { into: { buffer: again } })), LONG)
      .toBe('filled');
    expect(Buffer.compare(again, body)).toBe(0);
    expect(buffers.every((buffer) => isAll(buffer, MARK))).toBe(true);
  });
});
