/** Writers that wait for the others: how many requests all of them send together. */

import { crc32c } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, open, SETTINGS } from './memory-run.ts';

const MINUTE_MS = 60_000;

/** Listings that one of `count` writers sends while it waits ten minutes for the others. */
async function listingsWhileWaiting(count: number): Promise<{ catalog: number; receipts: number }> {
  const clock = new ManualClock({ autoAdvance: true });
  const bucket = new MemoryBucket({ crc32c, clock });
  const listed = { catalog: 0, receipts: 0 };
  const store = new (class extends MemoryStore {
    override list(...args: Parameters<MemoryStore['list']>) {
      if (args[0].startsWith('catalog/')) listed.catalog++;
      if (args[0].endsWith('/receipts/')) listed.receipts++;
      return super.list(...args);
    }
  })(bucket);
  const settings = { ...SETTINGS, commitTimeoutMs: 10 * MINUTE_MS };
  await using manager = open(bucket, {
    ...{ store, clock, settings, attempt: 'job', writer: { index: 0, count } },
  });
  expect(await failure(manager.save({ version: 1, buffers: { a: bytes(10) } }))).toMatch(/^Incomplete/);
  return listed;
}

describe('a writer that waits for the others', () => {
  test('in a job of two looks every two seconds, at the receipts too', async () => {
    const { catalog, receipts } = await listingsWhileWaiting(2);
    expect(catalog).toBeGreaterThan(300);
    expect(receipts).toBeGreaterThan(300);
  });

  test('in a job of ten thousand looks every twenty seconds, and seldom at the ten pages of receipts', async () => {
    const { catalog, receipts } = await listingsWhileWaiting(10_000);
    expect(catalog).toBeGreaterThan(30);
    expect(catalog).toBeLessThan(70);
    expect(receipts).toBeLessThan(25);
  });
});
