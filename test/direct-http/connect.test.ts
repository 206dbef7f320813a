import { execFile } from 'node:child_process';
import type { LookupAddress } from 'node:dns';
import { type AddressInfo, createServer, type LookupFunction } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { makeCertificate } from './certificate.ts';
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
import { moveTimers, pass } from './moved-timers.ts';
import { answering, startServer } from './scripted-server.ts';

const hello = answering(() => ok('hello'));

/** A port of loopback on which no process listens. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Resolves every name to these addresses, as `dns.lookup` does. */
function resolvingTo(...addresses: LookupAddress[]): LookupFunction {
  return (_hostname, options, callback) => {
    if (options.all) callback(null, addresses);
    else callback(null, addresses[0]?.address ?? '', addresses[0]?.family);
  };
}

describe.each(TRANSPORTS)('connect, %s', (_, certificate) => {
  test('by name, by IPv4 and by IPv6, with the Host header that belongs to it', async () => {
    const heads: string[] = [];
    const script = answering((head) => {
      heads.push(head);
      return ok('hello');
    });
    await using server = await startServer(script, { certificate });
    await using server6 = await startServer(script, { certificate, address: '::1' });
    await using client = makeClient();
    for (const [hostname, port, host] of [
      ['localhost', server.port, `localhost:${server.port}`],
      ['127.0.0.1', server.port, `127.0.0.1:${server.port}`],
      ['::1', server6.port, `[::1]:${server6.port}`],
    ] as const) {
      const { buffer, areGuardsWhole } = guarded(5);
      expect(await client.request(get(server, { hostname, port, into: { buffer } }))).toMatchObject({
        bytesInto: 5,
      });
      expect(Buffer.from(buffer).toString()).toBe('hello');
      expect(areGuardsWhole()).toBe(true);
      expect(heads.at(-1)).toContain(`\r\nHost: ${host}\r\n`);
    }
  });

  test('happy eyeballs: the one of two addresses that answers is used, and the buffer is filled as ever', async () => {
    const body = pattern(100_000);
    await using server = await startServer(
      answering(() => ok(body)),
      { certificate },
    );
    const lookup = resolvingTo({ address: '::1', family: 6 }, { address: '127.0.0.1', family: 4 });
    await using client = makeClient({ lookup });
    for (let round = 0; round < 3; round++) {
      const { buffer, areGuardsWhole } = guarded(body.byteLength);
      await client.request(get(server, { hostname: 'localhost', into: { buffer } }));
      expect(Buffer.compare(buffer, body)).toBe(0);
      expect(areGuardsWhole()).toBe(true);
    }
    expect(client.connectionsOpened).toBe(1);
  });

  test.each([
    ['one address', [{ address: '127.0.0.1', family: 4 }]],
    [
      'all of several',
      [
        { address: '::1', family: 6 },
        { address: '127.0.0.1', family: 4 },
      ],
    ],
  ])('no server listens at %s: CONNECT_FAILED, with the code of the system', async (_name, addresses) => {
    await using client = makeClient({ lookup: resolvingTo(...addresses) });
    const protocol = certificate ? 'https:' : 'http:';
    const request = {
      protocol,
      hostname: 'localhost',
      port: await freePort(),
      method: 'GET',
      path: '/',
      headers: {},
    } as const;
    for (let attempt = 0; attempt < 3; attempt++) {
      const failure = await failureOf(client.request(request));
      expect(failure).toMatchObject({ code: 'CONNECT_FAILED', phase: 'connect', isStale: false });
      expect(failure.cause).toMatchObject({ code: 'ECONNREFUSED' });
      expect(failure.message).toContain(`localhost, port ${request.port}`);
    }
  });

  test('an unknown name is CONNECT_FAILED, with the code of the look-up', async () => {
    const unknown = Object.assign(new Error('getaddrinfo ENOTFOUND nowhere'), {
      code: 'ENOTFOUND',
      syscall: 'getaddrinfo',
    });
    await using server = await startServer(hello, { certificate });
    await using client = makeClient({ lookup: (_hostname, _options, callback) => callback(unknown, []) });
    const failure = await failureOf(client.request(get(server, { hostname: 'nowhere.invalid' })));
    expect(failure).toMatchObject({ code: 'CONNECT_FAILED', phase: 'connect', cause: unknown });
  });

  test('a look-up that throws fails its requests and holds up no other', async () => {
    await using server = await startServer(hello, { certificate });
    let isBroken = true;
    const lookup: LookupFunction = (hostname, options, callback) => {
      if (isBroken) throw new Error('broken look-up');
      resolvingTo({ address: '127.0.0.1', family: 4 })(hostname, options, callback);
    };
    await using client = makeClient({ lookup, connectionsMax: 1 });
    const request = get(server, { hostname: 'localhost' });
    const failures = await Promise.all([1, 2, 3].map(() => failureOf(client.request(request))));
    for (const failure of failures)
      expect(failure).toMatchObject({ phase: 'connect', message: expect.stringContaining('broken') });
    isBroken = false;
    expect(await client.request(request)).toMatchObject({ status: 200 });
  });

  test('the time to connect ends with the connection: an answer may take longer', async () => {
    moveTimers();
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await pass(5000);
        await peer.write(ok(''));
      },
      { certificate },
    );
    await using client = makeClient({ connectTimeoutMs: 500 });
    expect(await client.request(get(server))).toMatchObject({ status: 200 });
  });

  test('no connection within the time limit is TIMED_OUT, and the ones that wait get their turn', async () => {
    moveTimers();
    await using server = await startServer(hello, { certificate });
    let isStuck = true;
    const lookup: LookupFunction = (hostname, options, callback) => {
      if (!isStuck) resolvingTo({ address: '127.0.0.1', family: 4 })(hostname, options, callback);
      isStuck = false;
    };
    await using client = makeClient({ lookup, connectionsMax: 1, connectTimeoutMs: 500 });
    const request = get(server, { hostname: 'localhost' });
    const first = failureOf(client.request(request));
    const second = client.request(request);
    await pass(500);
    expect(await first).toMatchObject({ code: 'TIMED_OUT', phase: 'connect' });
    expect(await second).toMatchObject({ status: 200 });
  });
});

describe('TLS', () => {
  test('a certificate that is not trusted is TLS_FAILED, and no request is sent', async () => {
    const other = makeCertificate('DNS:localhost', 'IP:127.0.0.1');
    await using server = await startServer(hello, { certificate: other });
    for (const tls of [{ ca: certificate.cert }, { ca: [certificate.cert] }, {}]) {
      await using client = makeClient({ tls });
      const failure = await failureOf(client.request(get(server)));
      expect(failure).toMatchObject({ code: 'TLS_FAILED', phase: 'connect' });
      expect(failure.cause).toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' });
    }
    expect(server.peers.every((peer) => peer.receivedBytes === 0)).toBe(true);
    await using client = makeClient({ tls: { ca: [certificate.cert, other.cert] } });
    expect(await client.request(get(server))).toMatchObject({ status: 200 });
  });

  test('a certificate for another name is TLS_FAILED every time: nothing of it is resumed', async () => {
    const other = makeCertificate('DNS:elsewhere.example');
    for (const maxVersion of ['TLSv1.2', 'TLSv1.3'] as const) {
      await using server = await startServer(hello, { certificate: other, tls: { maxVersion } });
      await using client = makeClient({ tls: { ca: other.cert } });
      for (let attempt = 0; attempt < 3; attempt++) {
        const failure = await failureOf(client.request(get(server)));
        expect(failure).toMatchObject({ code: 'TLS_FAILED', phase: 'connect' });
        expect(failure.cause).toMatchObject({ code: 'ERR_TLS_CERT_ALTNAME_INVALID' });
      }
      expect(server.peers.every((peer) => peer.receivedBytes === 0)).toBe(true);
    }
  });

  test.each(['TLSv1.2', 'TLSv1.3'] as const)(
    '%s: the next connection resumes the session',
    async (maxVersion) => {
      const resumed: boolean[] = [];
      await using server = await startServer(
        (peer) => {
          resumed.push((peer.socket as TLSSocket).isSessionReused());
          return answering(() => ok('hello', 'Connection: close\r\n'))(peer);
        },
        { certificate, tls: { maxVersion } },
      );
      await using client = makeClient();
      for (let round = 0; round < 4; round++) await client.request(get(server));
      expect(resumed).toEqual([false, true, true, true]);
    },
  );

  test('after a connection that failed the handshake is whole again', async () => {
    const resumed: boolean[] = [];
    await using server = await startServer(
      (peer) => {
        resumed.push((peer.socket as TLSSocket).isSessionReused());
        return answering(() => ok('hello', 'Connection: close\r\n'))(peer);
      },
      { certificate },
    );
    let isBroken = false;
    const lookup: LookupFunction = (hostname, options, callback) => {
      if (isBroken) callback(new Error('broken'), []);
      else resolvingTo({ address: '127.0.0.1', family: 4 })(hostname, options, callback);
    };
    await using client = makeClient({ lookup });
    const request = get(server, { hostname: 'localhost' });
    for (const broken of [false, false, true, false, false]) {
      isBroken = broken;
      const outcome = client.request(request);
      if (broken) await failureOf(outcome);
      else await outcome;
    }
    expect(resumed).toEqual([false, true, false, true]);
  });

  test('only HTTP/1.1 is offered, and the name is told unless it is an address', async () => {
    const offered: unknown[] = [];
    const ALPNCallback = ({ servername, protocols }: { servername: string; protocols: string[] }) => {
      offered.push([servername, protocols]);
      return protocols[0];
    };
    await using server = await startServer(hello, { certificate, tls: { ALPNCallback } });
    await using client = makeClient();
    await client.request(get(server, { hostname: 'localhost' }));
    await client.request(get(server, { hostname: '127.0.0.1' }));
    expect(offered.map((offer) => (offer as [string, string[]])[1])).toEqual([['http/1.1'], ['http/1.1']]);
    expect((offered[0] as [string])[0]).toBe('localhost');
    expect((offered[1] as [string | undefined])[0] || '').toBe('');
  });

  test('a server that speaks only another protocol or version is TLS_FAILED', async () => {
    for (const tls of [{ ALPNProtocols: ['h2'] }, { minVersion: 'TLSv1', maxVersion: 'TLSv1.1' } as const]) {
      await using server = await startServer(hello, { certificate, tls });
      await using client = makeClient();
      expect(await failureOf(client.request(get(server)))).toMatchObject({
        code: 'TLS_FAILED',
        phase: 'connect',
      });
    }
  });

  test('https to a server of plain HTTP is TLS_FAILED, to one that hangs up CONNECT_FAILED', async () => {
    await using plain = await startServer(async (peer) => {
      await peer.has(1);
      await peer.write('HTTP/1.1 400 Bad Request\r\n\r\n');
    });
    await using hangingUp = await startServer(async (peer) => {
      await peer.has(1);
      peer.end();
    });
    await using client = makeClient();
    expect(await failureOf(client.request(get({ ...plain, protocol: 'https:' })))).toMatchObject({
      code: 'TLS_FAILED',
    });
    const failure = await failureOf(client.request(get({ ...hangingUp, protocol: 'https:' })));
    expect(failure).toMatchObject({ code: 'CONNECT_FAILED', phase: 'connect' });
    expect(failure.cause).toMatchObject({ code: 'ECONNRESET' });
  });

  test('http to a server of TLS is an error, not a wait', async () => {
    await using server = await startServer(hello, { certificate });
    await using client = makeClient({ idleTimeoutMs: 5000 });
    const failure = await failureOf(client.request(get({ ...server, protocol: 'http:' })));
    expect(['BAD_HEAD', 'CLOSED_EARLY']).toContain(failure.code);
  });

  test('damaged records within an answer are TLS_FAILED, with what came before them', async () => {
    await using server = await startServer(
      async (peer) => {
        await peer.head();
        await peer.writeAlone('HTTP/1.1 200 OK\r\nContent-Length: 22\r\n\r\nthe body');
        peer.connection.write('this is no record of TLS');
      },
      { certificate },
    );
    await using client = makeClient();
    const { buffer, areGuardsWhole } = guarded(22);
    const failure = await failureOf(client.request(get(server, { into: { buffer } })));
    expect(failure).toMatchObject({ code: 'TLS_FAILED', phase: 'body', bytes: 8 });
    expect(areGuardsWhole()).toBe(true);
  });

  test('a `ca` that is no certificate trusts no server, instead of those that Node trusts', async () => {
    await using server = await startServer(hello, { certificate });
    await using client = makeClient({ tls: { ca: 'no certificate' } });
    expect(await failureOf(client.request(get(server)))).toMatchObject({
      code: 'TLS_FAILED',
      phase: 'connect',
    });
  });
});

test.each(TRANSPORTS)(
  'process, %s: idle connections do not keep it alive, one in use does',
  async (_name, certificate) => {
    await using server = await startServer(
      answering((head) => ok(head.includes('/second') ? 'second' : 'first')),
      { certificate },
    );
    // The child's output proves that its requests were awaited. Its end proves that the idle
    // connection did not keep it alive for 4 seconds.
    const program = `
    import { DirectHttpClient } from ${JSON.stringify(fileURLToPath(import.meta.resolve('@holdfast/direct-http')))};
    const client = new DirectHttpClient({ tls: { ca: process.env.CA }, keepAliveMs: 600_000 });
    for (const path of ['/first', '/second']) {
      const target = { protocol: '${server.protocol}', hostname: '127.0.0.1', port: ${server.port} };
      const { body, isReused } = await client.request({ ...target, method: 'GET', path, headers: {} });
      console.log(Buffer.from(body).toString(), isReused);
    }
  `;
    const child = await promisify(execFile)(
      process.execPath,
      ['--conditions=holdfast-source', '--input-type=module', '--eval', program],
      { env: { ...process.env, ...(certificate && { CA: certificate.cert }) }, timeout: 20_000 },
    );
    expect(child.stdout).toBe('first false\nsecond true\n');
  },
);
