import { systemClock } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore, ObservedStore } from '@holdfast/core/store';
import { crc32c } from '../crc32c.ts';
import { FaultyStore } from '../faults/faulty-store.ts';
import { storeConformance } from '../vitest.ts';

storeConformance('memory store', () => {
  const bucket = new MemoryBucket({ crc32c });
  return { open: async () => new MemoryStore(bucket) };
});

storeConformance('memory store with small limits and few capabilities', () => {
  const bucket = new MemoryBucket();
  const capabilities = {
    maxCreateBytes: 5000,
    minPartBytes: 10,
    maxPartBytes: 999,
    maxParts: 3,
    maxDeleteKeys: 4,
    maxListKeys: 3,
    resumesUploads: false,
  };
  return { open: async () => new MemoryStore(bucket, { capabilities }) };
});

storeConformance('memory store behind the wrappers', () => {
  const bucket = new MemoryBucket({ crc32c });
  return {
    open: async () =>
      new ObservedStore(new FaultyStore(new MemoryStore(bucket)), {
        clock: systemClock,
        onCall: () => undefined,
      }),
  };
});
