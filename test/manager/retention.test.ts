import { systemClock } from '@holdfast/core/contract';
import { decodeRecord, encodeRecord } from '@holdfast/core/internal/format/index';
import { NO_RULES } from '@holdfast/core/internal/plan/retention-policy';
import { MemoryStore } from '@holdfast/core/store';
import { FaultyStore } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { failure, newBucket, open, SETTINGS } from './memory-run.ts';
import { entryCount, HOUR_MS, runOf, saveVersions, timedRun, verdictsOf } from './retention-run.ts';

describe('rules of a run', () => {
  test('those that the first writer brings stand in run.json: no entry is written for them, and every process finds them', async () => {
    const run = timedRun();
    await using writer = run.open({ retention: { keepEvery: 1000, keepLast: 9 } });
    await saveVersions(writer, [1000]);
    const entries = entryCount(run);
    await using other = run.open();
    expect(await other.admin.retention()).toEqual({ keepEvery: 1000n, keepLast: 9, graceMs: HOUR_MS });
    expect(verdictsOf(await writer.admin.planRetention())).toEqual(['1000 keep']);
    expect(entryCount(run)).toBe(entries);
  });

  test('a run without rules keeps everything', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    expect(await manager.admin.retention()).toBeNull();
    const plan = await manager.admin.planRetention();
    expect([plan.policy, verdictsOf(plan)]).toEqual([null, ['2 keep', '1 keep']]);
  });

  test('setRetention: they hold for all processes from then on; set again nothing is written; null takes them away', async () => {
    const run = await runOf([1]);
    await using manager = run.open();
    await using other = run.open();
    await manager.admin.setRetention({ keepLast: 3 });
    expect(await other.admin.retention()).toEqual({ keepLast: 3, graceMs: HOUR_MS });
    const entries = entryCount(run);
    await other.admin.setRetention({ keepLast: 3, graceMs: HOUR_MS });
    expect(entryCount(run)).toBe(entries);
    await other.admin.setRetention(null);
    expect(await manager.admin.retention()).toBeNull();
    expect((await manager.admin.log({ limit: 1 }))[0]?.kind).toBe('policy');
  });

  test('rules taken away stay away, although run.json still has them', async () => {
    const run = timedRun();
    await using writer = run.open({ retention: { keepLast: 1 } });
    await saveVersions(writer, [1]);
    await using manager = run.open();
    await manager.admin.setRetention(null);
    expect(await manager.admin.retention()).toBeNull();
  });

  test('a rule of a newer version stops retention here, and nothing else; other rules take its place', async () => {
    const run = timedRun();
    await using first = run.open({ retention: { keepLast: 1 } });
    await first.join();
    run.bucket.damage('run.json', (bytes) => {
      const record = decodeRecord('run', bytes, { key: 'run.json' });
      const policy = { ...NO_RULES, keepUnheardOf: 2 };
      return encodeRecord('run', { ...record, policy }).bytes;
    });

    await using manager = run.open();
    await saveVersions(manager, [1, 2, 3]);
    for (const call of [manager.admin.planRetention(), manager.admin.collect(), manager.admin.retention()]) {
      expect(await failure(call)).toMatch(
        /UnsupportedFormat: .* hold "keepUnheardOf", which this one does not know/,
      );
    }
    await manager.close();

    await using other = run.open({ retention: { keepLast: 2 } });
    expect((await other.list()).map(({ state }) => state)).toEqual(['live', 'live', 'live']);
    await other.admin.setRetention({ keepLast: 2 });
    expect(verdictsOf(await other.admin.planRetention())).toEqual(['3 keep', '2 keep', '1 retire']);
  });

  test('an invalid rule is refused when the manager is opened, and by every call', async () => {
    const bucket = newBucket();
    expect(() => open(bucket, { retention: { keepLast: 0 } })).toThrow('keepLast is 0');
    await using manager = open(bucket);
    const policy = { keepForMs: 1 };
    expect(await failure(manager.admin.planRetention({ policy }))).toContain(
      'InvalidArgument: retention rule keepForMs',
    );
    expect(await failure(manager.admin.setRetention(policy))).toContain(
      'InvalidArgument: retention rule keepForMs',
    );
  });

  test('where there is no run, every call is NotFound', async () => {
    await using manager = open(newBucket());
    const calls = [
      () => manager.admin.planRetention({ policy: { keepLast: 1 } }),
      () => manager.admin.setRetention({ keepLast: 1 }),
      () => manager.admin.retention(),
      () => manager.admin.pin(1, 'x'),
      () => manager.admin.unpin(1),
      () => manager.admin.undelete(1),
    ];
    for (const call of calls) expect(await failure(call())).toContain('NotFound: there is no run at');
  });
});

describe('planRetention', () => {
  test('rules that are given stand in for those of the run, and nothing is written', async () => {
    const run = await runOf([1, 2, 3]);
    await using manager = run.open({ retention: { keepLast: 2 } });
    const keys = run.bucket.keys();
    expect(verdictsOf(await manager.admin.planRetention())).toEqual(['3 keep', '2 keep', '1 retire']);
    const given = await manager.admin.planRetention({ policy: { keepLast: 1 } });
    expect(verdictsOf(given)).toEqual(['3 keep', '2 retire', '1 retire']);
    expect(given).toMatchObject({ totalBytes: 3000, droppedBytes: 2000, needsForce: true });
    expect(run.bucket.keys()).toEqual(keys);
  });

  test('ages are by the clock of the store', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    const policy = { keepForMs: 90_000 };
    expect(verdictsOf(await manager.admin.planRetention({ policy }))).toEqual(['2 keep', '1 keep']);
    run.bucket.clock = { nowMs: () => run.clock.nowMs() + 60_000 };
    expect(verdictsOf(await manager.admin.planRetention({ policy }))).toEqual(['2 keep', '1 retire']);
  });

  test('a metric that no checkpoint has is InvalidArgument and names those that are there', async () => {
    const run = await runOf([1]);
    await using manager = run.open();
    const policy = { keepBest: [{ metric: 'lost', mode: 'min' as const, count: 1 }] };
    expect(await failure(manager.admin.planRetention({ policy }))).toContain(
      'InvalidArgument: the rule "best 1 by lost"',
    );
    expect(await failure(manager.admin.planRetention({ policy }))).toContain('there are: loss');
  });

  test.each([-2, 2])(
    'a clock that is %i days off is InvalidConfig and names both times, where the time matters',
    async (days) => {
      const run = await runOf([1, 2]);
      await using manager = run.open();
      const clock = { nowMs: () => run.clock.nowMs() + days * 24 * HOUR_MS };
      run.bucket.clock = clock;
      const said = await failure(manager.admin.planRetention({ policy: { keepLast: 1 } }));
      expect(said).toContain("InvalidConfig: this machine's clock says 2026-11-21 14:02:00 UTC");
      expect(said).toContain(`the store's says 2026-11-${21 + days} 14:02:00 UTC`);
      const untimed = { keepLast: 1, graceMs: 0 };
      expect(verdictsOf(await manager.admin.planRetention({ policy: untimed }))).toEqual([
        '2 keep',
        '1 retire',
      ]);
    },
  );
});

describe('pins', () => {
  test('a pinned checkpoint is kept until its last label is taken away', async () => {
    const run = await runOf([1, 2]);
    await using manager = run.open();
    await manager.admin.pin(1, 'paper');
    await manager.admin.pin(1n, 'paper');
    await manager.admin.pin(1, 'demo');
    expect((await manager.list())[1]?.pins).toEqual(['paper', 'demo']);
    const policy = { keepLast: 1 };
    expect((await manager.admin.planRetention({ policy })).verdicts[1]?.reasons).toEqual([
      'it is pinned: paper, demo',
    ]);
    expect(await manager.admin.unpin(1, 'paper')).toEqual(['paper']);
    expect(verdictsOf(await manager.admin.planRetention({ policy }))).toEqual(['2 keep', '1 keep']);
    expect(await manager.admin.unpin(1)).toEqual(['demo']);
    expect(await manager.admin.unpin(1)).toEqual([]);
    expect(verdictsOf(await manager.admin.planRetention({ policy }))).toEqual(['2 keep', '1 retire']);
  });

  test('a version that is not there is NotFound, and so is a label', async () => {
    const run = await runOf([1]);
    await using manager = run.open();
    expect(await failure(manager.admin.pin(7, 'x'))).toBe('NotFound: version 7 is not in the catalog');
    expect(await failure(manager.admin.unpin(7))).toBe('NotFound: version 7 is not in the catalog');
    expect(await failure(manager.admin.unpin(1, 'x'))).toBe(
      'NotFound: version 1 has no pin "x"; it has none',
    );
    await manager.admin.pin(1, 'y');
    expect(await failure(manager.admin.unpin(1, 'x'))).toContain('it has "y"');
  });

  test.each(['', '  ', 'a\nb', 'x'.repeat(201), 'a\u2028b', '\u200e'])(
    'the label %j is refused',
    async (label) => {
      const run = await runOf([1]);
      await using manager = run.open();
      expect(await failure(manager.admin.pin(1, label))).toContain('it takes 1 to 200 printable characters');
      expect(await failure(manager.admin.unpin(1, label))).toContain(
        'it takes 1 to 200 printable characters',
      );
    },
  );

  test('labels may be in any script, and two hundred characters long', async () => {
    const run = await runOf([1]);
    await using manager = run.open();
    const labels = ['für die Arbeit', '論文 2', '😀'.repeat(200)];
    for (const label of labels) await manager.admin.pin(1, label);
    expect((await manager.list())[0]?.pins).toEqual(labels);
  });

  test('I7: a pin of which the store no longer answers is OutcomeUnknown, and may be repeated', async () => {
    const run = await runOf([1]);
    let isDown = false;
    const store = new FaultyStore(new MemoryStore(run.bucket), ({ operation, key }) => {
      isDown ||= operation === 'create' && key.startsWith('catalog/');
      return isDown ? { effect: 'once', reply: 'error' } : undefined;
    });
    const settings = { ...SETTINGS, recordTimeoutMs: 30, retryDelayMsMax: 1 };
    await using manager = run.open({ store, settings });
    expect(await failure(manager.admin.pin(1, 'paper'))).toBe(
      'OutcomeUnknown: it is not known whether the pin of version 1 took effect',
    );
    isDown = false;
    await using other = run.open();
    await other.admin.pin(1, 'paper');
    expect((await other.list())[0]?.pins).toEqual(['paper']);
  });
});

describe('undelete', () => {
  test('one that is not retired is Conflict, one that was never there NotFound', async () => {
    const run = await runOf([1]);
    await using manager = run.open();
    expect(await failure(manager.admin.undelete(1))).toBe('Conflict: version 1 is not retired: it is live');
    expect(await failure(manager.admin.undelete(9))).toBe('NotFound: version 9 is not in the catalog');
  });
});

test('how long a retired version can be taken back is told by the clock of the store, whatever the machine has', async () => {
  const run = await runOf([1, 2, 3, 4]);
  await using upkeep = run.open();
  await upkeep.admin.collect({ policy: { keepLast: 1, graceMs: HOUR_MS }, force: true });
  await run.clock.advance(600_000);
  for (const shiftMs of [0, 20 * HOUR_MS, -20 * HOUR_MS]) {
    const clock = { ...systemClock, nowMs: () => run.clock.nowMs() + shiftMs };
    await using looking = run.open({ clock });
    const retired = (await looking.list()).filter(({ state }) => state === 'retiring');
    expect(retired.map(({ graceLeftMs }) => graceLeftMs)).toEqual(retired.map(() => HOUR_MS - 600_000));
    expect(retired).not.toEqual([]);
  }
});
