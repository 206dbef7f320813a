/**
 * Every way to open a store or a run, with invalid values. No message may repeat a part of a URI or
 * of the environment.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { openAzureStore } from '@holdfast/store-azure';
import { openGcsStore } from '@holdfast/store-gcs';
import { openLocalStore } from '@holdfast/store-local';
import { openS3Store } from '@holdfast/store-s3';
import { openCheckpointManager, openStore, registerStore } from '@holdfast/stores';
import { afterAll, describe, expect, test } from 'vitest';
import { expectRefused, type Odd } from './values.ts';

const OBJECT: Odd[] = ['undefined', '{}'];
const OPTIONAL: Odd[] = ['undefined'];
const directory = mkdtempSync(join(tmpdir(), 'bad-input-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

type Open = (uri: never, env: never) => Promise<{ close(): Promise<void> }>;

const OPENINGS: [string, Open, string][] = [
  ['openStore', openStore, 'memory://bad-input'],
  ['openS3Store', openS3Store, 's3://bucket/prefix'],
  ['openGcsStore', openGcsStore, 'gs://bucket/prefix'],
  ['openAzureStore', openAzureStore, 'az://account/container/prefix'],
];

describe.each(OPENINGS)('%s', (_name, open, uri) => {
  test('the URI', () => expectRefused([], async (value) => (await open(value, {} as never)).close()));

  test('the environment', async () => {
    await expectRefused(OBJECT, async (env) => (await open(uri as never, env)).close());
    await expectRefused(['undefined', 'empty', 'space'], async (value) => {
      await (await open(uri as never, { SOME_VARIABLE: value } as never)).close();
    });
  });

  test('what is not a string is named, and not repeated', async () => {
    const env = { AWS_SECRET_ACCESS_KEY: 8_675_309 };
    const error = await open(uri as never, env as never).catch((failure: unknown) => failure);
    expect(error).toMatchObject({
      code: 'InvalidConfig',
      message: 'the environment variable AWS_SECRET_ACCESS_KEY is of type number; it takes text',
    });
  });
});

test('openCheckpointManager by URI', async () => {
  await expectRefused([], async (value) => (await openCheckpointManager(value)).close());
  await expectRefused(OBJECT, async (value) => (await openCheckpointManager('memory://x', value)).close());
});

test('registerStore', async () => {
  const adapter = { form: 'bad-input://name', open: openStore };
  await expectRefused([], (value) => registerStore(value, adapter));
  await expectRefused([], (value) => registerStore('bad-input', value));
  await expectRefused([], (form) => registerStore('bad-input', { ...adapter, form }));
  await expectRefused(['function'], (value) => registerStore('bad-input', { ...adapter, open: value }));
});

test('openLocalStore', async () => {
  await expectRefused([], async (value) => (await openLocalStore(value)).close());
  await expectRefused([], async (value) => (await openLocalStore({ directory: value })).close());
  await expectRefused(OBJECT, async (value) => (await openLocalStore({ directory }, value)).close());
  for (const option of ['durability', 'direct']) {
    await expectRefused(OPTIONAL, async (value) =>
      (await openLocalStore({ directory, [option]: value })).close(),
    );
  }
  const components: Record<string, Odd[]> = {
    ...{ fileSystem: OPTIONAL, clock: OPTIONAL, processes: OPTIONAL },
    ...{ crc32c: ['undefined', 'function'], reserveBytes: ['undefined', '0'] },
  };
  for (const [option, accepted] of Object.entries(components)) {
    await expectRefused(accepted, async (value) =>
      (await openLocalStore({ directory }, { [option]: value })).close(),
    );
  }
});

test('a memory store and its bucket', async () => {
  await expectRefused(OPTIONAL, (value) => new MemoryStore(value));
  await expectRefused(OBJECT, (value) => new MemoryStore(undefined, value));
  await expectRefused(OBJECT, (value) => new MemoryBucket(value));
  await expectRefused(['undefined', 'space'], (name) => new MemoryBucket({ name }));
  await expectRefused(['undefined', 'function'], (crc32c) => new MemoryBucket({ crc32c }));
});
