import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, vi } from 'vitest';
import { NodeHttp } from './node-http.ts';
import { Secret } from './secret.ts';

const MIB = 1024 * 1024;
const PROXY = { variable: 'HTTPS_PROXY', url: new Secret('http://me:canary@proxy:1'), secrets: [] };

describe('NodeHttp', () => {
  it('a Node that would bypass a proxy: an error that names variable and versions', () => {
    expect(() => new NodeHttp({ proxy: PROXY, knowsProxies: false })).toThrow(
      expect.objectContaining({
        code: 'InvalidConfig',
        message: `HTTPS_PROXY names a proxy, and this Node (${process.version}) cannot use one; use Node 22.21, 24.5 or newer`,
      }),
    );
  });

  it('needs nothing of the kind without a proxy', () => {
    new NodeHttp({ knowsProxies: false }).close();
  });

  it('sends a large body whole, holding no more than a piece beside it', async () => {
    const body = new Uint8Array(8 * MIB + 5);
    for (let at = 0; at < body.length; at++) body[at] = at * 31;
    const sums: string[] = [];
    const server = createServer((request, response) => {
      const hash = createHash('sha256');
      request.on('data', (chunk: Buffer) => hash.update(chunk));
      request.on('end', () => {
        sums.push(`${request.headers['content-length']} ${hash.digest('hex')}`);
        response.end('ok');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const client = new NodeHttp({});
    const target = { protocol: 'http:', hostname: '127.0.0.1', port, method: 'PUT', path: '/a' } as const;
    const copied = vi.spyOn(Buffer, 'from');
    try {
      for (const each of [body, new Uint8Array(0)]) {
        const answer = await client.request({ ...target, headers: {}, body: each });
        expect([answer.status, Buffer.from(answer.body).toString()]).toEqual([200, 'ok']);
      }
      const sizes = copied.mock.calls.map(([value]) => (value as unknown as Uint8Array).byteLength ?? 0);
      expect(Math.max(...sizes)).toBeLessThanOrEqual(256 * 1024);
    } finally {
      copied.mockRestore();
      client.close();
      server.close();
    }
    const sumOf = (bytes: Uint8Array) =>
      `${bytes.length} ${createHash('sha256').update(bytes).digest('hex')}`;
    expect(sums).toEqual([sumOf(body), sumOf(new Uint8Array(0))]);
  });
});
