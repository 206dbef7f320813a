/** A store rejects records by their checksum because a bit changed on the way. */

import { MemoryStore } from '@holdfast/core/store';
import { type FaultPlan, FaultyStore, refuse } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

/** Each new record is rejected `times` times. */
function refusing(times: number): FaultPlan {
  const refused = new Map<string, number>();
  return ({ operation, key }) => {
    const count = refused.get(key) ?? 0;
    if (operation !== 'create' || count === times) return undefined;
    refused.set(key, count + 1);
    return refuse('Corrupt');
  };
}

test('each is sent again, the entry of the catalog included: the save commits', async () => {
  const bucket = newBucket();
  const store = new FaultyStore(new MemoryStore(bucket), refusing(2));
  await using manager = open(bucket, { store });
  for (const version of [1, 2])
    expect(await manager.save({ version, buffers: { a: bytes(100_000, version) } })).toMatchObject({
      isCommitted: true,
    });
  expect((await manager.admin.verify({ version: 2, record: false })).problems).toEqual([]);
  expect(bucket.violations).toEqual([]);
});

test('a store that refuses each of them ends the save, and nothing was committed', async () => {
  const bucket = newBucket();
  const store = new FaultyStore(new MemoryStore(bucket), refusing(1000));
  await using manager = open(bucket, { store });
  expect(await failure(manager.save({ version: 1, buffers: { a: bytes(10) } }))).toMatch(/^Corrupt: /);
  expect(bucket.keys()).toEqual([]);
});
