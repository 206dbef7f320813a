/** What `overview` says of a run, and what it costs. */

import { crc32c, createCheckpointManager, systemClock } from '@holdfast/core';
import { MemoryBucket, MemoryStore, ObservedStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, newBucket, open } from './memory-run.ts';

const HOUR_MS = 3600_000;

/** A bucket whose clock the test moves. */
function timedBucket() {
  const time = { nowMs: 1_700_000_000_000 };
  const clock = { ...systemClock, nowMs: () => time.nowMs };
  return { time, bucket: new MemoryBucket({ crc32c, clock }) };
}

describe('overview', () => {
  test('counts checkpoints by state, and bytes that were sent or shared', async () => {
    const bucket = newBucket();
    await using run = open(bucket);
    const same = bytes(2000);
    for (const version of [1, 2, 3]) await run.save({ version, buffers: { same, own: bytes(10 + version) } });
    await run.admin.collect({ policy: { keepLast: 2 }, force: true });
    await run.admin.verify({ version: 3, quarantine: true });
    const found = await run.admin.overview();
    const listed = await run.list();
    expect(found).toMatchObject({
      worldSize: 1,
      lineage: 1,
      epoch: 1,
      latest: { version: 3n },
      liveCount: listed.filter(({ state }) => state === 'live').length,
      retiringCount: listed.filter(({ state }) => state === 'retiring').length,
      quarantinedCount: 0,
      verified: { version: 3n },
      verifiedAtMs: null,
      begun: null,
    });
    expect(found.storedBytes).toBe(listed.reduce((sum, each) => sum + each.storedBytes, 0));
    const sizeBytes = listed.reduce((sum, each) => sum + each.sizeBytes, 0);
    expect(found.storedBytes + found.referencedBytes).toBe(sizeBytes);
  });

  test('a run of more than one page is counted whole', async () => {
    const bucket = newBucket();
    await using run = open(bucket, { settings: { entryCheckpointsMax: 4 } });
    for (let version = 1; version <= 20; version++) await run.save({ version, buffers: { a: bytes(3) } });
    const { liveCount, storedBytes, referencedBytes } = await run.admin.overview();
    expect([liveCount, storedBytes + referencedBytes]).toEqual([20, 60]);
  });

  test('attempts and fences of the last day are those since then, by the clock of the store', async () => {
    const { time, bucket } = timedBucket();
    const attempt = async (name: string, version: number) => {
      await using run = open(bucket, { attempt: name });
      await run.save({ version, buffers: { a: bytes(3) } });
    };
    await attempt('a', 1);
    await using looking = open(bucket);
    expect((await looking.admin.overview()).history).toMatchObject({ attemptCount: 1, fenceCount: 0 });
    time.nowMs += 30 * HOUR_MS;
    for (const [index, name] of ['b', 'c'].entries()) await attempt(name, 2 + index);
    await using person = open(bucket);
    await person.admin.rollback({ to: 1, reason: 'loss' });
    const since = time.nowMs - 24 * HOUR_MS;
    expect((await person.admin.overview()).history).toEqual({
      sinceMs: since,
      attemptCount: 2,
      fenceCount: 3,
    });
    expect((await person.admin.overview({ historyMs: 48 * HOUR_MS })).history).toMatchObject({
      attemptCount: 3,
      fenceCount: 3,
    });
    time.nowMs += 30 * HOUR_MS;
    await using later = open(bucket);
    expect((await later.admin.overview()).history).toMatchObject({ attemptCount: 0, fenceCount: 0 });
  });

  test('the time of a verification is that of its entry, found by few reads', async () => {
    const { time, bucket } = timedBucket();
    await using run = open(bucket);
    const save = async (version: number) => {
      time.nowMs += HOUR_MS;
      await run.save({ version, buffers: { a: bytes(3) } });
    };
    for (let version = 1; version <= 20; version++) await save(version);
    time.nowMs += HOUR_MS;
    await run.admin.verify({ version: 7 });
    const verifiedAtMs = time.nowMs;
    for (let version = 21; version <= 60; version++) await save(version);
    let calls = 0;
    const store = new ObservedStore(new MemoryStore(bucket), { clock: systemClock, onCall: () => calls++ });
    await using looking = createCheckpointManager({ store });
    const found = await looking.admin.overview({ findVerification: true });
    expect(found.verified?.version).toBe(7n);
    expect(found.verifiedAtMs).toBe(verifiedAtMs);
    expect(calls).toBeLessThanOrEqual(10);
  });

  test('a damaged older entry leaves only what needs it unknown', async () => {
    const { time, bucket } = timedBucket();
    await using run = open(bucket);
    for (let version = 1; version <= 3; version++) await run.save({ version, buffers: { a: bytes(3) } });
    time.nowMs += 30 * HOUR_MS;
    const old = bucket.keys().findLast((key) => key.startsWith('catalog/')) as string;
    await run.save({ version: 4, buffers: { a: bytes(3) } });
    bucket.damage(old, (content) => content.fill(0, 30, 40));
    await using looking = open(bucket);
    expect(await looking.admin.overview()).toMatchObject({ latest: { version: 4n }, history: null });
  });

  test('no run is NotFound, and a lost catalog StoreRegressed', async () => {
    const bucket = newBucket();
    await using looking = open(bucket);
    await expect(looking.admin.overview()).rejects.toMatchObject({ code: 'NotFound' });
    await using run = open(bucket);
    await run.save({ version: 1, buffers: { a: bytes(3) } });
    for (const key of bucket.keys()) if (key.startsWith('catalog/')) bucket.remove(key);
    await using other = open(bucket);
    await expect(other.admin.overview()).rejects.toMatchObject({ code: 'StoreRegressed' });
  });
});
