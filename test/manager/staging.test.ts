/**
 * Saves of copies. The commit holds the bytes at the time of the copy, whatever happens to the
 * original.
 */

import { writeFileSync } from 'node:fs';
import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, type ProgressEvent } from '@holdfast/core';
import type { Staging } from '@holdfast/core/contract';
import { MemoryStore } from '@holdfast/core/store';
import { localFiles } from '@holdfast/local-files';
import { FaultyStore, refuse } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, readAll } from './memory-run.ts';
import { memoryStaging } from './staging-in-memory.ts';

describe('a save with staging', () => {
  test('commits the bytes of the moment of the copy; the originals change while they are sent', async () => {
    const bucket = newBucket();
    const model = bytes(200_000);
    const wanted = model.slice();
    const staging = memoryStaging(() => model.fill(0));
    await using manager = open(bucket);
    await manager.save({ version: 1, buffers: { model }, staging });
    const checkpoint = await manager.latest();
    const found = await readAll(checkpoint?.openInputStream('model') as ReadableStream);
    expect(Buffer.compare(found, wanted)).toBe(0);
    expect(staging).toMatchObject({ heldCount: 0 });
  });

  test('a file that changes after it was copied is not SourceChanged, and keeps its mode', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'holdfast-staging-'));
    try {
      const path = join(dir, 'weights');
      await writeFile(path, 'as it was', { mode: 0o640 });
      const { mode } = await stat(path);
      await using manager = open(newBucket(), { files: localFiles });
      const onProgress = ({ type }: ProgressEvent) => {
        if (type === 'staged') writeFileSync(path, 'longer than it was');
      };
      await manager.save({ version: 1, dir, staging: memoryStaging(), onProgress });
      expect((await stat(path)).size).toBe(18);
      const to = join(dir, 'restored');
      await manager.restore({ to });
      expect((await stat(join(to, 'weights'))).mode & 0o777).toBe(mode & 0o777);
      expect((await stat(join(to, 'weights'))).size).toBe(9);
    } finally {
      await rm(dir, { recursive: true });
    }
  });

  test('`staged` comes first, and from then on sizes are known, those of streams too', async () => {
    await using manager = open(newBucket());
    const events: ProgressEvent[] = [];
    async function* pieces() {
      yield bytes(70_000);
      yield bytes(30);
    }
    const files = { a: bytes(10), b: pieces() };
    const onProgress = (event: ProgressEvent) => void events.push(event);
    await manager.save({ version: 1, files, staging: memoryStaging(), onProgress });
    expect(events[0]).toEqual({ type: 'staged', sizeBytes: 70_040 });
    expect(events.find(({ type }) => type === 'planned')).toMatchObject({ fileCount: 2, sizeBytes: 70_040 });
  });

  test('the copy of a stream that has not changed is not sent again', async () => {
    await using manager = open(newBucket());
    async function* pieces() {
      yield bytes(70_000);
    }
    const save = (version: number) =>
      manager.save({ version, files: { b: pieces() }, staging: memoryStaging() });
    for (const version of [1, 2]) expect((await save(version)).referencedBytes).toBe(0);
    expect(await save(3)).toMatchObject({ sizeBytes: 70_000, referencedBytes: 70_000 });
  });

  test('a repeat of a committed version compares the copies', async () => {
    await using manager = open(newBucket());
    const staging = memoryStaging();
    await manager.save({ version: 1, buffers: { a: bytes(9) }, staging });
    expect(await manager.save({ version: 1, buffers: { a: bytes(9) }, staging })).toMatchObject({
      wasCommittedBefore: true,
    });
    expect(await failure(manager.save({ version: 1, buffers: { a: bytes(9, 2) }, staging }))).toContain(
      'Conflict: version 1 is committed already, with other content',
    );
    expect(staging).toMatchObject({ heldCount: 0 });
  });

  test('the room is given back when all is sent, while the save still waits for the other writer', async () => {
    const bucket = newBucket();
    const staging = memoryStaging();
    await using first = open(bucket, { attempt: 'job', writer: { index: 0, count: 2 } });
    await using second = open(bucket, { attempt: 'job', writer: { index: 1, count: 2 } });
    const saw: number[] = [];
    const { promise: isDelivered, resolve: delivered } = Promise.withResolvers<void>();
    const onProgress = ({ type }: ProgressEvent) => {
      if (type !== 'delivered') return;
      saw.push(staging.heldCount);
      delivered();
    };
    const saving = first.save({ version: 1, buffers: { a: bytes(9) }, staging, onProgress });
    await isDelivered;
    await second.save({ version: 1, buffers: { b: bytes(9) } });
    await saving;
    expect(saw).toEqual([0]);
  });

  test('a copy that fails is the error of the save, and the store has not been asked anything', async () => {
    const store = new FaultyStore(new MemoryStore(newBucket()));
    await using manager = open(newBucket(), { store });
    const staging: Staging = {
      stage: async () => {
        throw new CheckpointError('StorageFull', 'there is no room for 9 bytes');
      },
    };
    const saving = manager.save({ version: 1, buffers: { a: bytes(9) }, staging });
    expect(await failure(saving)).toBe('StorageFull: there is no room for 9 bytes');
    expect(store.calls).toEqual([]);
  });

  test('a staging that does not copy each file is told so, and its room is given back', async () => {
    const store = new FaultyStore(new MemoryStore(newBucket()));
    await using manager = open(newBucket(), { store });
    const honest = memoryStaging();
    const staging: Staging = {
      stage: async (sources) => honest.stage(sources.slice(1)),
    };
    const saving = manager.save({ version: 1, buffers: { a: bytes(9), b: bytes(1) }, staging });
    expect(await failure(saving)).toBe(
      'Unexpected: the staging made 1 copies of 2 files; it must make one of each',
    );
    expect(honest).toMatchObject({ heldCount: 0, releaseCount: 1 });
    expect(store.calls).toEqual([]);
  });

  test.each([
    ['the upload', (key: string) => key.includes('/0.0-')],
    ['the receipt', (key: string) => key.includes('/receipts/')],
    ['joining', (key: string) => key.startsWith('catalog/')],
  ])('the room is given back when %s fails', async (_, isHit) => {
    const staging = memoryStaging();
    const store = new FaultyStore(new MemoryStore(newBucket()), ({ operation, key }) =>
      operation === 'create' && isHit(key) ? refuse('Denied') : undefined,
    );
    await using manager = open(newBucket(), { store });
    const saving = manager.save({ version: 1, buffers: { a: bytes(9) }, staging });
    expect(await failure(saving)).toContain('Denied');
    expect(staging).toMatchObject({ heldCount: 0 });
  });

  test('what is no staging is refused before anything is read', async () => {
    await using manager = open(newBucket());
    const save = (staging: unknown) =>
      failure(manager.save({ version: 1, buffers: { a: bytes(9) }, staging: staging as Staging }));
    for (const staging of [null, 'memory', {}])
      expect(await save(staging)).toMatch(/^InvalidArgument: staging is .*; it takes an object with stage$/);
  });
});
