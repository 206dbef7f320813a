/** Several parameter servers. Each counts its own versions and waits for no other server. */

import { describe, expect, test } from 'vitest';
import {
  bytesOf,
  failure,
  filesOf,
  liveVersions,
  newBucket,
  objectsOf,
  openRun,
  shardOf,
  startServer,
} from './saver-job.ts';

describe('servers that are not in step', () => {
  test('a version is there when the slowest has delivered it; the last to deliver commits', async () => {
    const bucket = newBucket();
    await using fast = startServer(bucket, [0, 2]);
    await using slow = startServer(bucket, [1, 2]);
    const ahead = await fast.saver.save(5, shardOf(5, 0));
    expect(ahead).toMatchObject({ isCommitted: false, missingWriters: [1] });
    expect([await fast.save(10), await fast.save(15)]).toEqual([false, false]);
    expect(await liveVersions(bucket)).toEqual([]);
    expect(await slow.save(5)).toBe(true);
    expect(await liveVersions(bucket)).toEqual([5]);
    expect(await slow.save(10)).toBe(true);
    expect(await liveVersions(bucket)).toEqual([10, 5]);
    expect(await filesOf(bucket, 10)).toEqual({
      'variables-0-of-2.ckpt': bytesOf(10, 0),
      'variables-1-of-2.ckpt': bytesOf(10, 1),
    });
  });

  test('105 of one before 100 of the other: both come to be', async () => {
    const bucket = newBucket();
    await using fast = startServer(bucket, [0, 2]);
    await using slow = startServer(bucket, [1, 2]);
    await fast.save(100);
    await fast.save(105);
    expect([await slow.save(100), await slow.save(105)]).toEqual([true, true]);
    expect(await liveVersions(bucket)).toEqual([105, 100]);
  });

  test('a version that one server skips is never committed, and is no error for any server', async () => {
    const bucket = newBucket();
    await using fast = startServer(bucket, [0, 2]);
    await using jumpy = startServer(bucket, [1, 2]);
    for (const version of [100, 105, 110]) await fast.save(version);
    expect(await jumpy.save(105)).toBe(true);
    expect(await liveVersions(bucket)).toEqual([105]);
    expect(await jumpy.save(110)).toBe(true);
    expect(await liveVersions(bucket)).toEqual([110, 105]);
    // This save is decided by now: its version is below a committed one.
    expect(await failure(jumpy.save(100))).toContain('Conflict: version 100 is not above 110');
  });

  test('saves without a waiting caller are made in the order of the calls', async () => {
    const bucket = newBucket();
    await using fast = startServer(bucket, [0, 2]);
    await using slow = startServer(bucket, [1, 2]);
    const versions = Array.from({ length: 10 }, (_, index) => 5 * (index + 1));
    const results = await Promise.all(
      versions.flatMap((version) => [fast.save(version), slow.save(version)]),
    );
    expect(results.filter((cameLast) => cameLast).length).toBeGreaterThanOrEqual(versions.length);
    expect(await liveVersions(bucket)).toEqual(versions.toReversed());
  });

  test('a server that wants the checkpoint to be there waits for the others', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2]);
    await using second = startServer(bucket, [1, 2]);
    const waits = first.save(5, { noWait: false });
    await second.save(5);
    expect(await waits).toBe(true);
    expect(await failure(first.save(10, { noWait: false, timeoutMs: 0 }))).toContain(
      'Incomplete: version 10 is not complete: writer 1 has not delivered',
    );
  });
});

describe('a server that is restarted', () => {
  test('what its former life had delivered is not committed once it has joined, and it delivers it anew', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2]);
    const former = startServer(bucket, [1, 2]);
    await former.save(5);
    await former.close();
    await using again = startServer(bucket, [1, 2]);
    await again.manager.join();
    expect(await first.save(5)).toBe(false);
    expect((await again.saver.save(5, shardOf(5, 1, 2))).isCommitted).toBe(true);
    expect(await filesOf(bucket, 5)).toEqual({
      'variables-0-of-2.ckpt': bytesOf(5, 0),
      'variables-1-of-2.ckpt': bytesOf(5, 1, { life: 2 }),
    });
  });

  test('goes on from the latest while the others are ahead: their versions come to be one by one', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2]);
    const former = startServer(bucket, [1, 2]);
    for (const version of [5, 10, 15, 20]) await first.save(version);
    await former.save(5);
    await former.close();
    await using again = startServer(bucket, [1, 2]);
    await again.manager.join();
    expect((await again.manager.latest())?.version).toBe(5n);
    for (const version of [10, 15, 20]) expect(await again.save(version)).toBe(true);
    expect(await liveVersions(bucket)).toEqual([20, 15, 10, 5]);
  });

  test('its former life, if it still runs, is refused', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2]);
    await using zombie = startServer(bucket, [1, 2]);
    await zombie.save(5);
    await using again = startServer(bucket, [1, 2]);
    await again.manager.join();
    expect(await failure(zombie.save(10))).toContain('Fenced: a newer process of writer 1 has registered');
    await first.save(10);
    expect(await again.save(10)).toBe(true);
  });

  test('a job that begins anew with another number of servers fences all of the former', async () => {
    const bucket = newBucket();
    await using old = startServer(bucket, [0, 2]);
    await old.save(5);
    await using first = startServer(bucket, [0, 3], { attempt: 'second' });
    await using second = startServer(bucket, [1, 3], { attempt: 'second' });
    await using third = startServer(bucket, [2, 3], { attempt: 'second' });
    for (const server of [first, second, third]) await server.save(5);
    expect(await failure(old.save(10))).toContain('Fenced: attempt "first" is no longer current');
    expect(Object.keys(await filesOf(bucket, 5))).toEqual([
      'variables-0-of-3.ckpt',
      'variables-1-of-3.ckpt',
      'variables-2-of-3.ckpt',
    ]);
  });
});

describe('retention with several servers', () => {
  test('keeping 1, with a slow server: there is a complete checkpoint at every moment', async () => {
    const bucket = newBucket();
    await using fast = startServer(bucket, [0, 2], { keepCheckpointMax: 1 });
    await using slow = startServer(bucket, [1, 2], { keepCheckpointMax: 1 });
    await Promise.all([fast.save(5), slow.save(5)]);
    for (let version = 10; version <= 30; version += 5) {
      await fast.save(version);
      await fast.manager.admin.collect({ force: true });
      // Only one server has the newer version. The older one is complete and therefore the latest.
      expect(Object.keys(await filesOf(bucket, version - 5))).toHaveLength(2);
      expect(await liveVersions(bucket)).toEqual([version - 5]);
      await slow.save(version);
      await slow.manager.admin.collect({ force: true });
      expect(await liveVersions(bucket)).toEqual([version]);
    }
  });

  test('a server that is ahead by many versions loses none of them to collection', async () => {
    const bucket = newBucket();
    await using fast = startServer(bucket, [0, 2], { keepCheckpointMax: 1 });
    await using slow = startServer(bucket, [1, 2]);
    for (const version of [5, 10, 15]) await fast.save(version);
    for (const version of [5, 10, 15]) {
      expect(await slow.save(version)).toBe(true);
      await slow.manager.admin.collect({ force: true });
      expect(Object.keys(await filesOf(bucket, version))).toHaveLength(2);
    }
  });

  test('all of them collect at once: what a peer has removed first is no error', async () => {
    const bucket = newBucket();
    await using first = startServer(bucket, [0, 2], { keepCheckpointMax: 1 });
    await using second = startServer(bucket, [1, 2]);
    for (const version of [5, 10, 15, 20]) await Promise.all([first.save(version), second.save(version)]);
    const collecting = [first, second].map(({ manager }) => manager.admin.collect({ force: true }));
    await expect(Promise.all(collecting)).resolves.toHaveLength(2);
    expect(await liveVersions(bucket)).toEqual([20]);
  });

  // ElasticDL had two defects here. A server whose oldest directory was missing never removed
  // another. A restarted server did not remember its own directories.
  test('it goes on after a server was restarted and a peer has removed what it knew of', async () => {
    const bucket = newBucket();
    const former = startServer(bucket, [0, 2], { keepCheckpointMax: 3 });
    const second = startServer(bucket, [1, 2], { keepCheckpointMax: 3 });
    for (const version of [5, 10, 15, 20]) await Promise.all([former.save(version), second.save(version)]);
    await second.manager.admin.collect({ force: true });
    await former.close();
    const again = startServer(bucket, [0, 2], { keepCheckpointMax: 3 });
    for (const version of [25, 30, 35, 40]) await Promise.all([again.save(version), second.save(version)]);
    await Promise.all([again.close(), second.close()]);
    expect(await liveVersions(bucket)).toEqual([40, 35, 30]);
  });

  // In ElasticDL an oldest directory that lacked a shard stayed for ever, and so did all later
  // ones.
  test('a version that never came to be is removed, and keeps nothing else from being removed', async () => {
    const bucket = newBucket();
    const first = startServer(bucket, [0, 2], { keepCheckpointMax: 1 });
    const second = startServer(bucket, [1, 2]);
    await first.save(5);
    for (const version of [10, 15, 20]) await Promise.all([first.save(version), second.save(version)]);
    await Promise.all([first.close(), second.close()]);
    expect(await liveVersions(bucket)).toEqual([20]);
    await using manager = openRun(bucket);
    await manager.admin.collect();
    for (const version of [5, 10, 15]) expect(objectsOf(bucket, version)).toEqual([]);
    expect(objectsOf(bucket, 20)).not.toEqual([]);
  });
});
