import { createServer } from 'node:http';
import type { AddressInfo, NetConnectOpts, Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import type { ReadInto } from './open-socket.ts';

// A runtime that accepts the view but reads into its own memory, as was reported of Bun.
vi.mock('node:net', async (importOriginal) => {
  const net = await importOriginal<typeof import('node:net')>();
  const connect = (options: NetConnectOpts & { onread: ReadInto }): Socket => {
    const { buffer, callback } = options.onread;
    const ownMemory = (bytes: number) => callback(bytes, new Uint8Array(bytes));
    return net.connect({ ...options, onread: { buffer, callback: ownMemory } });
  };
  return { ...net, connect };
});

test('connection: a runtime that does not read into the buffer it is given is NOT_NODE', async () => {
  // Files of units share their modules, so another file may have loaded the client before.
  vi.resetModules();
  onTestFinished(() => void vi.resetModules());
  const { DirectHttpClient } = await import('./client.ts');
  const server = createServer((_request, response) => response.end('hello'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const client = new DirectHttpClient();
  const target = { protocol: 'http:', hostname: '127.0.0.1', port } as const;
  const into = { buffer: new Uint8Array(5) };
  await expect(
    client.request({ ...target, method: 'GET', path: '/', headers: {}, into }),
  ).rejects.toMatchObject({
    code: 'NOT_NODE',
    bytes: 0,
  });
  expect(into.buffer).toEqual(new Uint8Array(5));
  await client.close();
  await new Promise((resolve) => server.close(resolve));
});
