/**
 * Files opened by callers. Reads end in time whatever the store does, and a forgotten file costs
 * nothing.
 */

import { type Checkpoint, CheckpointError, type Clock, type RunManager, systemClock } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { crc32c, ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { deafStore } from './deaf-store.ts';
import { bytes, failure, newBucket, open, readAll, SETTINGS } from './memory-run.ts';

const DATA = bytes(600_000, 3);
const LEASE_TTL_MS = 900_000;

const leaseKeys = (bucket: MemoryBucket) => bucket.keys().filter((key) => key.startsWith('leases/'));

/**
 * A reader of a saved run, on a store that can hang and a clock that advances when everything
 * waits.
 */
async function deafRun() {
  const clock = new ManualClock({ autoAdvance: true });
  const bucket = newBucket();
  await using writer = open(bucket);
  await writer.save({ version: 1, buffers: { a: DATA } });
  const { store, goDeaf } = deafStore(bucket);
  const manager = open(bucket, { store, clock });
  const checkpoint = (await manager.latest()) as Checkpoint;
  /** Milliseconds on the clock of the run. */
  const timeOf = async (work: () => Promise<unknown>) => {
    const beganMs = clock.monotonicMs();
    await work();
    return clock.monotonicMs() - beganMs;
  };
  return { bucket, checkpoint, clock, goDeaf, manager, timeOf };
}

describe('a store that answers no call any more: within a second', () => {
  test('cancel ends a stream, before its first chunk and between chunks', async () => {
    const { checkpoint, goDeaf, timeOf } = await deafRun();
    const begun = checkpoint.openInputStream('a').getReader();
    await begun.read();
    const fresh = checkpoint.openInputStream('a').getReader();
    goDeaf();
    for (const reader of [begun, fresh]) {
      const pending = reader.read();
      expect(await timeOf(() => reader.cancel(new Error('enough')))).toBeLessThan(1000);
      expect(await pending).toEqual({ done: true, value: undefined });
    }
  });

  test('return ends the iterator of a stream although a chunk is awaited', async () => {
    const { checkpoint, goDeaf, timeOf } = await deafRun();
    const chunks = checkpoint.openInputStream('a')[Symbol.asyncIterator]();
    for (let count = 0; count < 4; count += 1) await chunks.next();
    goDeaf();
    // Bytes that were read ahead are still delivered.
    const pending = (async () => {
      while (!(await chunks.next()).done);
    })().catch((error: unknown) => error);
    expect(await timeOf(async () => chunks.return?.())).toBeLessThan(1000);
    expect(await pending).toMatchObject({ code: 'Aborted' });
  });

  test('close ends a source, and what is read there', async () => {
    const { checkpoint, goDeaf, timeOf } = await deafRun();
    const source = await checkpoint.openSource('a');
    goDeaf();
    const reading = failure(source.readInto(0, new Uint8Array(10)));
    expect(await timeOf(() => source.close())).toBeLessThan(1000);
    expect(await reading).toBe('Aborted: "a" was closed');
    expect(await failure(source.readInto(0, new Uint8Array(10)))).toBe('Aborted: "a" was closed');
  });

  test('close ends the manager, with streams, a source, a save, a restore and a commit under way', async () => {
    const { checkpoint, goDeaf, manager, timeOf } = await deafRun();
    const reader = checkpoint.openInputStream('a').getReader();
    await reader.read();
    const source = await checkpoint.openSource('a');
    const written = await manager.create(2);
    const whole = written.openOutputStream('w').getWriter();
    await whole.close();
    const other = await manager.create(3);
    const output = other.openOutputStream('a').getWriter();
    await output.write(DATA);
    goDeaf();
    const failures = [
      manager.restore({ to: { a: new Uint8Array(DATA.byteLength) } }),
      manager.save({ version: 4, buffers: { b: DATA } }),
      written.commit(),
      source.readInto(0, new Uint8Array(10)),
      output.write(new Uint8Array(20_000_000)),
      (async () => {
        while (!(await reader.read()).done);
      })(),
    ].map(failure);
    expect(await timeOf(() => manager.close())).toBeLessThan(1000);
    for (const text of await Promise.all(failures)) expect(text).toMatch(/^(Aborted|OutcomeUnknown): /);
  });

  test('an output stream can be aborted while a write waits', async () => {
    const { goDeaf, manager, timeOf } = await deafRun();
    const output = (await manager.create(2)).openOutputStream('a').getWriter();
    await output.write(DATA);
    goDeaf();
    const writing = output.write(new Uint8Array(20_000_000)).catch((error: Error) => error.message);
    expect(await timeOf(() => output.abort(new Error('enough')))).toBeLessThan(1000);
    expect(await writing).toBe('enough');
  });

  test('a lease that cannot be given back is left to expire, and nothing waits for it any more', async () => {
    const { bucket, checkpoint, clock, goDeaf } = await deafRun();
    const reader = checkpoint.openInputStream('a').getReader();
    while (!(await reader.read()).done && leaseKeys(bucket).length === 0);
    goDeaf(['readInto']);
    await reader.cancel();
    const beganMs = clock.monotonicMs();
    while (clock.sleeperCount > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(clock.monotonicMs() - beganMs).toBeLessThan(3000);
    expect(leaseKeys(bucket)).toHaveLength(1);
  });
});

describe('a file that is left open', () => {
  test('its lease goes with the manager, and no timer stays', async () => {
    const clock = new ManualClock();
    const bucket = new MemoryBucket({ crc32c, clock });
    const manager = open(bucket, { clock });
    await manager.save({ version: 1, buffers: { a: DATA } });
    const checkpoint = (await manager.latest()) as Checkpoint;
    await checkpoint.openInputStream('a').getReader().read();
    await checkpoint.openSource('a');
    expect(leaseKeys(bucket)).toHaveLength(2);
    await manager.close();
    expect(leaseKeys(bucket)).toEqual([]);
    expect(clock.sleeperCount).toBe(0);
  });

  test('its lease is renewed without keeping the process alive', async () => {
    const waits: { ms: number; isBackground: boolean }[] = [];
    const clock: Clock = {
      ...systemClock,
      sleep: (ms, signal, options) => {
        waits.push({ ms, isBackground: options?.isBackground ?? false });
        return systemClock.sleep(ms, signal, options);
      },
    };
    await using manager = open(newBucket(), { clock });
    await manager.save({ version: 1, buffers: { a: DATA } });
    await ((await manager.latest()) as Checkpoint).openInputStream('a').getReader().read();
    const renewals = waits.filter(({ ms }) => ms > LEASE_TTL_MS / 4 && ms <= LEASE_TTL_MS / 3);
    expect(renewals.map(({ isBackground }) => isBackground)).toEqual([true]);
  });

  test.each(['openInputStream', 'openSource'] as const)(
    '%s: its lease is renewed for four lives after the last read, and not for ever; the next read takes one',
    async (call) => {
      const { bucket, clock, manager, read } = await idleRun(call);
      await read();
      await clock.advance(3 * LEASE_TTL_MS);
      expect(await valid(manager)).toBe(1);
      await clock.advance(2.5 * LEASE_TTL_MS);
      expect([await valid(manager), clock.sleeperCount]).toEqual([0, 0]);
      const count = leaseKeys(bucket).length;
      await read();
      expect([await valid(manager), leaseKeys(bucket).length]).toEqual([1, count + 1]);
      await manager.close();
      expect([leaseKeys(bucket), clock.sleeperCount]).toEqual([[], 0]);
    },
  );

  test.each(['openInputStream', 'openSource'] as const)(
    '%s: a read after the lease has lapsed and the version was removed is NotFound',
    async (call) => {
      const { bucket, clock, manager, read } = await idleRun(call);
      await read();
      await clock.advance(6 * LEASE_TTL_MS);
      await using collector = open(bucket);
      await collector.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
      expect(await collector.get(1)).toBeNull();
      expect(await failure(read())).toBe(
        'NotFound: version 1 was removed while it was read: its lease had lapsed',
      );
      await manager.close();
      expect(clock.sleeperCount).toBe(0);
    },
  );

  test('a lease that cannot be taken anew does not end the reading', async () => {
    const bucket = newBucket();
    const clock = new ManualClock();
    const store = new MemoryStore(bucket);
    await using manager = open(bucket, { store, clock });
    await manager.save({ version: 1, buffers: { a: DATA } });
    const reader = ((await manager.latest()) as Checkpoint).openInputStream('a').getReader();
    await reader.read();
    store.create = () => Promise.reject(new CheckpointError('Denied', 'no'));
    await clock.advance(6 * LEASE_TTL_MS);
    expect((await reader.read()).done).toBe(false);
    await reader.cancel();
  });

  test('preventCancel of an iterator leaves the stream readable', async () => {
    await using manager = open(newBucket());
    await manager.save({ version: 1, buffers: { a: DATA } });
    const stream = ((await manager.latest()) as Checkpoint).openInputStream('a');
    for await (const chunk of stream.values({ preventCancel: true })) {
      expect(chunk.byteLength).toBe(SETTINGS.partSizeBytesMin);
      break;
    }
    expect((await readAll(stream)).byteLength).toBe(DATA.byteLength - SETTINGS.partSizeBytesMin);
  });
});

/** A run of two versions. The first is read, one part at a time. */
async function idleRun(call: 'openInputStream' | 'openSource') {
  const clock = new ManualClock();
  const bucket = new MemoryBucket({ crc32c, clock });
  const manager = open(bucket, { clock });
  for (const version of [1, 2]) await manager.save({ version, buffers: { a: DATA } });
  const checkpoint = (await manager.get(1)) as Checkpoint;
  if (call === 'openInputStream') {
    const reader = checkpoint.openInputStream('a').getReader();
    return { bucket, clock, manager, read: () => reader.read() };
  }
  const source = await checkpoint.openSource('a');
  return { bucket, clock, manager, read: () => source.readInto(5, new Uint8Array(10)) };
}

/** Leases that have not expired. */
async function valid(manager: RunManager): Promise<number> {
  const leases = await manager.admin.leases();
  return Math.min(1, leases.filter(({ isExpired }) => !isExpired).length);
}

describe('a checkpoint that is held', () => {
  async function heldRun() {
    const bucket = newBucket();
    const writer = open(bucket);
    await writer.save({ version: 1, buffers: { a: DATA, b: DATA } });
    const reader = open(bucket);
    const checkpoint = (await reader.get(1)) as Checkpoint;
    return { bucket, writer, reader, checkpoint };
  }

  test('has one lease for all that is opened, and until it is disposed', async () => {
    const { bucket, checkpoint } = await heldRun();
    await Promise.all([checkpoint.hold(), checkpoint.hold()]);
    const source = await checkpoint.openSource('a');
    for (const name of ['a', 'b'])
      expect(Buffer.compare(await readAll(checkpoint.openInputStream(name)), DATA)).toBe(0);
    await source.close();
    expect((await checkpoint.details()).files).toHaveLength(2);
    expect(leaseKeys(bucket)).toHaveLength(1);
    await checkpoint[Symbol.asyncDispose]();
    expect(leaseKeys(bucket)).toEqual([]);
    expect(await failure(checkpoint.hold())).toBe('Aborted: version 1 was released');
  });

  test('is read although retention has retired it, and would have removed it', async () => {
    const { bucket, writer, reader, checkpoint } = await heldRun();
    await checkpoint.hold();
    const late = (await reader.get(1)) as Checkpoint;
    await writer.save({ version: 2, buffers: { a: DATA } });
    await writer.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
    expect(await failure(late.hold())).toMatch(/^NotFound: version 1 is retired/);
    expect(Buffer.compare(await readAll(checkpoint.openInputStream('b')), DATA)).toBe(0);
    await reader.close();
    expect(leaseKeys(bucket)).toEqual([]);
  });

  test('is released within a second, whatever the store does', async () => {
    const { checkpoint, goDeaf, timeOf } = await deafRun();
    await checkpoint.hold();
    goDeaf();
    expect(await timeOf(async () => checkpoint[Symbol.asyncDispose]())).toBeLessThan(1000);
  });

  test('cannot be one that is being written', async () => {
    await using manager = open(newBucket());
    expect(await failure((await manager.create(1)).hold())).toMatch(/^InvalidArgument: /);
  });
});
