import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isCheckpointError } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import {
  openCheckpointManager,
  openStore,
  registerStore,
  type StoreAdapter,
  storeUriForms,
} from './index.ts';

async function errorOf(promise: Promise<unknown>) {
  const error = await promise.then(
    () => null,
    (reason: unknown) => reason,
  );
  if (!isCheckpointError(error)) throw new Error(`expected a CheckpointError, got ${String(error)}`);
  return error;
}

describe('openStore', () => {
  it('opens a directory by its file URI', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'holdfast-stores-'));
    try {
      const store = await openStore(pathToFileURL(directory).href);
      await store.create('a/b', new Uint8Array([1, 2, 3]));
      expect((await store.get('a/b', { maxBytes: 10 })).bytes).toEqual(new Uint8Array([1, 2, 3]));
      await store.close();
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  it('memory stores of one name share their objects, of two names they do not', async () => {
    const first = await openStore('memory://shared');
    await first.create('key', new Uint8Array([7]));
    await first.close();
    expect((await (await openStore('memory://shared')).head('key')).sizeBytes).toBe(1);
    expect((await errorOf((await openStore('memory://other')).head('key'))).code).toBe('NotFound');
  });

  it('an unknown scheme is InvalidConfig and lists what is accepted', async () => {
    const error = await errorOf(openStore('ftp://host/run'));
    expect(error.code).toBe('InvalidConfig');
    // Tests in the same process may have registered more.
    expect(error.message).toContain(
      'the scheme of the URI is unknown; accepted: file:///abs/dir, s3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix, memory://name',
    );
  });

  it('a scheme that is also a property of every object is as unknown as any other', async () => {
    expect((await errorOf(openStore('constructor://x'))).message).toContain(
      'the scheme of the URI is unknown',
    );
  });

  it('an error does not repeat a password', async () => {
    expect((await errorOf(openStore('ftp://me:hunter2@host/run'))).message).not.toContain('hunter2');
  });

  it.each(['memory://', 'memory://a/b', 'memory://a?x=1'])('%s is InvalidConfig', async (uri) => {
    expect((await errorOf(openStore(uri))).code).toBe('InvalidConfig');
  });

  it.each(['file://relative/dir', 'file:///dir?sync=off'])('%s is InvalidConfig', async (uri) => {
    expect((await errorOf(openStore(uri))).code).toBe('InvalidConfig');
  });

  it('lists a form for every scheme', () => {
    expect(storeUriForms().slice(0, 5)).toEqual([
      'file:///abs/dir',
      's3://bucket/prefix',
      'gs://bucket/prefix',
      'az://account/container/prefix',
      'memory://name',
    ]);
  });
});

describe('registerStore', () => {
  const adapter: StoreAdapter = {
    form: 'tape://library',
    open: (uri) => openStore(`memory://${uri.slice('tape://'.length)}`),
  };

  it('a scheme of the caller is opened as any other, and listed', async () => {
    registerStore('tape', adapter);
    registerStore('tape', adapter);
    const store = await openStore('tape://shelf-1');
    await store.create('a', new Uint8Array([1]));
    expect((await (await openStore('memory://shelf-1')).head('a')).sizeBytes).toBe(1);
    expect(storeUriForms().at(-1)).toBe('tape://library');
  });

  it.each([
    ['Tape', adapter, 'a scheme begins with a lower-case letter'],
    ['', adapter, 'a scheme begins with a lower-case letter'],
    ['disk', adapter, 'the form of disk URIs must begin with disk://'],
    ['s3', { ...adapter, form: 's3://mine' }, 'the scheme s3 is taken: s3://bucket/prefix'],
    ['tape', { ...adapter }, 'the scheme tape is taken: tape://library'],
  ])('"%s" is InvalidArgument', (scheme, given, message) => {
    registerStore('tape', adapter);
    expect(() => registerStore(scheme, given)).toThrow(
      expect.objectContaining({ code: 'InvalidArgument', message: expect.stringContaining(message) }),
    );
  });
});

describe('openCheckpointManager', () => {
  it('saves and restores through the URI', async () => {
    const manager = await openCheckpointManager('memory://manager');
    const bytes = new Uint8Array([1, 2, 3, 4]);
    await manager.save({ version: 5, buffers: { 'a.bin': bytes } });
    const restored = new Uint8Array(4);
    await manager.restore({ to: { 'a.bin': restored } });
    expect(restored).toEqual(bytes);
    await manager.close();
  });

  it('a setting outside its limits is InvalidConfig', async () => {
    const error = await errorOf(openCheckpointManager('memory://settings', { settings: { bufferBytes: 1 } }));
    expect(error.code).toBe('InvalidConfig');
  });
});
