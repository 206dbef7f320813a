import { CheckpointError, type GetOptions, type StoredObject } from '@holdfast/core/contract';
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
      (manager: ReturnType<typeof open>) => manager.admin.verify({ version: 2, level: 2, quarantine: true }),
      (manager: ReturnType<typeof open>) => manager.admin.fsck(),
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

/** The first `times` reads of a payload, or looks at it, say that it is missing. */
class AbsentMindedStore extends MemoryStore {
  left = 1;

  #forget(key: string): void {
    if (!key.includes('/w0/') && !/\/0\.\d+-/.test(key)) return;
    if (this.left-- > 0) throw new CheckpointError('NotFound', `there is no object ${key}`);
  }

  override async readInto(...args: Parameters<MemoryStore['readInto']>): Promise<number> {
    this.#forget(args[0]);
    return super.readInto(...args);
  }

  override async head(...args: Parameters<MemoryStore['head']>): ReturnType<MemoryStore['head']> {
    this.#forget(args[0]);
    return super.head(...args);
  }
}

describe('a quarantine is final', () => {
  test.each([0, 2] as const)(
    'at level %i one answer that a payload is missing is not enough for it',
    async (level) => {
      const bucket = await savedRun();
      const store = new AbsentMindedStore(bucket);
      await using manager = open(bucket, { store });
      const result = await manager.admin.verify({ version: 2, level, quarantine: true });
      expect(store.left).toBeLessThan(1);
      expect(result).toMatchObject({ isDoubtful: true, recorded: 'none', latest: 2n });
      expect(result.note).toContain('a second check found something else');
      expect((await manager.list())[0]?.state).toBe('live');
    },
  );

  test.each([0, 1, 2] as const)('at level %i a payload that is missing twice is enough', async (level) => {
    const bucket = await savedRun();
    for (const key of bucket.keys()) if (/version_2.*\/0\.\d+-/.test(key)) bucket.remove(key);
    await using manager = open(bucket);
    const result = await manager.admin.verify({ version: 2, level, quarantine: true });
    expect(result).toMatchObject({ isDoubtful: false, recorded: 'quarantined', latest: 1n });
  });
});
