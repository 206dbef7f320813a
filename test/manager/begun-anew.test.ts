/** A run is removed and begun again at the same place while managers of it are open. */

import { crc32c } from '@holdfast/core';
import { catalogKey } from '@holdfast/core/internal/format/index';
import { MemoryBucket } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, open, readAll } from './memory-run.ts';
import { keysOf } from './sweep-run.ts';

const newBucket = () => new MemoryBucket({ crc32c, mayReuseKey: () => true });
const ANOTHER_RUN = { code: 'Corrupt', context: { catalog: 'another-run' } };

type Manager = ReturnType<typeof open>;

async function saveAll(manager: Manager, versions: readonly number[], seed: number): Promise<void> {
  for (const version of versions)
    await manager.save({ version, buffers: { a: bytes(10, seed) }, dedupe: 'off' });
}

function remove(bucket: MemoryBucket): void {
  for (const key of keysOf(bucket, '')) bucket.remove(key);
}

/** Another run with `versions` at the same place. */
async function beginAnew(bucket: MemoryBucket, versions: readonly number[]): Promise<void> {
  remove(bucket);
  await using manager = open(bucket, { attempt: 'job-1' });
  await saveAll(manager, versions, 100);
}

async function contentOf(manager: Manager): Promise<Uint8Array | undefined> {
  const found = await manager.latest();
  return found ? new Uint8Array(await readAll(found.openInputStream('a'))) : undefined;
}

// Entry 1 is the takeover. The old run has entries 1 to 3.
test.each([
  ['fewer', [2]],
  ['as many', [1, 2]],
  ['more', [1, 2, 3]],
])('the new run has %s entries: no manager of the old run reads it or writes to it', async (_, versions) => {
  const bucket = newBucket();
  await using reader = open(bucket);
  await using writer = open(bucket, { attempt: 'job-0' });
  await using decider = open(bucket);
  await saveAll(writer, [1, 2], 1);
  await decider.list();
  expect(await contentOf(reader)).toEqual(bytes(10, 1));

  await beginAnew(bucket, versions);
  const there = keysOf(bucket, 'catalog/');
  for (const acting of [
    () => contentOf(reader),
    () => reader.list(),
    () => saveAll(writer, [9], 1),
    () => decider.admin.pin(2n, 'kept'),
    () => decider.admin.collect(),
  ])
    await expect(acting()).rejects.toMatchObject(ANOTHER_RUN);
  expect(keysOf(bucket, 'catalog/')).toEqual(there);
  await using fresh = open(bucket);
  expect(await contentOf(fresh)).toEqual(bytes(10, 100));
  expect(await fresh.list()).toHaveLength(versions.length);
});

test('an entry that was written again with the same bytes is the same entry', async () => {
  const bucket = newBucket();
  await using writer = open(bucket, { attempt: 'job-0' });
  await saveAll(writer, [1], 1);
  for (const key of keysOf(bucket, '')) {
    const copy = bucket.find(key)?.bytes as Uint8Array;
    bucket.remove(key);
    bucket.insert(key, copy);
  }
  await saveAll(writer, [2], 2);
  expect(await contentOf(writer)).toEqual(bytes(10, 2));
});

test('another entry of the same run under a number that was seen', async () => {
  const bucket = newBucket();
  await using writer = open(bucket, { attempt: 'job-0' });
  await saveAll(writer, [1], 1);
  const first = new Map(keysOf(bucket, '').map((key) => [key, bucket.find(key)?.bytes as Uint8Array]));
  await saveAll(writer, [2], 2);
  // The backup of the run is restored, and another process continues from it.
  remove(bucket);
  for (const [key, copy] of first) bucket.insert(key, copy);
  await using other = open(bucket, { attempt: 'job-0' });
  await saveAll(other, [2], 3);
  await expect(writer.list()).rejects.toMatchObject({
    code: 'StoreRegressed',
    context: { key: catalogKey(3) },
  });
});

describe('a manager for the run of one id', () => {
  const options = { attempt: 'job-0' };

  test('works with that run, and refuses the run that was begun at its place, which it does not enter', async () => {
    const bucket = newBucket();
    await using first = open(bucket, options);
    const { runId } = await first.join();
    await saveAll(first, [1], 1);
    await using second = open(bucket, { ...options, runId });
    await saveAll(second, [2], 2);
    expect((await second.join()).runId).toBe(runId);

    await beginAnew(bucket, [1]);
    const there = keysOf(bucket, '');
    await using late = open(bucket, { ...options, runId });
    for (const acting of [() => late.join(), () => saveAll(late, [9], 1), () => late.latest()])
      await expect(acting()).rejects.toMatchObject(ANOTHER_RUN);
    expect(keysOf(bucket, '')).toEqual(there);
    await using fresh = open(bucket);
    expect((await fresh.admin.log()).map(({ kind }) => kind)).toEqual(['commit', 'takeover']);
  });

  test('begins none where that run was removed', async () => {
    const bucket = newBucket();
    await using first = open(bucket, options);
    const { runId } = await first.join();
    remove(bucket);
    await using late = open(bucket, { ...options, runId });
    for (const acting of [() => late.join(), () => saveAll(late, [9], 1), () => late.latest()])
      await expect(acting()).rejects.toMatchObject({ code: 'StoreRegressed', message: /is no longer here/ });
    expect(keysOf(bucket, '')).toEqual([]);
  });
});
