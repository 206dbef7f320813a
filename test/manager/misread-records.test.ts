import type { GetOptions, StoredObject } from '@holdfast/core/contract';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

/** Flips one bit in the first `times` answers for each record. The stored bytes are correct. */
class MisreadingStore extends MemoryStore {
  readonly readings = new Map<string, number>();
  readonly #times: number;

  constructor(bucket: MemoryBucket, times: number) {
    super(bucket);
    this.#times = times;
  }

  override async get(key: string, options: GetOptions): Promise<StoredObject> {
    const found = await super.get(key, options);
    const reading = (this.readings.get(key) ?? 0) + 1;
    this.readings.set(key, reading);
    if (reading > this.#times) return found;
    const changed = Uint8Array.from(found.bytes);
    changed[100] = (changed[100] as number) ^ 4;
    return { ...found, bytes: changed };
  }
}

async function savedRun(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using manager = open(bucket);
  for (const version of [1, 2]) await manager.save({ version, buffers: { a: bytes(100, version) } });
  return bucket;
}

describe('a record that was changed on its way', () => {
  test('is read again: every call goes well, and verify quarantines nothing', async () => {
    const bucket = await savedRun();
    const calls = [
      (manager: ReturnType<typeof open>) => manager.latest(),
      (manager: ReturnType<typeof open>) => manager.restore({ to: { a: new Uint8Array(100) } }),
      (manager: ReturnType<typeof open>) => manager.verify({ version: 2, level: 2, quarantine: true }),
      (manager: ReturnType<typeof open>) => manager.fsck(),
      (manager: ReturnType<typeof open>) => manager.save({ version: 3, buffers: { a: bytes(100, 3) } }),
    ];
    for (const call of calls) {
      await using manager = open(bucket, { store: new MisreadingStore(bucket, 2) });
      await call(manager);
    }
    await using manager = open(bucket);
    expect((await manager.list()).map(({ version, state }) => `${version} ${state}`)).toEqual([
      '3 live',
      '2 live',
      '1 live',
    ]);
  });

  test('counts as damaged once three readings were wrong, and is not read for ever', async () => {
    const bucket = await savedRun();
    const store = new MisreadingStore(bucket, Number.POSITIVE_INFINITY);
    await using manager = open(bucket, { store });
    expect(await failure(manager.latest())).toMatch(/^Corrupt: catalog\/.* its checksum says/);
    expect([...store.readings.values()]).toEqual([3]);
  });
});
