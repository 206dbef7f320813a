/** Numbers that only a forged record has: a run refuses to go past them, and can still be read. */

import {
  type CatalogEntry,
  catalogKey,
  claimKey,
  decodeRecord,
  encodeRecord,
  SEQ_MAX,
  UINT32_MAX,
} from '@holdfast/core/internal/format/index';
import type { MemoryBucket } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

async function savedRun(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using manager = open(bucket, { attempt: 'first' });
  await manager.save({ version: 1, buffers: { a: bytes(100) } });
  return bucket;
}

/** Replaces the newest entry by another with a correct checksum, or adds one after it. */
function forge(bucket: MemoryBucket, change: (entry: CatalogEntry) => Partial<CatalogEntry>): void {
  const newest = bucket.keys().findLast((key) => key.startsWith('catalog/')) as string;
  const old = decodeRecord('catalog-entry', bucket.find(newest)?.bytes as Uint8Array, { key: newest });
  const entry = { ...old, ...change(old) };
  const { bytes: forged } = encodeRecord('catalog-entry', entry);
  if (entry.seq === old.seq) bucket.damage(newest, () => forged);
  else bucket.insert(catalogKey(entry.seq), forged);
}

async function latestOf(bucket: MemoryBucket): Promise<bigint | undefined> {
  await using manager = open(bucket);
  return (await manager.latest())?.version;
}

async function saveIn(bucket: MemoryBucket, attempt: string): Promise<string> {
  await using manager = open(bucket, { attempt });
  return await failure(manager.save({ version: 2, buffers: { a: bytes(100) } }));
}

test('an attempt', async () => {
  const bucket = await savedRun();
  forge(bucket, ({ state }) => ({ state: { ...state, epoch: UINT32_MAX } }));
  expect(await saveIn(bucket, 'second')).toMatch(/^Conflict: .*no attempt is left/);
  expect(await latestOf(bucket)).toBe(1n);
});

test('a rollback', async () => {
  const bucket = await savedRun();
  forge(bucket, ({ state }) => ({ state: { ...state, lineage: UINT32_MAX } }));
  await using manager = open(bucket);
  const rollback = manager.admin.rollback({ to: 1, reason: 'diverged' });
  expect(await failure(rollback)).toMatch(/^Conflict: .*no rollback is left/);
  expect(await latestOf(bucket)).toBe(1n);
});

test('a process of a writer', async () => {
  const bucket = await savedRun();
  const claim = { writer: 0, nonce: 'ab', host: 'vm', pid: 7, life: '', incarnation: UINT32_MAX };
  const key = claimKey({ lineage: 1, epoch: 1, writer: 0, incarnation: UINT32_MAX });
  bucket.insert(key, encodeRecord('claim', { format: undefined, ...claim }).bytes);
  expect(await saveIn(bucket, 'first')).toMatch(/^Conflict: no process is left for writer 0: 4294967295/);
  expect(await latestOf(bucket)).toBe(1n);
});

test('a catalog entry', async () => {
  const bucket = await savedRun();
  // Without the entries before it, the newest one would mean that the store lost them.
  for (let seq = SEQ_MAX - 10; seq <= SEQ_MAX; seq += 1)
    forge(bucket, ({ entryId }) => ({ seq, parentId: entryId, entryId: `${seq}`.padEnd(32, '0') }));
  expect(await saveIn(bucket, 'second')).toMatch(/^Conflict: no catalog entry is left: 1000000000000000/);
  expect(await latestOf(bucket)).toBe(1n);
});
