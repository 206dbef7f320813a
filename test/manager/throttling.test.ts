import { CheckpointError } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { ManualClock } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { bytes, newBucket, open } from './memory-run.ts';

test.each(['run.json', 'catalog/', 'writers/', 'version_1/1.1/receipts/', 'version_1/1.1/manifest-'])(
  'a store that throttles the create of %s is left alone for as long as it asks',
  async (prefix) => {
    const bucket = newBucket();
    const clock = new ManualClock({ autoAdvance: true });
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    const sentAtMs: number[] = [];
    store.create = async (key, data, options) => {
      if (!key.startsWith(prefix)) return create(key, data, options);
      sentAtMs.push(clock.monotonicMs());
      if (sentAtMs.length > 1) return create(key, data, options);
      throw new CheckpointError('Throttled', 'slow down', { retryAfterMs: 5000 });
    };
    await using manager = open(bucket, { store, clock });
    await manager.save({ version: 1, buffers: { a: bytes(10) } });
    const [first = 0, second = 0] = sentAtMs;
    expect(second - first).toBeGreaterThanOrEqual(5000);
    expect(second - first).toBeLessThanOrEqual(5005); // five times the base of these tests
  },
);
