/** Saves and restores whose bytes are hashed, sent and received by transfer workers. */

import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createCheckpointManager, type RunManager } from '@holdfast/core';
import { openWorkers } from '@holdfast/core/internal/workers/index';
import { openStore } from '@holdfast/stores';
import { expect, onTestFinished, test, vi } from 'vitest';
import { filledBytes } from '../filled-bytes.ts';
import { CLOUDS } from '../servers/clouds.ts';
import { describeOnMinio } from '../servers/describe-on-s3.ts';
import type { TestBucket } from '../servers/test-bucket.ts';

const MIB = 1024 * 1024;
const SETTINGS = { workers: 2, bufferBytes: 64 * MIB, partSizeBytesMin: 5 * MIB };
const TIMEOUT_MS = 120_000;

const bytes = (length: number, seed: number) =>
  filledBytes(length, (index) => index * 31 + seed * 17 + (index >> 8));
const FILES = { large: bytes(23 * MIB + 5, 1), small: bytes(300_000, 2), empty: bytes(0, 3) };

async function managerOf(
  { uri, env }: Pick<TestBucket, 'uri' | 'env'>,
  settings: { hedgeDelayMsMin?: number } = {},
): Promise<RunManager> {
  const store = await openStore(uri, env);
  onTestFinished(() => store.close());
  return createCheckpointManager({ store, settings: { ...SETTINGS, ...settings } });
}

/** Tells which modules the workers have loaded so far. */
async function watchServices(): Promise<() => string[]> {
  const { workers, close } = await openWorkers(SETTINGS.workers);
  const connect = vi.spyOn(workers, 'connect');
  onTestFinished(() => {
    connect.mockRestore();
    close();
  });
  const names = () => connect.mock.calls.map(([, service]) => basename(service.pathname, '.ts'));
  return () => [...new Set(names())].sort();
}

async function saveAndRestore(manager: RunManager): Promise<void> {
  await manager.save({ version: 1, buffers: FILES });
  // The second time the bytes are hashed with BLAKE3, the third time they are not sent.
  await manager.save({ version: 2, buffers: FILES });
  const third = await manager.save({ version: 3, buffers: FILES });
  expect(third.referencedBytes).toBe(third.sizeBytes);
  const found = { large: new Uint8Array(FILES.large.length), small: new Uint8Array(FILES.small.length) };
  await manager.restore({ version: 3, to: found });
  for (const name of ['large', 'small'] as const)
    expect(Buffer.compare(found[name], FILES[name]), name).toBe(0);
}

for (const cloud of CLOUDS) {
  cloud.describeOn(`transfer workers on ${cloud.title}`, (server) => {
    test(
      'what is saved through them comes back through them',
      async () => {
        const services = await watchServices();
        await using manager = await managerOf(await server().newBucket());
        await saveAndRestore(manager);
        expect(services()).toEqual(['checksum-service', 'http-service']);
      },
      TIMEOUT_MS,
    );
  });
}

/** Forwards to the endpoint. The first reply to `GET` with this `Range` begins after `delayMs`. */
async function startSlowProxy(endpoint: string, range: string, delayMs: number) {
  const { hostname, port } = new URL(endpoint);
  /** Whether the client waited for each reply to such a `GET`. */
  const replies: ('sent' | 'left' | 'under way')[] = [];
  const server = createServer((request, response) => {
    const { method, url: path, headers } = request;
    const isCounted = method === 'GET' && headers.range === range;
    const number = isCounted ? replies.push('under way') - 1 : -1;
    response.on('close', () => {
      if (isCounted) replies[number] = response.writableFinished ? 'sent' : 'left';
    });
    const forwarded = forward({ hostname, port, method, path, headers }, async (reply) => {
      if (number === 0) await sleep(delayMs, undefined, { ref: false });
      response.writeHead(reply.statusCode ?? 502, reply.headers);
      reply.pipe(response);
    });
    forwarded.on('error', () => response.destroy());
    request.pipe(forwarded);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, replies };
}

describeOnMinio('transfer workers before a server that is slow once', {}, (server) => {
  test(
    'the slow read is sent a second time, into other memory, and left',
    async () => {
      const bucket = await server().newBucket();
      const large = bytes(60 * MIB, 7);
      await using writer = await managerOf(bucket);
      await writer.save({ version: 1, buffers: { large } });
      const range = `bytes=${45 * MIB}-${50 * MIB - 1}`;
      const proxy = await startSlowProxy(bucket.endpoint!, range, 60_000);
      const services = await watchServices();
      const uri = new URL(bucket.uri);
      uri.searchParams.set('endpoint', proxy.endpoint);
      const settings = { hedgeDelayMsMin: 500 };
      await using reader = await managerOf({ uri: String(uri), env: bucket.env }, settings);
      const found = new Uint8Array(large.length);
      const startMs = performance.now();
      await reader.restore({ version: 1, to: { large: found } });
      expect(performance.now() - startMs).toBeLessThan(30_000);
      expect(Buffer.compare(found, large)).toBe(0);
      await vi.waitFor(() => expect(proxy.replies).toEqual(['left', 'sent']));
      expect(services()).toEqual(['checksum-service', 'http-service']);
    },
    TIMEOUT_MS,
  );
});

describeOnMinio('transfer workers over TLS', { tls: true }, (server) => {
  test(
    'with a certificate of our own; a save that is stopped leaves all memory to the next one',
    async () => {
      const services = await watchServices();
      await using manager = await managerOf(await server().newBucket());
      const stop = new AbortController();
      const onProgress = ({ type }: { type: string }) => type === 'bytes' && stop.abort();
      const stopped = manager.save({ version: 1, buffers: FILES, signal: stop.signal, onProgress });
      await expect(stopped).rejects.toMatchObject({ code: 'Aborted' });
      await saveAndRestore(manager);
      expect(services()).toEqual(['checksum-service', 'http-service']);
    },
    TIMEOUT_MS,
  );
});

test(
  'on a directory: they hash, and the process ends although its manager was not closed',
  async () => {
    const directory = mkdtempSync(join(tmpdir(), 'holdfast-workers-'));
    onTestFinished(() => rmSync(directory, { recursive: true }));
    const program = join(import.meta.dirname, 'workers-program.ts');
    writeFileSync(join(directory, 'file'), FILES.large);
    const args = [
      '--conditions=holdfast-source',
      program,
      directory,
      pathToFileURL(join(directory, 'run')).href,
    ];
    const { stdout } = await promisify(execFile)(process.execPath, args, { timeout: TIMEOUT_MS });
    expect(JSON.parse(stdout)).toEqual({ services: ['checksum-service'], isSame: true });
  },
  TIMEOUT_MS,
);
