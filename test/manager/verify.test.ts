import { CheckpointError, crc32c, type RunManager, type VerifyResult } from '@holdfast/core';
import { MemoryBucket, MemoryStore, ObservedStore, type StoreCall } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

const SIZE = 200_000;

async function savedRun(bucket = newBucket()) {
  const manager = open(bucket);
  for (const version of [1, 2]) {
    await manager.save({ version, buffers: { a: bytes(SIZE, version), b: bytes(7, version) } });
  }
  return { bucket, manager };
}

const keyOf = (bucket: MemoryBucket, version: number, end: string) =>
  bucket.keys().find((key) => key.startsWith(`version_${version}/`) && key.includes(end)) as string;

const flip = (bucket: MemoryBucket, key: string, at = 5) =>
  bucket.damage(key, (data) => data.with(at, (data[at] as number) ^ 1));

const stateOf = async (manager: RunManager, version: bigint) => {
  const found = (await manager.list()).find((each) => each.version === version);
  return found && [found.state, found.isVerified, found.isLatest];
};

/** A second manager whose calls are recorded. */
function noted(bucket: MemoryBucket): { manager: RunManager; calls: StoreCall[] } {
  const calls: StoreCall[] = [];
  const clock = { nowMs: Date.now, monotonicMs: () => 0, sleep: async () => undefined };
  const store = new ObservedStore(new MemoryStore(bucket), { clock, onCall: (call) => calls.push(call) });
  return { manager: open(bucket, { store }), calls };
}

describe('what each level looks at', () => {
  test('level 0: one listing and one head per file, the manifest and the receipts, and no payload byte', async () => {
    const { bucket } = await savedRun();
    const { manager, calls } = noted(bucket);
    expect(await manager.admin.verify({ level: 0 })).toMatchObject({
      version: 2n,
      level: 0,
      fileCount: 2,
      bytesRead: 0,
      storedChecksumCount: 2,
      problems: [],
      recorded: 'none',
      note: '',
      latest: 2n,
    });
    const count = (operation: string) => calls.filter((call) => call.operation === operation).length;
    expect([count('head'), count('readInto')]).toEqual([2, 0]);
    expect(calls.filter((call) => call.operation === 'get' && call.key.startsWith('version_'))).toHaveLength(
      2,
    );
  });

  test('level 0 sees through the store’s own checksum what its size does not tell', async () => {
    const { bucket, manager } = await savedRun();
    flip(bucket, keyOf(bucket, 2, '/a'));
    const { problems } = await manager.admin.verify({ level: 0 });
    expect(problems).toEqual([{ name: 'a', message: expect.stringContaining('checksum') }]);
  });

  test('level 0 of a store that tells no checksum says that it compared none', async () => {
    const { bucket, manager } = await savedRun(new MemoryBucket());
    flip(bucket, keyOf(bucket, 2, '/a'));
    expect(await manager.admin.verify({ level: 0 })).toMatchObject({ storedChecksumCount: 0, problems: [] });
    expect((await manager.admin.verify({ level: 1 })).problems).toHaveLength(1);
  });

  test('a receipt that is missing or altered is a problem at every level', async () => {
    for (const level of [0, 1, 2] as const) {
      const { bucket, manager } = await savedRun();
      const key = keyOf(bucket, 2, '/receipts/');
      flip(bucket, key, 300);
      const altered = await manager.admin.verify({ level });
      expect(altered.problems).toEqual([{ name: key, message: expect.stringContaining('does not match') }]);
      bucket.remove(key);
      expect((await manager.admin.verify({ level })).problems).toEqual([
        { name: key, message: `${key} is missing` },
      ]);
    }
  });

  test('a damaged manifest is a problem, and nothing else can be looked at', async () => {
    const { bucket, manager } = await savedRun();
    const key = keyOf(bucket, 2, '/manifest-');
    flip(bucket, key, 200);
    const result = await manager.admin.verify();
    expect(result).toMatchObject({ fileCount: 2, bytesRead: 0, recorded: 'none' });
    expect(result.problems).toEqual([{ name: key, message: expect.stringContaining('does not match') }]);
  });
});

describe('what the catalog learns', () => {
  test('level 2 without problems: verified, once, with a reason in the log', async () => {
    const { manager } = await savedRun();
    expect((await manager.admin.verify({ version: 1 })).recorded).toBe('verified');
    expect(await stateOf(manager, 1n)).toEqual(['live', true, false]);
    expect((await manager.admin.log())[0]).toMatchObject({
      kind: 'verify',
      reason: 'every byte was read and matched',
      checkpoints: [{ version: 1n }],
    });
    const entries = (await manager.admin.log()).length;
    expect((await manager.admin.verify({ version: 1 })).recorded).toBe('verified');
    expect((await manager.admin.log()).length).toBe(entries);
  });

  test('the lower levels, and `record: false`, leave the catalog alone', async () => {
    const { bucket, manager } = await savedRun();
    const before = bucket.keys();
    for (const options of [{ level: 0 }, { level: 1 }, { record: false }] as const) {
      expect((await manager.admin.verify(options)).recorded).toBe('none');
    }
    expect(bucket.keys()).toEqual(before);
  });

  test('problems alone change nothing; with `quarantine` latest and restore fall back to the newest live one', async () => {
    const { bucket, manager } = await savedRun();
    flip(bucket, keyOf(bucket, 2, '/a'));
    expect(await manager.admin.verify()).toMatchObject({ recorded: 'none', latest: 2n });
    expect(await stateOf(manager, 2n)).toEqual(['live', false, true]);

    const result = await manager.admin.verify({ quarantine: true });
    expect(result).toMatchObject({ recorded: 'quarantined', latest: 1n, note: '' });
    expect(await stateOf(manager, 2n)).toEqual(['quarantined', false, false]);
    expect((await manager.admin.log())[0]?.reason).toBe(`verify: ${result.problems[0]?.message}`);
    expect((await manager.latest())?.version).toBe(1n);
    expect(await manager.get(2)).toBeNull();
    const to = { a: new Uint8Array(SIZE), b: new Uint8Array(7) };
    expect(await manager.restore({ to })).toMatchObject({ version: 1n, skipped: [] });
    expect(crc32c(to.a)).toBe(crc32c(bytes(SIZE, 1)));
    expect(await failure(manager.restore({ version: 2, to }))).toContain('Corrupt: version 2 is quarantined');
    await manager.save({ version: 3, buffers: { a: bytes(3) } });
    expect((await manager.latest())?.version).toBe(3n);
  });

  test.each(['', 'x'])(
    'a damaged file whose long name is cut anywhere in the log is quarantined (%s)',
    async (start) => {
      const { bucket, manager } = await savedRun();
      const name = `${start}${'a'.repeat(240)}/${'b'.repeat(160)}/${'\u{1F600}'.repeat(60)}/${'\u{1F600}'.repeat(60)}`;
      await manager.save({ version: 3, buffers: { [name]: bytes(100) } });
      const key = bucket.keys().find((each) => each.includes('\u{1F600}')) ?? '';
      bucket.remove(key);
      expect(await manager.admin.verify({ quarantine: true })).toMatchObject({
        recorded: 'quarantined',
        latest: 2n,
      });
    },
  );

  test('an older one that is quarantined leaves the latest alone; the last one leaves none', async () => {
    const { bucket, manager } = await savedRun();
    for (const version of [1, 2]) bucket.remove(keyOf(bucket, version, '/b'));
    expect((await manager.admin.verify({ version: 1, level: 0, quarantine: true })).latest).toBe(2n);
    expect((await manager.admin.verify({ level: 0, quarantine: true })).latest).toBeNull();
    expect(await manager.latest()).toBeNull();
  });

  test('`quarantine` without problems verifies', async () => {
    const { manager } = await savedRun();
    expect((await manager.admin.verify({ quarantine: true })).recorded).toBe('verified');
  });

  test('a takeover in between does not keep it from being recorded', async () => {
    const { bucket } = await savedRun();
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    let isFirst = true;
    store.create = async (key, ...rest) => {
      if (isFirst && key.startsWith('catalog/')) {
        isFirst = false;
        await open(bucket).join();
      }
      return create(key, ...rest);
    };
    await using manager = open(bucket, { store });
    expect(await manager.admin.verify()).toMatchObject({ recorded: 'verified', note: '' });
  });

  test.each(['Denied', 'ReadOnly', 'StorageFull'] as const)(
    'a store that cannot be written (%s): the result with a note, whatever was found',
    async (code) => {
      const { bucket } = await savedRun();
      const store = new MemoryStore(bucket);
      store.create = () => Promise.reject(new CheckpointError(code, 'no writing here'));
      await using manager = open(bucket, { store });
      const told = (result: VerifyResult) => [result.recorded, result.note, result.problems.length];
      const note = 'this could not be recorded in the catalog: no writing here';
      expect(told(await manager.admin.verify())).toEqual(['none', note, 0]);
      flip(bucket, keyOf(bucket, 2, '/a'));
      expect(told(await manager.admin.verify({ quarantine: true }))).toEqual(['none', note, 1]);
    },
  );

  test('one that another process has quarantined meanwhile: a note', async () => {
    const { bucket, manager: other } = await savedRun();
    flip(bucket, keyOf(bucket, 2, '/a'));
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    let isFirst = true;
    store.create = async (key, ...rest) => {
      if (isFirst && key.startsWith('catalog/')) {
        isFirst = false;
        await other.admin.verify({ quarantine: true });
      }
      return create(key, ...rest);
    };
    await using manager = open(bucket, { store });
    const result = await manager.admin.verify({ quarantine: true });
    expect(result).toMatchObject({ recorded: 'none', latest: 1n });
    expect(result.note).toContain('version 2 is quarantined');
  });

  test('a signal that fires stops it, also before it is recorded', async () => {
    const { bucket } = await savedRun();
    const stop = new AbortController();
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    store.create = async (key, ...rest) => {
      if (key.startsWith('catalog/')) stop.abort();
      return create(key, ...rest);
    };
    await using manager = open(bucket, { store });
    expect(await failure(manager.admin.verify({ signal: stop.signal }))).toMatch(/^(Aborted|OutcomeUnknown)/);
  });
});
