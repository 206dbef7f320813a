import {
  crc32c,
  isCheckpointError,
  type RetentionPolicy,
  type RunManager,
  systemClock,
} from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FaultyStore, type PlannedCall } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { quarantineVersion, takeOver } from '../mirror/changed-runs.ts';
import { bytes, failure, newBucket, open, SETTINGS } from './memory-run.ts';
import {
  entryCount,
  HOUR_MS,
  meddledStore,
  runOf,
  saveVersions,
  statesOf,
  timedRun,
  verdictsOf,
  versionsWithObjects,
} from './retention-run.ts';

const NEWEST = { keepLast: 1 };
const AT_ONCE = { keepLast: 1, graceMs: 0 };

async function restores(manager: RunManager, version: number): Promise<boolean> {
  const to = { a: new Uint8Array(1000) };
  await manager.restore({ version, to });
  return Buffer.compare(to.a, bytes(1000, version)) === 0;
}

describe('collect', () => {
  test('what no rule keeps is retired, is removed when its grace is over, and its objects are gone', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    const policy = { keepLast: 2 };
    const first = await manager.admin.collect({ policy });
    expect([first.retired, first.removed, first.swept.objectCount]).toEqual([[1n], [], 0]);
    expect(first.postponed).toMatchObject([
      { version: 1n, reason: expect.stringContaining('it can be undeleted until 2026-11-21 15:03:00 UTC') },
    ]);
    expect(verdictsOf(first.plan)).toEqual(['3 keep', '2 keep', '1 retire']);
    expect(await statesOf(manager)).toEqual(['3 live', '2 live', '1 retiring']);

    await run.clock.advance(HOUR_MS);
    const second = await manager.admin.collect({ policy });
    expect([second.retired, second.removed, second.postponed]).toEqual([[], [1n], []]);
    expect(second.swept).toMatchObject({ objectCount: 3, heldCount: 0 });
    expect(second.swept.freedBytes).toBeGreaterThanOrEqual(1000);
    expect(versionsWithObjects(run)).toEqual(['2', '3']);
    for (const version of [2, 3]) expect(await restores(manager, version)).toBe(true);
  });

  test('the grace is counted by the clock of the store, whatever this machine says', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    await manager.admin.collect({ policy: NEWEST });
    const { clock } = run;
    await using ahead = run.open({ clock: { ...systemClock, nowMs: () => clock.nowMs() + 2 * HOUR_MS } });
    expect((await ahead.admin.collect({ policy: NEWEST })).removed).toEqual([]);
    run.bucket.clock = { nowMs: () => clock.nowMs() + HOUR_MS };
    expect((await manager.admin.collect({ policy: NEWEST })).removed).toEqual([1n]);
  });

  test('without a grace it is done in one call; the log tells what was retired and removed, and why', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    const { retired, removed } = await manager.admin.collect({ policy: AT_ONCE, force: true });
    expect([retired, removed]).toEqual([
      [1n, 2n],
      [1n, 2n],
    ]);
    expect(versionsWithObjects(run)).toEqual(['3']);
    const log = (await manager.admin.log({ limit: 2 })).map(({ kind, checkpoints, reason }) => ({
      kind,
      versions: checkpoints.map(({ version }) => version),
      reason,
    }));
    expect(log).toEqual([
      { kind: 'remove', versions: [1n, 2n], reason: 'its grace is over' },
      { kind: 'retire', versions: [1n, 2n], reason: 'no rule keeps it: newest 1' },
    ]);
  });

  test('a reason that is given stands in the log before that of the rules, cut to its longest', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    const entries = entryCount(run);
    for (const reason of ['', ' ', 'x'.repeat(1001), '\ud800', 7 as never])
      await expect(
        manager.admin.collect({ policy: AT_ONCE, force: true, reason }),
        JSON.stringify(reason).slice(0, 20),
      ).rejects.toMatchObject({
        code: 'InvalidArgument',
        message: expect.stringContaining('1 to 1000 characters, not only spaces'),
      });
    expect(entryCount(run)).toBe(entries);
    await manager.admin.collect({ policy: { keepLast: 2, graceMs: 0 }, reason: 'the disk is full' });
    await manager.admin.collect({ policy: AT_ONCE, force: true, reason: 'x'.repeat(1000) });
    const [longest, , removed, retired] = await manager.admin.log({ limit: 4 });
    expect(retired?.reason).toBe('the disk is full (no rule keeps it: newest 2)');
    expect(removed?.reason).toBe('the disk is full (its grace is over)');
    expect(longest?.reason).toBe(`${'x'.repeat(999)}…`);
  });

  test('a second call has nothing to do, and writes nothing', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    await manager.admin.collect({ policy: AT_ONCE });
    const keys = run.bucket.keys();
    const again = await manager.admin.collect({ policy: AT_ONCE });
    expect([again.retired, again.removed, again.swept.objectCount]).toEqual([[], [], 0]);
    expect(run.bucket.keys()).toEqual(keys);
  });

  test('more than half of the bytes are dropped only when it is forced; nothing is changed before', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    const keys = run.bucket.keys();
    expect(await failure(manager.admin.collect({ policy: NEWEST }))).toBe(
      "Conflict: the plan drops 2000 of the run's 3000 bytes, more than half: nothing was changed; check the plan, then collect with force",
    );
    expect(run.bucket.keys()).toEqual(keys);
    expect((await manager.admin.collect({ policy: NEWEST, force: true })).retired).toEqual([1n, 2n]);
  });

  test('many checkpoints are retired and removed in few decisions', async () => {
    const run = await runOf(Array.from({ length: 260 }, (_, index) => index));
    await using manager = run.open();
    const before = entryCount(run);
    const { retired, removed } = await manager.admin.collect({ policy: AT_ONCE, force: true });
    expect([retired.length, removed.length]).toEqual([259, 259]);
    expect(retired[0]).toBe(0n);
    expect(
      (await manager.admin.log({ limit: 4 })).map(({ kind, checkpoints }) => [kind, checkpoints.length]),
    ).toEqual([
      ['remove', 3],
      ['remove', 256],
      ['retire', 3],
      ['retire', 256],
    ]);
    expect(entryCount(run)).toBeLessThanOrEqual(before + 4);
    expect(versionsWithObjects(run)).toEqual(['259']);
  });

  test('the rules that the manager brings become those of the run first', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open({ retention: NEWEST });
    expect((await manager.admin.collect()).retired).toEqual([1n]);
    await using other = run.open();
    expect(await other.admin.retention()).toEqual({ keepLast: 1, graceMs: HOUR_MS });
    await other.admin.setRetention({ keepLast: 5 });
    await manager.admin.collect();
    expect(await other.admin.retention()).toMatchObject({ keepLast: 5 });
  });

  test('undelete takes back what was retired; once it is removed it is NotFound', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    await manager.admin.collect({ policy: NEWEST });
    expect(await failure(manager.admin.pin(1, 'x'))).toBe(
      'NotFound: version 1 is retired: undelete it first',
    );
    await manager.admin.undelete(1);
    expect(await statesOf(manager)).toEqual(['2 live', '1 live']);
    await manager.admin.collect({ policy: AT_ONCE });
    expect(await failure(manager.admin.undelete(1))).toBe('NotFound: version 1 was removed');
    expect(await failure(manager.admin.unpin(1))).toBe('NotFound: version 1 was removed');
  });

  test('I3: where all that is live was quarantined meanwhile, what was retired stays', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    await manager.admin.collect({ policy: NEWEST });
    await quarantineVersion(run.bucket, 2n, 'a bit is wrong');
    const { removed, postponed } = await manager.admin.collect({ policy: AT_ONCE, force: true });
    expect(removed).toEqual([]);
    expect(postponed).toMatchObject([
      { version: 1n, reason: expect.stringContaining('no other checkpoint is live: undelete one first') },
    ]);
    await manager.admin.undelete(1);
    expect(await restores(manager, 1)).toBe(true);
  });

  test('I3: a version that a rollback left behind does not count as one that a restart can be given', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    await manager.admin.collect({ policy: { keepLast: 2 } });
    await manager.admin.rollback({ to: 2, reason: 'the loss rises' });
    await quarantineVersion(run.bucket, 2n, 'a bit is wrong');
    const { removed, postponed } = await manager.admin.collect({ policy: { graceMs: 0 } });
    expect([removed, postponed.map(({ version }) => version)]).toEqual([[], [1n]]);
    await manager.admin.undelete(1);
    expect((await manager.latest())?.version).toBe(1n);
    expect(await restores(manager, 1)).toBe(true);
  });

  test('I3: the only verified version stays, also if it was retired before the others were quarantined', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    await manager.admin.verify({ version: 1 });
    await manager.admin.verify({ version: 2 });
    await manager.admin.collect({ policy: { keepLast: 2 } });
    await quarantineVersion(run.bucket, 2n, 'a bit is wrong');
    const { removed, postponed } = await manager.admin.collect({ policy: { graceMs: 0 } });
    expect([removed, postponed.map(({ reason }) => reason)]).toEqual([
      [],
      [expect.stringContaining('no other live checkpoint is verified: verify one first')],
    ]);
    await manager.admin.verify({ version: 3 });
    expect((await manager.admin.collect({ policy: { graceMs: 0 } })).removed).toEqual([1n]);
  });

  test('a version means the one on the path, and never its namesake that was left behind', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open();
    await manager.admin.rollback({ to: 1, reason: 'r' });
    await manager.admin.pin({ lineage: 1, version: 3 }, 'of the first lineage');
    for (const version of [2, 3, 4]) await manager.save({ version, buffers: { a: bytes(9, version) } });
    await manager.admin.collect({ policy: NEWEST, force: true });
    const refused = /^NotFound: version 3 is retired/;
    expect(await failure(manager.admin.pin(3, 'best'))).toMatch(refused);
    expect(await failure(manager.admin.annotate(3, { metrics: { auc: 0.9 } }))).toMatch(
      /version 3 is retired/,
    );
    await manager.admin.undelete(3);
    await manager.admin.pin(3, 'best');
    const [pinned] = (await manager.list()).filter(({ pins }) => pins.includes('best'));
    expect([pinned?.version, pinned?.isLeftBehind]).toEqual([3n, false]);
  });

  test('a store that does not let us delete is Denied, after the decisions that stand', async () => {
    const run = await runOf([1, 2]);
    const store = new FaultyStore(new MemoryStore(run.bucket), ({ operation }) =>
      operation === 'deleteMany' ? { effect: 'none', reply: 'error', error: 'Denied' } : undefined,
    );
    await using manager = run.open({ store });
    expect(await failure(manager.admin.collect({ policy: AT_ONCE }))).toContain('Denied');
    await using other = run.open();
    expect(await statesOf(other)).toEqual(['2 live']);
    expect((await other.admin.collect({ policy: AT_ONCE })).swept.objectCount).toBe(3);
  });

  test('where there is no run it is NotFound', async () => {
    await using manager = open(newBucket());
    expect(await failure(manager.admin.collect({ policy: NEWEST }))).toContain(
      'NotFound: there is no run at',
    );
  });
});

describe('what changes while it collects', () => {
  const isFirstDecision = ({ operation, key }: PlannedCall) =>
    operation === 'create' && key.startsWith('catalog/');

  test('a pin that comes between the plan and its decision is kept', async () => {
    const run = await runOf([1, 2]);
    const store = meddledStore(run, isFirstDecision, async () => {
      await using person = run.open();
      await person.admin.pin(1, 'paper');
    });
    await using manager = run.open({ store });
    expect((await manager.admin.collect({ policy: AT_ONCE })).retired).toEqual([]);
    expect(await statesOf(manager)).toEqual(['2 live', '1 live']);
  });

  test('after a takeover it plans on the new state, whose attempt may have resumed from what was to go', async () => {
    const run = await runOf([1, 2]);
    const store = meddledStore(run, isFirstDecision, () => takeOver(run.bucket));
    await using manager = run.open({ store });
    expect((await manager.admin.collect({ policy: AT_ONCE })).retired).toEqual([1n]);
    expect(versionsWithObjects(run)).toEqual(['2']);
  });

  test('I7: a decision of which the store no longer answers is OutcomeUnknown, and nothing is deleted', async () => {
    const run = await runOf([1, 2]);
    let isDown = false;
    const store = new FaultyStore(new MemoryStore(run.bucket), (call) => {
      isDown ||= isFirstDecision(call);
      return isDown ? { effect: 'once', reply: 'error' } : undefined;
    });
    const settings = { ...SETTINGS, recordTimeoutMs: 30, retryDelayMsMax: 1 };
    await using manager = run.open({ store, settings });
    const error: unknown = await manager.admin
      .collect({ policy: AT_ONCE })
      .catch((reason: unknown) => reason);
    expect(isCheckpointError(error, 'OutcomeUnknown')).toBe(true);
    expect((error as Error).message).toBe('it is not known whether the retirement took effect');
    expect(store.calls.some(({ operation }) => operation === 'deleteMany')).toBe(false);
    expect(versionsWithObjects(run)).toEqual(['1', '2']);
  });
});

describe('after a commit', () => {
  test('the rules are applied in the background by the process that committed; close waits for it', async () => {
    const run = timedRun();
    const manager = run.open({ retention: AT_ONCE });
    await saveVersions(manager, [1, 2, 3]);
    await manager.close();
    expect(versionsWithObjects(run)).toEqual(['3']);
    await using other = run.open();
    expect(await statesOf(other)).toEqual(['3 live']);
  });

  test('rules that differ from the run’s become those of the run with the first commit', async () => {
    const run = await runOf([1, 2]);
    const manager = run.open({ retention: AT_ONCE });
    await saveVersions(manager, [3]);
    await manager.close();
    await using other = run.open();
    expect(await other.admin.retention()).toEqual(AT_ONCE);
    // The attempt that saved it resumed from version 2.
    expect(await statesOf(other)).toEqual(['3 live', '2 live']);
  });

  test('a manager without rules of its own applies those of the run', async () => {
    const run = await runOf([1, 2, 3]);
    await using person = run.open();
    await person.admin.setRetention(AT_ONCE);
    const manager = run.open();
    await saveVersions(manager, [4]);
    await manager.close();
    expect(await statesOf(person)).toEqual(['4 live', '3 live']);
  });

  test('one of two writers commits, and only it collects', async () => {
    const run = timedRun();
    const shared = { attempt: 'job', retention: AT_ONCE };
    const managers = [0, 1].map((index) => run.open({ ...shared, writer: { index, count: 2 } }));
    for (const version of [1, 2]) {
      const saves = managers.map((manager, index) =>
        manager.save({ version, noWait: index === 0, buffers: { [`part-${index}`]: bytes(10) } }),
      );
      await saves[0];
      await saves[1];
    }
    await Promise.all(managers.map((manager) => manager.close()));
    await using other = run.open();
    const kinds = (await other.admin.log()).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === 'retire' || kind === 'remove')).toEqual(['remove', 'retire']);
    expect(await statesOf(other)).toEqual(['2 live']);
  });

  test('a save does not fail, and does not wait, when the rules cannot be applied: the log says why', async () => {
    const run = timedRun();
    const said: string[] = [];
    const logger = {
      log: (level: string, message: string, details?: Record<string, unknown>) =>
        void said.push(`${level}: ${message} ${details?.['error'] ?? ''}`),
    };
    const manager = run.open({ retention: { keepEvery: 1000 }, logger });
    await saveVersions(manager, [1, 2]);
    await manager.close();
    expect(said.filter((line) => line.startsWith('warn')).join('\n')).toContain(
      'warn: the rules of the run were not applied; the next commit tries again CheckpointError: the rules (multiples of 1000) would keep none',
    );
    await using other = run.open();
    expect(await statesOf(other)).toEqual(['2 live', '1 live']);
  });

  test('save resolves before anything of it is asked of the store', async () => {
    const callsOfSaves = async (retention: RetentionPolicy | null): Promise<string[]> => {
      const run = timedRun();
      const store = new FaultyStore(new MemoryStore(run.bucket));
      await using manager = run.open({ store, retention });
      const calls: string[] = [];
      for (const version of [1, 2]) {
        const before = store.calls.length;
        await manager.save({ version, buffers: { a: bytes(10, version) } });
        for (const { operation, key } of store.calls.slice(before))
          calls.push(`${operation} ${key.split('/')[0]}`);
        // Later background work is not counted.
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      await manager.close();
      const kinds = store.calls.filter(
        ({ operation, key }) => operation === 'create' && key.startsWith('catalog/'),
      );
      // Join and two commits; with retention also a retirement and a removal.
      expect(kinds).toHaveLength(retention === null ? 3 : 5);
      return calls;
    };
    expect(await callsOfSaves(AT_ONCE)).toEqual(await callsOfSaves(null));
  });

  test('a store that does not answer holds close up for ten seconds, not longer', async () => {
    const run = timedRun();
    let isStuck = false;
    const store = new FaultyStore(new MemoryStore(run.bucket), () =>
      isStuck ? { effect: 'none', reply: 'stall' } : undefined,
    );
    const manager = run.open({ store, clock: run.clock, retention: AT_ONCE });
    await saveVersions(manager, [1]);
    isStuck = true;
    let isClosed = false;
    const closed = manager.close().then(() => {
      isClosed = true;
    });
    await run.clock.advance(9_999);
    expect(isClosed).toBe(false);
    await run.clock.advance(1);
    await closed;
  });
});

test('a store whose clock gives parts of milliseconds: versions are committed, retired and removed', async () => {
  const bucket = new MemoryBucket({ crc32c, clock: { ...systemClock, nowMs: () => Date.now() + 0.25 } });
  await using manager = open(bucket);
  for (const version of [1, 2]) await manager.save({ version, buffers: { a: bytes(10, version) } });
  const { retired, removed } = await manager.admin.collect({
    policy: { keepLast: 1, graceMs: 0 },
    force: true,
  });
  expect([retired, removed]).toEqual([[1n], [1n]]);
});
