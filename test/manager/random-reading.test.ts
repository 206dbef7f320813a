import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import {
  type Checkpoint,
  CheckpointError,
  crc32c,
  createCheckpointManager,
  type RandomSource,
  systemClock,
} from '@holdfast/core';
import { MemoryBucket, MemoryStore, ObservedStore } from '@holdfast/core/store';
import { openStore } from '@holdfast/stores';
import { ManualClock } from '@holdfast/testkit';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, SETTINGS } from './memory-run.ts';
import { timedRun } from './retention-run.ts';

const SIZE = 300_077;
const PART = SETTINGS.partSizeBytesMin;
const DATA = bytes(SIZE, 2);

const leaseKeys = (bucket: MemoryBucket) => bucket.keys().filter((key) => key.startsWith('leases/'));

async function read(source: RandomSource, offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
  const buffer = new Uint8Array(lengthBytes);
  await source.readInto(offsetBytes, buffer);
  return buffer;
}

async function savedRun() {
  const bucket = newBucket();
  const manager = open(bucket);
  await manager.save({ version: 2, buffers: { a: DATA, empty: new Uint8Array(0) } });
  const checkpoint = (await manager.latest()) as Checkpoint;
  return { bucket, manager, checkpoint };
}

describe('a file of a committed checkpoint, at any position', () => {
  test('small reads at odd offsets cost one request each, and the proof one for each gap', async () => {
    const { bucket, manager } = await savedRun();
    const calls: string[] = [];
    const store = new ObservedStore(new MemoryStore(bucket), {
      clock: systemClock,
      onCall: ({ operation, bytes: count }) => operation === 'readInto' && calls.push(`${count}`),
    });
    await using reader = open(bucket, { store });
    const source = (await (await reader.latest())?.openSource('a')) as RandomSource;
    expect(source.sizeBytes).toBe(SIZE);
    for (const [at, length] of [
      [1, 1],
      [2, 9],
      [4001, 777],
      [SIZE - 5, 5],
    ] as const)
      expect(Buffer.compare(await read(source, at, length), DATA.subarray(at, at + length))).toBe(0);
    expect(calls).toEqual(['1', '9', '777', '5']);
    calls.length = 0;
    await source.assertUnchanged();
    expect(calls.sort()).toEqual([1, 4001 - 11, PART - 4778, (SIZE % PART) - 5].map(String).sort());
    await source.close();
    await manager.close();
  });

  test('damage where it was read is Corrupt in the end; elsewhere it is not', async () => {
    const { bucket, checkpoint, manager } = await savedRun();
    const key = bucket.keys().find((each) => each.endsWith('/a')) as string;
    bucket.damage(key, (data) => data.with(70_000, (data[70_000] as number) ^ 1));
    const source = await checkpoint.openSource('a');
    await read(source, 0, 10);
    await source.assertUnchanged();
    await read(source, 100_000, 10);
    expect(await failure(source.assertUnchanged())).toMatch(
      /^Corrupt: a bytes 65,536–131,071 .*expected [0-9a-f]{8}, found [0-9a-f]{8}/,
    );
    await source.close();
    await manager.close();
  });

  test('a file without a byte; one that is not there leaves no lease; a checkpoint that is being written', async () => {
    const { bucket, checkpoint, manager } = await savedRun();
    const source = await checkpoint.openSource('empty');
    await read(source, 0, 0);
    await source.assertUnchanged();
    expect(await failure(read(source, 0, 1))).toContain('InvalidArgument');
    await source.close();
    expect(await failure(checkpoint.openSource('none'))).toBe('NotFound: version 2 has no file "none"');
    expect(leaseKeys(bucket)).toEqual([]);
    await using written = await manager.create(3);
    expect(await failure(written.openSource('a'))).toContain(
      'InvalidArgument: this checkpoint is being written',
    );
    await manager.close();
  });

  test('requests that are repeated are told', async () => {
    const { bucket, manager } = await savedRun();
    const store = new MemoryStore(bucket);
    const readInto = store.readInto.bind(store);
    let failures = 2;
    store.readInto = async (...args) => {
      if (failures-- > 0) throw new CheckpointError('Unavailable', 'for a while');
      return readInto(...args);
    };
    await using reader = open(bucket, { store });
    const told: string[] = [];
    const source = (await (
      await reader.latest()
    )?.openSource('a', {
      onProgress: (event) => event.type === 'retry' && told.push(event.detail),
    })) as RandomSource;
    expect(Buffer.compare(await read(source, 5, 5), DATA.subarray(5, 10))).toBe(0);
    expect(told).toEqual([expect.stringContaining('read of "a" at 5'), expect.stringContaining('try 3 in')]);
    await source.close();
    await manager.close();
  });
});

describe('its lease', () => {
  test('is held from open to close, and renewed', async () => {
    const clock = new ManualClock();
    const bucket = new MemoryBucket({ crc32c, clock });
    const manager = open(bucket, { clock });
    await manager.save({ version: 1, buffers: { a: bytes(100) } });
    const source = (await (await manager.latest())?.openSource('a')) as RandomSource;
    expect(await manager.admin.leases()).toMatchObject([{ version: 1n, isExpired: false }]);
    await clock.advance(3_600_000);
    expect((await manager.admin.leases()).filter(({ isExpired }) => !isExpired)).not.toEqual([]);
    await read(source, 1, 2);
    await source.assertUnchanged();
    await source.close();
    expect(await manager.admin.leases()).toEqual([]);
    await source.close();
    expect(clock.sleeperCount).toBe(0);
    await manager.close();
  });

  test('keeps collection away until then', async () => {
    const run = timedRun();
    await using manager = run.open();
    for (const version of [1, 2]) await manager.save({ version, buffers: { a: bytes(1000, version) } });
    const source = (await (await manager.get(1))?.openSource('a')) as RandomSource;
    const collect = () => manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
    await collect();
    expect(await collect()).toMatchObject({ removed: [], postponed: [{ version: 1n }] });
    expect(Buffer.compare(await read(source, 0, 1000), bytes(1000, 1))).toBe(0);
    await source.assertUnchanged();
    await source.close();
    expect((await collect()).removed).toEqual([1n]);
  });

  test.each(['manager', 'checkpoint', 'signal'])(
    'the end of the %s ends the source and releases it',
    async (how) => {
      const { bucket, checkpoint, manager } = await savedRun();
      const stop = new AbortController();
      const source = await checkpoint.openSource('a', { signal: stop.signal });
      expect(leaseKeys(bucket)).toHaveLength(1);
      if (how === 'manager') {
        await manager.close();
        expect(leaseKeys(bucket)).toEqual([]);
      } else if (how === 'checkpoint') await checkpoint[Symbol.asyncDispose]();
      else stop.abort();
      await source.close();
      expect(leaseKeys(bucket)).toEqual([]);
      expect(await failure(read(source, 0, 1))).toMatch(/^Aborted: /);
      expect(await failure(source.assertUnchanged())).toMatch(/^Aborted: /);
      await manager.close();
    },
  );

  test('a manager that was closed opens nothing', async () => {
    const { bucket, checkpoint, manager } = await savedRun();
    await manager.close();
    expect(await failure(checkpoint.openSource('a'))).toMatch(/^(Aborted|InvalidArgument): /);
    expect(leaseKeys(bucket)).toEqual([]);
  });
});

describe('on a local disk', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'holdfast-random-'));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  test('whatever is read is right and can be proven; a byte that rots on the disk is found out', async () => {
    const store = await openStore(pathToFileURL(directory).href);
    await using manager = createCheckpointManager({ store, settings: SETTINGS });
    await manager.save({ version: 1, buffers: { a: DATA } });
    const checkpoint = (await manager.latest()) as Checkpoint;
    const anyRead = fc.tuple(fc.nat(SIZE - 1), fc.oneof(fc.nat(64 * 1024), fc.nat(SIZE)));
    await fc.assert(
      fc.asyncProperty(fc.array(anyRead, { maxLength: 6 }), async (reads) => {
        const source = await checkpoint.openSource('a');
        const ranges = reads.map(([at, length]) => [at, Math.min(length, SIZE - at)] as const);
        const found = await Promise.all(ranges.map(([at, length]) => read(source, at, length)));
        for (const [index, [at, length]] of ranges.entries())
          expect(Buffer.compare(found[index]!, DATA.subarray(at, at + length))).toBe(0);
        await source.assertUnchanged();
        await source.close();
      }),
      { numRuns: 15 },
    );
    const path = filesBelow(directory).find((name) => name.endsWith('/a')) as string;
    const stored = readFileSync(path);
    stored[200_000]! ^= 1;
    writeFileSync(path, stored);
    const source = await checkpoint.openSource('a');
    await read(source, 199_000, 10);
    expect(await failure(source.assertUnchanged())).toContain('Corrupt: a bytes 196,608–262,143');
    await source.close();
  });
});

function filesBelow(directory: string): string[] {
  return readdirSync(directory, { recursive: true, encoding: 'utf8' }).map((name) => join(directory, name));
}
