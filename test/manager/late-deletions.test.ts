/**
 * A store that does not answer deletions of records which would do no harm, or lists of uploads:
 * nothing waits long.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { crc32c, createCheckpointManager } from '@holdfast/core';
import { requestWatchOf } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { bytes, SETTINGS } from './memory-run.ts';

const MOST_MS = 8000;

/** From the call of `hang` on, deletions end only when they are stopped, or never. */
function openHanging({ isDeaf }: { isDeaf: boolean }) {
  const store = new MemoryStore(new MemoryBucket({ crc32c }));
  const deleteMany = store.deleteMany.bind(store);
  let hangs = false;
  const asked = Promise.withResolvers<void>();
  store.deleteMany = (keys, options) => {
    if (!hangs) return deleteMany(keys, options);
    asked.resolve();
    return new Promise((_, reject) => {
      const { signal } = options ?? {};
      if (!isDeaf) signal?.addEventListener('abort', () => reject(signal.reason as Error));
    });
  };
  const manager = createCheckpointManager({ store, settings: SETTINGS });
  const hang = () => {
    hangs = true;
  };
  return { manager, store, hang, asked: asked.promise };
}

test.each([false, true])(
  'a restore that is stopped when it has all bytes ends a second later (the store is deaf: %s)',
  async (isDeaf) => {
    const { manager, hang, asked } = openHanging({ isDeaf });
    await manager.save({ version: 1, buffers: { a: bytes(100) } });
    hang();
    const stop = new AbortController();
    const to = { a: new Uint8Array(100) };
    const restored = manager.restore({ to, signal: stop.signal });
    await asked;
    const startMs = performance.now();
    stop.abort();
    expect((await restored).version).toBe(1n);
    expect(performance.now() - startMs).toBeLessThan(MOST_MS);
    expect(to.a).toEqual(bytes(100));
  },
);

test('a save that is stopped when it is committed ends a second later', async () => {
  const { manager, hang, asked } = openHanging({ isDeaf: false });
  const buffers = { a: bytes(100) };
  for (const version of [1, 2]) await manager.save({ version, buffers });
  hang();
  const stop = new AbortController();
  // Refers to the file of version 2, under a lease.
  const saved = manager.save({ version: 3, buffers, signal: stop.signal });
  await asked;
  const startMs = performance.now();
  stop.abort();
  const result = await saved;
  expect([result.isCommitted, result.referencedBytes]).toEqual([true, 100]);
  expect(performance.now() - startMs).toBeLessThan(MOST_MS);
});

test('a list of uploads without an upload in many pages may take its time', async () => {
  const store = new MemoryStore(new MemoryBucket({ crc32c }));
  async function* listUploads(_: string, { signal }: { signal?: AbortSignal } = {}) {
    for (let page = 0; page < 20; page++) {
      requestWatchOf(signal)?.changed(0, 1);
      await sleep(50, undefined, { signal });
      requestWatchOf(signal)?.changed(0, -1);
    }
    yield* [];
  }
  Object.assign(store, { listUploads });
  const settings = { ...SETTINGS, stallTimeoutMs: 300, recordTimeoutMs: 600, retryCountMax: 0 };
  const manager = createCheckpointManager({ store, settings });
  await manager.save({ version: 1, buffers: { a: bytes(100) } });
  expect((await manager.admin.collect({ policy: { keepLast: 1 } })).retired).toEqual([]);
});

test('uploads that are never listed, by a deaf store: a collection ends in time', async () => {
  const store = new MemoryStore(new MemoryBucket({ crc32c }));
  const never = { next: () => new Promise(() => undefined) };
  Object.assign(store, { listUploads: () => ({ [Symbol.asyncIterator]: () => never }) });
  const settings = { ...SETTINGS, stallTimeoutMs: 100, recordTimeoutMs: 300, retryCountMax: 1 };
  const manager = createCheckpointManager({ store, settings });
  await manager.save({ version: 1, buffers: { a: bytes(100) } });
  await expect(manager.admin.collect({ policy: { keepLast: 1 } })).rejects.toMatchObject({
    code: expect.stringMatching(/^(Unavailable|TimedOut)$/),
  });
});
