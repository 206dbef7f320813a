/**
 * Which versions the command waits for, and for how long, on a memory bucket with an automatic
 * clock.
 */

import { createCheckpointManager, type RunManager } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { crc32c, FAULTS, type FaultPlan, FaultyStore, ManualClock, refuse } from '@holdfast/testkit';
import { describe, expect, it } from 'vitest';
import { lackText } from './describe.ts';
import { HURRIED_SETTINGS, type Waited, waitForBegun } from './wait-for-begun.ts';

const DEADLINE_MS = 25_000;

interface Options {
  plan?: (nowMs: number) => FaultPlan;
  /** How long a poll waits for a store that does not answer. */
  recordTimeoutMs?: number;
}

function setUp({ plan, recordTimeoutMs = 60_000 }: Options = {}) {
  const settings = { recordTimeoutMs, ...HURRIED_SETTINGS };
  const clock = new ManualClock({ autoAdvance: true });
  const bucket = new MemoryBucket({ crc32c, clock });
  const open = (store: ObjectStore, index = 0, count = 2, attempt = 'job') =>
    createCheckpointManager({ store, clock, settings, attempt, writer: { index, count } });
  const writer = (index: number, count = 2, attempt = 'job') =>
    open(new MemoryStore(bucket), index, count, attempt);
  const store = new FaultyStore(new MemoryStore(bucket), (call) => plan?.(clock.monotonicMs())(call));
  const at = async (ms: number, act: () => Promise<unknown>) => {
    await clock.sleep(ms - clock.monotonicMs());
    await act();
  };
  /** The reported versions in short form, poll by poll. */
  const told: string[] = [];
  const wait = (version?: bigint, signal: AbortSignal = new AbortController().signal) => {
    const beganMs = clock.monotonicMs();
    const bounds = { beganMs, untilMs: beganMs + DEADLINE_MS };
    return waitForBegun(open(store), {
      ...{ version, clock, signal, ...bounds },
      onLook: (versions) => told.push(versions.map((each) => `${each.version} ${each.fate}`).join()),
    });
  };
  const creates = () => store.calls.filter(({ operation }) => operation === 'create').length;
  return { clock, bucket, open, writer, at, wait, creates, told };
}

async function deliver(manager: RunManager, version: number, name: string) {
  const buffers = { [name]: new Uint8Array(100) };
  const [dedupe, onStale] = ['off', 'off'] as const;
  return manager.save({ version, buffers, dedupe, onStale, noWait: true });
}

function lackOf({ versions: [first] }: Waited): string {
  return first === undefined ? '' : lackText(first);
}

const fates = ({ versions }: Waited) => versions.map(({ version, fate }) => `${version} ${fate}`);

describe('waitForBegun', () => {
  it('nothing is under way: it ends at its first look, with what a restart would load', async () => {
    const { writer, wait, clock } = setUp();
    const lone = writer(0, 1);
    await deliver(lone, 4, 'a');
    expect(await wait()).toMatchObject({ durable: { version: 4n }, versions: [], waitedMs: 0, silent: null });
    expect(clock.monotonicMs()).toBe(0);
    const below = await wait(3n);
    expect([fates(below), below.versions[0]?.wasOpen]).toEqual([['3 passed-over'], false]);
    expect(fates(await wait(4n))).toEqual(['4 committed']);
  });

  it('a save that fits: it ends soon after the commit', async () => {
    const { writer, at, wait, creates } = setUp();
    await deliver(writer(0), 4, 'a');
    const [waited] = await Promise.all([wait(), at(3000, () => deliver(writer(1), 4, 'b'))]);
    expect([fates(waited), waited.durable?.version, creates()]).toEqual([['4 committed'], 4n, 0]);
    expect(waited.waitedMs).toBeGreaterThanOrEqual(3000);
    expect(waited.waitedMs).toBeLessThanOrEqual(4000);
  });

  it('a save that does not: what is missing is told at the deadline; a commit just before it counts', async () => {
    const late = setUp();
    await deliver(late.writer(0), 4, 'a');
    const lost = await late.wait();
    expect([fates(lost), lost.durable, lost.silent]).toEqual([['4 open'], null, null]);
    expect(lackOf(lost)).toBe('writer 1 of 2 has not delivered');
    expect(late.clock.monotonicMs()).toBeLessThanOrEqual(DEADLINE_MS);
    const just = setUp();
    await deliver(just.writer(0), 4, 'a');
    const act = just.at(DEADLINE_MS - 300, () => deliver(just.writer(1), 4, 'b'));
    const [waited] = await Promise.all([just.wait(), act]);
    expect(fates(waited)).toEqual(['4 committed']);
  });

  it('a save that begins meanwhile is waited for as well', async () => {
    const { writer, at, wait, told } = setUp();
    const [first, second] = [writer(0), writer(1)];
    await deliver(first, 4, 'a');
    const act = async () => {
      await at(2000, () => deliver(first, 5, 'a'));
      await at(4000, () => deliver(second, 4, 'b'));
      await at(9000, () => deliver(second, 5, 'b'));
    };
    const [waited] = await Promise.all([wait(), act()]);
    expect(fates(waited)).toEqual(['4 committed', '5 committed']);
    expect([...new Set(told)]).toEqual([
      '4 open',
      '4 open,5 open',
      '4 committed,5 open',
      '4 committed,5 committed',
    ]);
  });

  it('a higher version is committed: the lower one was passed over, and is not waited for', async () => {
    const { writer, at, wait, clock } = setUp();
    const [first, second] = [writer(0), writer(1)];
    for (const version of [4, 5]) await deliver(first, version, 'a');
    const [waited] = await Promise.all([wait(), at(1000, () => deliver(second, 5, 'b'))]);
    expect(fates(waited)).toEqual(['4 passed-over', '5 committed']);
    expect(clock.monotonicMs()).toBeLessThan(3000);
  });

  it('a newer attempt takes the run over: what was under way is lost, and that is said at once', async () => {
    const { writer, at, wait, clock } = setUp();
    await deliver(writer(0), 4, 'a');
    const [waited] = await Promise.all([wait(), at(1000, () => writer(0, 2, 'next').join())]);
    expect(fates(waited)).toEqual(['4 over']);
    expect(lackOf(waited)).toContain('taken over or rolled back');
    expect(clock.monotonicMs()).toBeLessThan(3000);
  });
});

describe('a version that is named', () => {
  it('is waited for although nothing of it is there, nor any run; others are not', async () => {
    const { writer, at, wait } = setUp();
    const act = async () => {
      await at(2000, () => deliver(writer(0), 9, 'a'));
      await at(3000, () => deliver(writer(0), 4, 'a'));
      await at(5000, () => deliver(writer(1), 4, 'b'));
    };
    const [waited] = await Promise.all([wait(4n), act()]);
    expect([fates(waited), waited.durable?.version]).toEqual([['4 committed'], 4n]);
  });

  it('never comes: that is told at the deadline', async () => {
    const { wait, clock } = setUp();
    const waited = await wait(4n);
    expect([fates(waited), waited.durable]).toEqual([['4 open'], null]);
    expect(lackOf(waited)).toBe('none of its files is in the store');
    expect(clock.monotonicMs()).toBeGreaterThan(DEADLINE_MS - 1000);
  });

  it('without a name, a run that is not there is NotFound', async () => {
    await expect(setUp().wait()).rejects.toMatchObject({ code: 'NotFound' });
  });
});

describe('a version that all have delivered', () => {
  /** A writer whose creation of a manifest is delayed by this long. */
  function slowWriter({ bucket, clock, open }: ReturnType<typeof setUp>, delayMs: number): RunManager {
    const store = new MemoryStore(bucket);
    const create = store.create.bind(store);
    store.create = async (key, ...rest) => {
      if (key.includes('/manifest-')) await clock.sleep(delayMs);
      return create(key, ...rest);
    };
    return open(store, 1);
  }

  it('is left to its writers from one look to the next', async () => {
    const rig = setUp();
    await deliver(rig.writer(0), 4, 'a');
    const slow = slowWriter(rig, 900); // Longer than a poll, and shorter than the time between two.
    const [waited] = await Promise.all([rig.wait(), rig.at(10_000, () => deliver(slow, 4, 'b'))]);
    expect([fates(waited), rig.creates()]).toEqual([['4 committed'], 0]);
  });

  it('is committed here when they do not, and at once when that is so from the beginning', async () => {
    const rig = setUp();
    await deliver(rig.writer(0), 4, 'a');
    const dead = slowWriter(rig, 3_600_000);
    // It never ends here.
    const act = rig.at(10_000, async () => void deliver(dead, 4, 'b').catch(() => undefined));
    const [waited] = await Promise.all([rig.wait(), act]);
    expect([fates(waited), rig.creates() > 0]).toEqual([['4 committed'], true]);
    expect(waited.waitedMs).toBeLessThan(13_000);
    const again = setUp();
    await deliver(again.writer(0), 4, 'a');
    void deliver(slowWriter(again, 3_600_000), 4, 'b').catch(() => undefined);
    await again.clock.sleep(100);
    expect(await again.wait()).toMatchObject({ durable: { version: 4n }, waitedMs: 0 });
  });

  it('and that may not be committed here is waited for, and the refusal reported if no other process commits', async () => {
    const rig = setUp({ plan: () => (call) => (call.operation === 'create' ? refuse('Denied') : undefined) });
    await deliver(rig.writer(0), 4, 'a');
    void deliver(slowWriter(rig, 3_600_000), 4, 'b').catch(() => undefined);
    await rig.clock.sleep(100);
    const waited = await rig.wait();
    expect([fates(waited), rig.creates()]).toEqual([['4 open'], 1]);
    expect(lackOf(waited)).toMatch(
      /^all have delivered; create of version_4\/.*: a fault of the test's plan$/,
    );
  });
});

describe('a store that does not answer', () => {
  it('from the beginning: TimedOut at the deadline', async () => {
    const { wait, clock } = setUp({ plan: () => () => FAULTS.stall });
    await expect(wait()).rejects.toMatchObject({ code: 'TimedOut' });
    expect(clock.monotonicMs()).toBe(DEADLINE_MS);
  });

  it('any more: what was known then is told, and since when', async () => {
    const { writer, wait, clock } = setUp({
      plan: (nowMs) => () => (nowMs > 2000 ? FAULTS.stall : undefined),
    });
    await deliver(writer(0), 4, 'a');
    const waited = await wait();
    expect(fates(waited)).toEqual(['4 open']);
    expect(waited.silent?.forMs).toBeGreaterThan(22_000);
    expect(clock.monotonicMs()).toBe(DEADLINE_MS);
  });

  it('for a while: it is asked again until it does', async () => {
    const isAway = (nowMs: number) => nowMs > 1000 && nowMs < 9000;
    const plan = (nowMs: number) => () => (isAway(nowMs) ? FAULTS.loseRequest : undefined);
    for (const recordTimeoutMs of [60_000, 1000]) {
      const rig = setUp({ plan, recordTimeoutMs });
      await deliver(rig.writer(0), 4, 'a');
      const [waited] = await Promise.all([rig.wait(), rig.at(3000, () => deliver(rig.writer(1), 4, 'b'))]);
      expect([fates(waited), waited.silent]).toEqual([['4 committed'], null]);
    }
  });

  it('to one request: it is sent again', async () => {
    let isHeld = false;
    const holdOne = (nowMs: number) => () => {
      if (isHeld || nowMs < 1000) return undefined;
      isHeld = true;
      return FAULTS.stall;
    };
    const rig = setUp({ plan: holdOne });
    await deliver(rig.writer(0), 4, 'a');
    const [waited] = await Promise.all([rig.wait(), rig.at(3000, () => deliver(rig.writer(1), 4, 'b'))]);
    expect([isHeld, fates(waited)]).toEqual([true, ['4 committed']]);
    expect(waited.waitedMs).toBeLessThan(10_000);
  });

  it('but refuses: that is the error, at once', async () => {
    const { wait, clock } = setUp({ plan: () => () => refuse('Denied') });
    await expect(wait(4n)).rejects.toMatchObject({ code: 'Denied' });
    expect(clock.monotonicMs()).toBe(0);
  });

  it('an interrupt ends it at any time', async () => {
    const { wait, at, clock } = setUp({ plan: () => () => FAULTS.stall });
    const controller = new AbortController();
    const act = at(5000, async () => controller.abort());
    const ended = wait(4n, controller.signal);
    await expect(Promise.all([ended, act])).rejects.toMatchObject({ code: 'Aborted' });
    expect(clock.monotonicMs()).toBe(5000);
  });
});
