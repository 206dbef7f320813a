/** Saves and restores whose bytes are hashed, sent and received by transfer workers. */

import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
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

async function managerOf({ uri, env }: Pick<TestBucket, 'uri' | 'env'>): Promise<RunManager> {
  const store = await openStore(uri, env);
  onTestFinished(() => store.close());
  return createCheckpointManager({ store, settings: SETTINGS });
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
