import { describe, expect, test } from 'vitest';
import { failureOf, get, guarded, makeClient, ok, pattern, TRANSPORTS } from './direct-client.ts';
import { answering, type Peer, startServer, turnOfLoop } from './scripted-server.ts';

/** Answers one request, then applies `then` to the connection. */
function answerThen(then: (peer: Peer) => unknown, answer: string | Uint8Array = ok('first')) {
  return async (peer: Peer): Promise<void> => {
    await peer.head();
    await peer.write(answer);
    await then(peer);
  };
}

describe.each(TRANSPORTS)('connections, %s', (_, certificate) => {
  test('requests one after the other share one', async () => {
    await using server = await startServer(
      answering((_head, index) => ok(String(index))),
      { certificate },
    );
    await using client = makeClient();
    for (let index = 0; index < 20; index++) {
      const response = await client.request(get(server));
      expect(response).toMatchObject({ isReused: index > 0 });
      expect(Buffer.from(response.body).toString()).toBe(String(index));
    }
    expect(client.connectionsOpened).toBe(1);
  });

  test('at most connectionsMax are open; the rest wait in order', async () => {
    const order: string[] = [];
    let open = 0;
    let openMax = 0;
    await using server = await startServer(
      async (peer) => {
        for (let head = await peer.head(); head !== undefined; head = await peer.head()) {
          openMax = Math.max(openMax, ++open);
          order.push(/\/(\d+)/.exec(head)?.[1] ?? '');
          await turnOfLoop();
          open--;
          await peer.write(ok(''));
        }
      },
      { certificate },
    );
    await using client = makeClient({ connectionsMax: 3 });
    const paths = Array.from({ length: 50 }, (_, index) => `/${index}`);
    await Promise.all(paths.map((path) => client.request(get(server, { path }))));
    expect(order.length).toBe(50);
    expect(order.slice(3)).toEqual(order.slice(3).sort((a, b) => Number(a) - Number(b)));
    expect(openMax).toBeLessThanOrEqual(3);
    expect(client.connectionsOpened).toBe(3);
  });

  test('the one that was free last is used first', async () => {
    await using server = await startServer(
      answering(() => ok('')),
      { certificate },
    );
    await using client = makeClient();
    await Promise.all([1, 2, 3].map(() => client.request(get(server))));
    const before = server.peers.map((peer) => peer.socket.bytesWritten);
    for (let round = 0; round < 5; round++) await client.request(get(server));
    const used = server.peers.filter((peer, index) => peer.socket.bytesWritten !== before[index]);
    expect(used.length).toBe(1);
    expect(client.connectionsOpened).toBe(3);
  });

  test.each([
    ['Connection: close', 'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok'],
    ['HTTP/1.0', 'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok'],
    ['Keep-Alive of 1 s', 'HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok'],
  ])('%s: the next request has a new one', async (_name, answer) => {
    await using server = await startServer(
      answering(() => answer),
      { certificate },
    );
    await using client = makeClient();
    for (let round = 1; round <= 3; round++) {
      expect(await client.request(get(server))).toMatchObject({ status: 200, isReused: false });
      expect(client.connectionsOpened).toBe(round);
    }
  });

  test.each([
    [
      'with the body',
      async (peer: Peer) => peer.write(Buffer.concat([ok('first'), Buffer.from('HTTP/1.1 200 X\r\n')])),
    ],
    [
      'right after the body',
      async (peer: Peer) => {
        await peer.write(ok('first'));
        await peer.write('HTTP/1.1 200 X\r\n');
      },
    ],
    [
      'when idle',
      async (peer: Peer) => {
        await peer.writeAlone(ok('first'));
        await peer.writeAlone('H');
      },
    ],
  ])(
    'bytes after the body, %s: that answer is good, and no other request sees them',
    async (_name, write) => {
      await using server = await startServer(
        async (peer, index) => {
          if (index > 0) return answering(() => ok('later'))(peer);
          await peer.head();
          await write(peer);
          await peer.gone();
        },
        { certificate },
      );
      // A long keep-alive, so that only the extra bytes can end the connection.
      await using client = makeClient({ keepAliveMs: 60_000 });
      const { buffer, areGuardsWhole } = guarded(5);
      expect(await client.request(get(server, { into: { buffer } }))).toMatchObject({ bytesInto: 5 });
      expect(Buffer.from(buffer).toString()).toBe('first');
      expect(areGuardsWhole()).toBe(true);
      await server.peers[0]?.gone();
      const response = await client.request(get(server));
      expect(Buffer.from(response.body).toString()).toBe('later');
      expect(response.isReused).toBe(false);
    },
  );

  test.each([
    ['ends', (peer: Peer) => peer.end()],
    ['is reset', (peer: Peer) => peer.reset()],
  ])('an idle one that %s is dropped without a request noticing', async (_name, close) => {
    await using server = await startServer(
      answerThen(async (peer) => {
        for (let turn = 0; turn < 4; turn++) await turnOfLoop();
        close(peer);
      }),
      { certificate },
    );
    await using client = makeClient({ keepAliveMs: 60_000 });
    await client.request(get(server));
    await server.peers[0]?.gone();
    for (let turn = 0; turn < 4; turn++) await turnOfLoop();
    expect(await client.request(get(server))).toMatchObject({ isReused: false });
    expect(client.connectionsOpened).toBe(2);
  });

  test('one that is idle for keepAliveMs is closed', async () => {
    await using server = await startServer(
      answering(() => ok('')),
      { certificate },
    );
    await using client = makeClient({ keepAliveMs: 30 });
    await client.request(get(server));
    await server.peers[0]?.gone();
    expect(await client.request(get(server))).toMatchObject({ isReused: false });
  });

  test('one whose time is over is not used, even if the process was too busy to close it', async () => {
    await using server = await startServer(
      answering(() => ok('')),
      { certificate },
    );
    await using client = makeClient({ keepAliveMs: 30 });
    await client.request(get(server));
    const busyUntil = performance.now() + 60;
    while (performance.now() < busyUntil);
    expect(await client.request(get(server))).toMatchObject({ isReused: false });
  });

  test("the server's Keep-Alive, less a second, is longer than the client's own", async () => {
    await using server = await startServer(
      answering(() => ok('', 'Keep-Alive: timeout=30\r\n')),
      { certificate },
    );
    await using client = makeClient({ keepAliveMs: 30 });
    await client.request(get(server));
    const busyUntil = performance.now() + 60;
    while (performance.now() < busyUntil);
    expect(await client.request(get(server))).toMatchObject({ isReused: true });
  });

  test('no dead connection blocks a request that waits', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        peer.reset();
      },
      { certificate },
    );
    await using client = makeClient({ connectionsMax: 2 });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 20 }, () => failureOf(client.request(get(server)))),
    );
    expect(outcomes.every((outcome) => outcome.status === 'fulfilled')).toBe(true);
    expect(client.connectionsOpened).toBe(20);
  });
});

test('connections: one that ends with its answer is not given to the next request, which could not be repeated', async () => {
  await using server = await startServer(async (peer) => {
    await peer.head();
    await peer.writeAlone('HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n');
    peer.socket.end('hello');
  });
  await using client = makeClient();
  for (let round = 0; round < 20; round++) {
    const { buffer } = guarded(5);
    const response = await client.request(get(server, { method: 'POST', into: { buffer } }));
    expect(response).toMatchObject({ bytesInto: 5, isReused: false });
  }
});

describe.each(TRANSPORTS)('stale connections, %s', (_, certificate) => {
  /** Every connection answers once. It closes when the first byte of a second request arrives. */
  const closing = async (peer: Peer): Promise<void> => {
    await peer.head();
    await peer.write(ok('answer'));
    await peer.has(1);
    peer.reset();
  };

  test('a repeatable request goes out once more, on a new one, with the same body into the same buffer', async () => {
    await using server = await startServer(
      async (peer, index) => {
        if (index === 0) return closing(peer);
        const head = await peer.head();
        expect(head).toContain('Content-Length: 300000');
        expect(Buffer.compare(await peer.body(300_000), pattern(300_000))).toBe(0);
        await peer.write(ok('answer'));
      },
      { certificate },
    );
    await using client = makeClient();
    await client.request(get(server));
    const { buffer } = guarded(6);
    const changes = { method: 'PUT', body: pattern(300_000), into: { buffer }, isRepeatable: true };
    expect(await client.request(get(server, changes))).toMatchObject({ bytesInto: 6, isReused: false });
    expect(client.connectionsOpened).toBe(2);
    expect(server.failures).toEqual([]);
  });

  test('another request is not repeated, and told that the connection was stale', async () => {
    await using server = await startServer(closing, { certificate });
    await using client = makeClient();
    await client.request(get(server));
    const failure = await failureOf(client.request(get(server, { method: 'POST', body: pattern(10) })));
    expect(failure).toMatchObject({ code: 'CLOSED_EARLY', phase: 'head', isStale: true });
    expect(server.peers.length).toBe(1);
  });

  test('it goes to a new connection even if there are idle ones, and no further', async () => {
    let isClosing = false;
    let requestsRefused = 0;
    await using server = await startServer(
      async (peer) => {
        for (;;) {
          if (!(await peer.has(1))) return;
          if (isClosing) {
            requestsRefused++;
            return peer.reset();
          }
          await peer.head();
          await peer.write(ok(''));
        }
      },
      { certificate },
    );
    await using client = makeClient();
    await Promise.all([1, 2, 3].map(() => client.request(get(server))));
    isClosing = true;
    const failure = await failureOf(client.request(get(server, { isRepeatable: true })));
    // The second attempt used a fresh connection, so its failure is an ordinary one.
    expect(failure).toMatchObject({ code: 'CLOSED_EARLY', isStale: false });
    expect(client.connectionsOpened).toBe(4);
    expect(requestsRefused).toBe(2);
  });

  test('a request that was stopped, or whose client was closed, just before it would be repeated, is not', async () => {
    await using server = await startServer(closing, { certificate });
    for (const how of ['abort', 'close'] as const) {
      await using client = makeClient();
      await client.request(get(server));
      const controller = new AbortController();
      const request = get(server, { signal: controller.signal });
      // The client reads this property only after the connection has failed.
      Object.defineProperty(request, 'isRepeatable', {
        get() {
          if (how === 'abort') controller.abort();
          else client.close().catch(() => undefined);
          return true;
        },
      });
      const failure = await failureOf(client.request(request));
      expect(failure.code).toBe(how === 'abort' ? 'CLOSED_EARLY' : 'CLIENT_CLOSED');
      expect(client.connectionsOpened).toBe(1);
    }
  });

  test('an answer that has begun is not repeated', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.write(ok('answer'));
        await peer.head();
        await peer.writeAlone('H');
        peer.end();
      },
      { certificate },
    );
    await using client = makeClient();
    await client.request(get(server));
    const failure = await failureOf(client.request(get(server, { isRepeatable: true })));
    expect(failure).toMatchObject({ code: 'CLOSED_EARLY', phase: 'head', isStale: false });
    expect(server.peers.length).toBe(1);
  });

  test('100 requests that race the server closing as idle all get their answer', async () => {
    await using server = await startServer(
      async (peer, index) => {
        await peer.head();
        await peer.write(ok('answer'));
        for (let turn = 0; turn < index % 5; turn++) await turnOfLoop();
        peer.end();
      },
      { certificate },
    );
    await using client = makeClient();
    for (let round = 0; round < 100; round++) {
      for (let turn = 0; turn < round % 7; turn++) await turnOfLoop();
      const { buffer, areGuardsWhole } = guarded(6);
      await client.request(get(server, { into: { buffer }, isRepeatable: true }));
      expect(Buffer.from(buffer).toString()).toBe('answer');
      expect(areGuardsWhole()).toBe(true);
    }
  });
});

describe.each(TRANSPORTS)('close, %s', (_, certificate) => {
  test('fails what waits and what is under way, leaves no socket, and may be called again', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf');
      },
      { certificate },
    );
    const client = makeClient({ connectionsMax: 2 });
    const requests = [1, 2, 3].map(() => failureOf(client.request(get(server))));
    while (server.peers.length < 2 || server.peers.some((peer) => peer.socket.bytesWritten < 40))
      await turnOfLoop();
    const closed = client.close();
    expect(client.close()).toBe(closed);
    await closed;
    const failures = await Promise.all(requests);
    expect(failures.map(({ code }) => code)).toEqual(['CLIENT_CLOSED', 'CLIENT_CLOSED', 'CLIENT_CLOSED']);
    expect(failures[2]?.phase).toBe('queue');
    await Promise.all(server.peers.map((peer) => peer.gone()));
    expect(await failureOf(client.request(get(server)))).toMatchObject({
      code: 'CLIENT_CLOSED',
      phase: 'queue',
    });
  });

  test('closes idle ones', async () => {
    await using server = await startServer(
      answering(() => ok('')),
      { certificate },
    );
    const client = makeClient();
    await client.request(get(server));
    await client.close();
    await server.peers[0]?.gone();
  });
});
