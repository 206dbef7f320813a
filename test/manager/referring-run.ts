/** For the tests of references: runs whose files are recorded with BLAKE3, and what a save does. */

import type { CheckpointManagerOptions } from '@holdfast/core';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FaultyStore } from '@holdfast/testkit';
import { expect } from 'vitest';
import { bytes, newBucket, open } from './memory-run.ts';

export const PAYLOAD = /^version_\d+\/[\d.]+\/\d+\.\d+-/;
export const LARGE = bytes(300_000);
export const SMALL = bytes(700, 2);
export const NO_HASH = new Uint8Array(0);
export const BOTH = { large: LARGE, small: SMALL };

/** A new writer, with the calls that it makes to the store. */
export function writer(bucket: MemoryBucket, options: Partial<CheckpointManagerOptions> = {}) {
  const store = new FaultyStore(options.store ?? new MemoryStore(bucket));
  const manager = open(bucket, { ...options, store });
  const sent = () =>
    store.calls.filter(({ operation, key }) =>
      ['create', 'beginUpload', 'putPart'].includes(operation) ? PAYLOAD.test(key) : false,
    ).length;
  return { manager, store, sent };
}

/**
 * A run whose versions one process has saved, one after the other, all recorded with BLAKE3: a
 * version 0 that is removed again had the same files.
 */
export async function runWith(...versions: readonly Record<string, Uint8Array>[]): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using manager = open(bucket);
  const all = versions.flatMap((buffers, index) =>
    Object.entries(buffers).map(([name, data]) => [`${index}/${name}`, data] as const),
  );
  await manager.save({ version: 0, buffers: Object.fromEntries(all) });
  for (const [index, buffers] of versions.entries())
    await manager.save({ version: index + 1, buffers, onStale: 'off' });
  await manager.admin.collect({ policy: { keepLast: versions.length, graceMs: 0 }, force: true });
  expect(keysOf(bucket, /^version_0\//)).toEqual([]);
  return bucket;
}

export function keysOf(bucket: MemoryBucket, pattern: RegExp): string[] {
  return bucket.keys().filter((key) => pattern.test(key));
}

export function receiptOf(bucket: MemoryBucket, version: number, writerIndex = 0) {
  const [key = ''] = keysOf(bucket, new RegExp(`^version_${version}/.*/receipts/${writerIndex}\\.`));
  return decodeRecord('receipt', bucket.find(key)?.bytes as Uint8Array, { key, store: 'memory' });
}

/** BLAKE3 of the first file of writer 0. */
export function hashOf(bucket: MemoryBucket, version: number) {
  return receiptOf(bucket, version).files[0]?.blake3;
}

export function basesOf(bucket: MemoryBucket, version: number): bigint[] {
  return receiptOf(bucket, version).bases.map((base) => base.version);
}

/** Retires all versions but the latest, and sweeps everything that is no longer referred to. */
export async function collectAllButLatest(bucket: MemoryBucket) {
  await using manager = open(bucket);
  return await manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
}

export async function expectToHold(
  bucket: MemoryBucket,
  version: number,
  buffers: Record<string, Uint8Array>,
) {
  await using manager = open(bucket);
  const to = Object.fromEntries(
    Object.entries(buffers).map(([name, data]) => [name, new Uint8Array(data.length)]),
  );
  await manager.restore({ version, to });
  expect(to).toEqual(buffers);
  expect((await manager.admin.verify({ version, record: false })).problems).toEqual([]);
  expect(bucket.violations).toEqual([]);
}
