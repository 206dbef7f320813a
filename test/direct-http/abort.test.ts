import { getEventListeners } from 'node:events';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { afterEach, describe, expect, test } from 'vitest';
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
import { answering, type ScriptedServer, startServer, turnOfLoop } from './scripted-server.ts';

const MARK = 0xa5;

/** Memory that its owner has back. Any later write to it is damage. */
const returned: Uint8Array[] = [];

function giveBack(buffer: Uint8Array): void {
  returned.push(buffer.fill(MARK));
}

async function countDamaged(buffers: readonly Uint8Array[]): Promise<number> {
  for (let turn = 0; turn < 50; turn++) await turnOfLoop();
  return buffers.filter((buffer) => buffer.some((byte) => byte !== MARK)).length;
}

afterEach(async () => {
  expect(await countDamaged(returned.splice(0))).toBe(0);
});

/**
 * Memory that calls `hook` whenever the client takes a view of it, which happens within Node's read
 * callback.
 */
function watched(bytes: number, hook: () => void): Uint8Array {
  class Watched extends Uint8Array {
    override subarray(start?: number, end?: number): Uint8Array<ArrayBuffer> {
      hook();
      return super.subarray(start, end);
    }
  }
  return new Watched(bytes);
}

const BODY_BYTES = 256 * 1024;

const LARGE = ok(pattern(BODY_BYTES));

/** Each answer is one write of many TLS records, so that Node finds several records in one read. */
const manyRecords = answering(() => LARGE);

describe.each(TRANSPORTS)('abort, %s', (_, certificate) => {
  test('before the request: nothing is opened', async () => {
    await using server = await startServer(manyRecords, { certificate });
    await using client = makeClient();
    const signal = AbortSignal.abort('why');
    const failure = await failureOf(client.request(get(server, { signal })));
    expect(failure).toMatchObject({ code: 'ABORTED', phase: 'queue', cause: 'why' });
    expect(client.connectionsOpened).toBe(0);
  });

  test('in the queue: at once, and the others keep their places', async () => {
    const { promise: mayAnswer, resolve: answer } = Promise.withResolvers<void>();
    const paths: string[] = [];
    await using server = await startServer(
      async (peer) => {
        for (let head = await peer.head(); head !== undefined; head = await peer.head()) {
          paths.push(/\/(\w+)/.exec(head)?.[1] ?? '');
          await mayAnswer;
          await peer.write(ok(''));
        }
      },
      { certificate },
    );
    await using client = makeClient({ connectionsMax: 1 });
    const controller = new AbortController();
    const first = client.request(get(server, { path: '/first' }));
    const second = failureOf(client.request(get(server, { path: '/second', signal: controller.signal })));
    const third = client.request(get(server, { path: '/third' }));
    controller.abort();
    expect(await second).toMatchObject({ code: 'ABORTED', phase: 'queue' });
    answer();
    await Promise.all([first, third]);
    expect(paths).toEqual(['first', 'third']);
    expect(client.connectionsOpened).toBe(1);
  });

  test('while the name is looked up', async () => {
    await using server = await startServer(manyRecords, { certificate });
    await using client = makeClient({ lookup: () => undefined });
    const controller = new AbortController();
    const changes = { hostname: 'localhost', signal: controller.signal };
    const failure = failureOf(client.request(get(server, changes)));
    await turnOfLoop();
    controller.abort();
    expect(await failure).toMatchObject({ code: 'ABORTED', phase: 'connect' });
  });

  test('while the TLS handshake waits', async () => {
    await using server = await startServer((peer) => peer.gone());
    await using client = makeClient();
    const controller = new AbortController();
    const request = get({ ...server, protocol: 'https:' }, { signal: controller.signal });
    const failure = failureOf(client.request(request));
    while (!(await server.peers[0]?.has(1))) await turnOfLoop();
    controller.abort();
    expect(await failure).toMatchObject({ code: 'ABORTED', phase: 'connect' });
    await server.peers[0]?.gone();
  });

  test('at every byte of the answer: what comes later goes nowhere, and the next request is served', async () => {
    const answer = ok('the body of the answer', 'ETag: "e"\r\n');
    const bodyStart = answer.indexOf('the body');
    let cut = 0;
    let sent = Promise.withResolvers<void>();
    let aborted = Promise.withResolvers<void>();
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.writeAlone(answer.subarray(0, cut));
        sent.resolve();
        await aborted.promise;
        await peer.write(answer.subarray(cut));
        await peer.gone();
      },
      { certificate },
    );
    await using client = makeClient();
    for (cut = 0; cut < answer.length; cut++) {
      sent = Promise.withResolvers();
      aborted = Promise.withResolvers();
      const controller = new AbortController();
      const { buffer, areGuardsWhole } = guarded(22);
      const failure = failureOf(client.request(get(server, { into: { buffer }, signal: controller.signal })));
      await sent.promise;
      controller.abort();
      aborted.resolve();
      const { code, phase, bytes } = await failure;
      giveBack(buffer);
      expect(code).toBe('ABORTED');
      expect(phase).toBe(cut < bodyStart ? 'head' : 'body');
      expect(bytes).toBe(Math.max(0, cut - bodyStart));
      expect(areGuardsWhole()).toBe(true);
    }
    expect(client.connectionsOpened).toBe(answer.length);
  });

  test('within the read callback, at each of the first 12 reads', async () => {
    await using server = await startServer(manyRecords, { certificate });
    await using client = makeClient();
    for (let round = 0; round < 60; round++) {
      const controller = new AbortController();
      let views = 0;
      const buffer = watched(BODY_BYTES, () => {
        if (++views === 1 + (round % 12)) controller.abort();
      });
      await settle(client.request(get(server, { into: { buffer }, signal: controller.signal })));
      giveBack(buffer);
    }
  });

  test('within the callback that takes the whole answer', async () => {
    await using server = await startServer(
      answering(() => ok('hello')),
      { certificate },
    );
    await using client = makeClient();
    for (let round = 0; round < 10; round++) {
      const controller = new AbortController();
      const buffer = watched(5, () => controller.abort());
      expect(await settle(client.request(get(server, { into: { buffer }, signal: controller.signal })))).toBe(
        'ABORTED',
      );
      giveBack(buffer);
    }
    expect(await client.request(get(server))).toMatchObject({ status: 200 });
  });

  test('in the tick after a read: a buffer given back is never written again', async () => {
    await using server = await startServer(manyRecords, { certificate });
    await using client = makeClient();
    let abortedCount = 0;
    for (let round = 0; round < 60; round++) {
      const controller = new AbortController();
      let views = 0;
      const buffer = watched(BODY_BYTES, () => {
        if (++views === 2 + (round % 12)) process.nextTick(() => controller.abort());
      });
      const outcome = await settle(
        client.request(get(server, { into: { buffer }, signal: controller.signal })),
      );
      giveBack(buffer);
      if (outcome === 'ABORTED') abortedCount++;
    }
    // Plain sockets read the body in a few large pieces, so most rounds end before the abort.
    expect(abortedCount).toBeGreaterThan(certificate ? 30 : 4);
  });

  test('a flood: each request settles, each aborted buffer stays as it is, each other is filled', async () => {
    const body = pattern(100_000);
    await using server = await startServer(
      answering(() => ok(body)),
      { certificate },
    );
    await using client = makeClient({ connectionsMax: 8 });
    // A linear congruential generator (Numerical Recipes), so that every run has the same floods.
    let state = 20_240;
    const random = (below: number) => {
      state = (state * 1_664_525 + 1_013_904_223) >>> 0;
      return state % below;
    };
    const codes = new Map<string, number>();
    const one = async () => {
      const controller = new AbortController();
      const buffer = new Uint8Array(body.byteLength);
      const outcome = settle(client.request(get(server, { into: { buffer }, signal: controller.signal })));
      for (let turn = random(60); turn > 0; turn--) await turnOfLoop();
      controller.abort();
      const code = await outcome;
      codes.set(code, (codes.get(code) ?? 0) + 1);
      if (code === 'filled') expect(Buffer.compare(buffer, body)).toBe(0);
      giveBack(buffer);
    };
    for (let flood = 0; flood < 10; flood++) await Promise.all(Array.from({ length: 40 }, one));
    expect([...codes.keys()].sort()).toEqual(['ABORTED', 'filled']);
    expect(await client.request(get(server))).toMatchObject({ status: 200 });
  });

  test('what stopped a request first is what it is told', async () => {
    await using server = await startServer((peer) => peer.gone(), { certificate });
    const client = makeClient();
    const controller = new AbortController();
    const failure = failureOf(client.request(get(server, { signal: controller.signal })));
    await turnOfLoop();
    controller.abort('first');
    await client.close();
    expect(await failure).toMatchObject({ code: 'ABORTED', cause: 'first' });
  });

  test('after the end: the connection is kept, and the signal forgotten', async () => {
    await using server = await startServer(
      answering(() => ok('')),
      { certificate },
    );
    await using client = makeClient();
    const controller = new AbortController();
    await client.request(get(server, { signal: controller.signal }));
    await failureOf(
      client.request(
        get(server, { signal: controller.signal, into: { buffer: new Uint8Array(0), etag: 'x' } }),
      ),
    );
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    await client.request(get(server));
    const next = client.request(get(server));
    controller.abort();
    expect(await next).toMatchObject({ status: 200, isReused: true });
  });

  test('while a body is sent: it is not read afterwards', async () => {
    const body = pattern(16 * 1024 * 1024);
    const received: Buffer[] = [];
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.has(1_000_000);
        peer.socket.pause();
        peer.socket.on('data', (bytes: Buffer) => received.push(bytes));
      },
      { certificate },
    );
    await using client = makeClient();
    const controller = new AbortController();
    const changes = { method: 'PUT', body, signal: controller.signal };
    const failure = failureOf(client.request(get(server, changes)));
    while (!server.peers[0]?.socket.isPaused()) await turnOfLoop();
    controller.abort();
    expect(await failure).toMatchObject({ code: 'ABORTED', phase: 'head' });
    body.fill(MARK);
    const [peer] = server.peers;
    peer?.socket.resume();
    await peer?.gone();
    // `pattern` never contains 64 mark bytes in a row.
    expect(Buffer.concat(received).includes(Buffer.alloc(64, MARK))).toBe(false);
  });
});

/** The error code, or what happened to the body. */
async function settle(promise: ReturnType<ReturnType<typeof makeClient>['request']>): Promise<string> {
  return promise.then(
    ({ bytesInto }) => (bytesInto === undefined ? 'collected' : 'filled'),
    ({ code }) => code,
  );
}

/**
 * A counterexample: this client gives its buffer back at destroy(), in the tick after a read.
 * Resolves after 'close'.
 */
function giveBackAtDestroy(server: ScriptedServer, readsMax: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(BODY_BYTES * 2);
  const scratch = new Uint8Array(16 * 1024);
  let filledBytes = 0;
  let reads = 0;
  let isOver = false;
  const onread = {
    buffer: () => (isOver ? scratch : buffer.subarray(filledBytes)),
    callback: (bytes: number) => {
      filledBytes += isOver ? 0 : bytes;
      if (++reads !== readsMax) return true;
      process.nextTick(() => {
        isOver = true;
        socket.destroy();
        buffer.fill(MARK);
      });
      return true;
    },
  };
  const options: ConnectionOptions & { onread: typeof onread } = {
    host: server.hostname,
    port: server.port,
    ca: certificate.cert,
    onread,
  };
  const socket = connectTls(options, () => socket.write('GET / HTTP/1.1\r\n\r\n'));
  return new Promise((resolve) => socket.once('close', () => resolve(buffer)));
}

test('the control: settled at destroy() instead of close, the same abort damages buffers over TLS', async () => {
  await using server = await startServer(manyRecords, { certificate });
  const buffers: Uint8Array[] = [];
  for (let round = 0; round < 60; round++) buffers.push(await giveBackAtDestroy(server, 1 + (round % 12)));
  expect(await countDamaged(buffers)).toBeGreaterThan(5);
});
