/**
 * The rights that each role of docs/install.md needs on a store. The policies for clouds follow
 * from this.
 */

import { crc32c, createCheckpointManager, type RunManager } from '@holdfast/core';
import { MemoryBucket, MemoryStore, ObservedStore, type StoreOperation } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { bytes, SETTINGS } from './memory-run.ts';

const CREATES: ReadonlySet<StoreOperation> = new Set(['create', 'beginUpload']);
const LARGE_BYTES = 200_000;

/** `version_…` for all versions, otherwise the first part of the key. */
function placeOf(key: string): string {
  const [first = ''] = key.split('/');
  return first.startsWith('version_') ? 'version_' : first;
}

/**
 * The places in which `work` creates and deletes. Reads are not listed: every role may read the
 * run.
 */
async function changesOf(
  bucket: MemoryBucket,
  work: (manager: RunManager) => Promise<unknown>,
  retention?: { keepLast: number; graceMs: number },
): Promise<{ creates: string[]; deletes: string[] }> {
  const creates = new Set<string>();
  const deletes = new Set<string>();
  const onCall = ({ operation, key }: { operation: StoreOperation; key: string }) => {
    if (CREATES.has(operation)) creates.add(placeOf(key));
    if (operation === 'deleteMany') deletes.add(placeOf(key));
  };
  const clock = { nowMs: () => 0, monotonicMs: () => performance.now(), sleep: async () => undefined };
  const store = new ObservedStore(new MemoryStore(bucket), { clock, onCall });
  const manager = createCheckpointManager({ store, settings: SETTINGS, ...(retention && { retention }) });
  await work(manager);
  await manager.close();
  return { creates: [...creates].sort(), deletes: [...deletes].sort() };
}

async function save(manager: RunManager, version: number): Promise<void> {
  await manager.save({ version, buffers: { small: bytes(10, version), large: bytes(LARGE_BYTES, version) } });
}

test('a trainer creates everything, and deletes leases and notes of uploads; a reader only handles leases; a collector writes decisions', async () => {
  const bucket = new MemoryBucket({ crc32c });
  const trainer = await changesOf(bucket, async (manager) => {
    for (const version of [1, 2, 3]) await save(manager, version);
    await manager.restore({ to: { small: new Uint8Array(10), large: new Uint8Array(LARGE_BYTES) } });
  });
  expect(trainer.creates).toEqual(['catalog', 'leases', 'run.json', 'uploads', 'version_', 'writers']);
  expect(trainer.deletes).toEqual(['leases', 'uploads']);

  const reader = await changesOf(bucket, async (manager) => {
    await manager.list();
    await manager.admin.verify({ record: false });
    await manager.restore({
      version: 2,
      to: { small: new Uint8Array(10), large: new Uint8Array(LARGE_BYTES) },
    });
  });
  expect(reader).toEqual({ creates: ['leases'], deletes: ['leases'] });

  const collector = await changesOf(bucket, async (manager) => {
    await manager.admin.pin(1, 'good');
    await manager.admin.unpin(1);
    await manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
    await manager.admin.verify();
  });
  expect(collector.creates).toEqual(['catalog', 'leases']);
  expect(collector.deletes).toContain('version_');
});
