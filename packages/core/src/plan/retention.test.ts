import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { RetentionPlan, RetentionPolicy } from '../contract/retention.ts';
import { type CatalogCheckpoint, idEquals, idText, type State } from '../format/index.ts';
import { apply } from './apply.ts';
import { dependsOnTime, planRetention } from './retention.ts';
import { policyRecord } from './retention-policy.ts';
import { EMPTY_STATE } from './state.ts';

const HOUR_MS = 3_600_000;
const NOW_MS = Date.UTC(2026, 10, 21, 14, 30);

/** A checkpoint that was committed `version` minutes after midnight. */
function checkpoint(version: number, changes: Partial<CatalogCheckpoint> = {}): CatalogCheckpoint {
  return {
    id: { lineage: 1, epoch: 1, version: BigInt(version) },
    manifestKey: '',
    manifestSha256: new Uint8Array(32),
    sizeBytes: 100,
    storedBytes: 100,
    annotatedMetadata: {},
    fileCount: 1,
    metrics: {},
    state: 'LIVE',
    retiringSeq: 0,
    retiringAtMs: 0,
    graceMs: 0,
    pins: [],
    verified: false,
    suspect: false,
    reason: '',
    committedAtMs: Date.UTC(2026, 10, 21, 0, version),
    bases: [],
    rolledBack: false,
    ...changes,
  };
}

/** `latest` is the newest live one on the path. */
function stateOf(checkpoints: readonly CatalogCheckpoint[], changes: Partial<State> = {}): State {
  const latest = checkpoints.findLast((each) => each.state === 'LIVE' && !each.rolledBack)?.id;
  return { ...EMPTY_STATE, epoch: 1, attempt: 'job', latest, checkpoints: [...checkpoints], ...changes };
}

function versions(from: number, to: number): CatalogCheckpoint[] {
  return Array.from({ length: to - from + 1 }, (_, index) => checkpoint(from + index));
}

function plan(state: State, policy: RetentionPolicy, nowMs = NOW_MS): RetentionPlan {
  return planRetention(state, policyRecord(policy), nowMs, policy.graceMs);
}

function keptOf({ verdicts }: RetentionPlan): number[] {
  return verdicts.filter(({ verdict }) => verdict === 'keep').map(({ version }) => Number(version));
}

function reasonsFor({ verdicts }: RetentionPlan, version: number): string {
  const found = verdicts.find((each) => each.version === BigInt(version));
  return found ? `${found.verdict}: ${found.reasons.join('; ')}` : 'not there';
}

describe('rules', () => {
  test('without a rule everything is kept', () => {
    const planned = plan(stateOf(versions(1, 3)), { graceMs: 0 });
    expect([planned.policy, keptOf(planned)]).toEqual([null, [3, 2, 1]]);
    expect(reasonsFor(planned, 1)).toBe('keep: there are no rules: everything is kept');
  });

  test('the newest are kept, newest first, and the others say which rules there are', () => {
    const planned = plan(stateOf(versions(1, 5)), { keepLast: 2 });
    expect(keptOf(planned)).toEqual([5, 4]);
    expect(reasonsFor(planned, 5)).toBe('keep: newest 2; it is the latest');
    expect(reasonsFor(planned, 4)).toBe('keep: newest 2');
    expect(reasonsFor(planned, 1)).toBe('retire: no rule keeps it: newest 2');
    expect([planned.totalBytes, planned.droppedBytes, planned.needsForce]).toEqual([500, 300, true]);
  });

  test('half of the bytes may go without being forced', () => {
    expect(plan(stateOf(versions(1, 4)), { keepLast: 2 }).needsForce).toBe(false);
  });

  test('multiples are kept', () => {
    const planned = plan(stateOf(versions(1, 11)), { keepEvery: 5 });
    expect(keptOf(planned)).toEqual([11, 10, 5]);
    expect(reasonsFor(planned, 10)).toBe('keep: multiple of 5');
  });

  test('the first of each span is kept, by the time of its commit', () => {
    const planned = plan(stateOf(versions(58, 62)), { keepEveryMs: HOUR_MS });
    expect(keptOf(planned)).toEqual([62, 60, 58]);
    expect(reasonsFor(planned, 60)).toBe('keep: first of the 1 h from 2026-11-21 01:00:00 UTC');
  });

  test('a copy that was committed later but made earlier is the first of its span', () => {
    const late = checkpoint(70, { committedAtMs: Date.UTC(2026, 10, 21, 1, 1) });
    const planned = plan(stateOf([...versions(65, 66), late]), { keepEveryMs: HOUR_MS });
    expect(keptOf(planned)).toEqual([70]);
  });

  test('those that are young enough are kept, the limit included', () => {
    const nowMs = Date.UTC(2026, 10, 21, 0, 10);
    const planned = plan(stateOf(versions(1, 10)), { keepForMs: 60_000 }, nowMs);
    expect(keptOf(planned)).toEqual([10, 9]);
    expect(reasonsFor(planned, 9)).toBe('keep: younger than 1 min');
  });

  test('the best are kept, low or high; the later of equal ones; those without the metric do not count', () => {
    const losses = [0.5, 0.2, 0.2, 0.9, Number.NaN];
    const all = losses.map((loss, index) =>
      checkpoint(index + 1, { metrics: Number.isNaN(loss) ? {} : { loss } }),
    );
    const low = plan(stateOf(all), { keepBest: [{ metric: 'loss', mode: 'min', count: 1 }] });
    expect(keptOf(low)).toEqual([5, 3]);
    expect(reasonsFor(low, 3)).toBe('keep: best 1 by loss (0.2)');
    const high = plan(stateOf(all), { keepBest: [{ metric: 'loss', mode: 'max', count: 2 }] });
    expect(keptOf(high)).toEqual([5, 4, 1]);
  });

  test('a checkpoint that any rule keeps is kept, with the reasons of all of them', () => {
    const planned = plan(stateOf(versions(1, 6)), { keepLast: 1, keepEvery: 2, keepEveryMs: HOUR_MS });
    expect(keptOf(planned)).toEqual([6, 4, 2, 1]);
    expect(reasonsFor(planned, 6)).toBe('keep: newest 1; multiple of 2; it is the latest');
  });
});

describe('what the rules do not take', () => {
  test('I3: pinned checkpoints, the one that was resumed from, and the last verified one are kept', () => {
    const all = [
      checkpoint(1, { pins: ['paper', 'demo'] }),
      checkpoint(2),
      checkpoint(3, { verified: true }),
      checkpoint(4, { verified: true }),
      ...versions(5, 7),
    ];
    const planned = plan(stateOf(all, { resumedFrom: all[1]?.id }), { keepLast: 1 });
    expect(keptOf(planned)).toEqual([7, 4, 2, 1]);
    expect(reasonsFor(planned, 1)).toBe('keep: it is pinned: paper, demo');
    expect(reasonsFor(planned, 2)).toBe('keep: the current attempt resumed from it');
    expect(reasonsFor(planned, 4)).toBe('keep: it is the only verified checkpoint');
    expect(reasonsFor(planned, 3)).toBe('retire: no rule keeps it: newest 1');
  });

  test('quarantined checkpoints stay, and do not count for a rule', () => {
    const all = [...versions(1, 3), checkpoint(4, { state: 'QUARANTINED', reason: 'a bit is wrong' })];
    const planned = plan(stateOf(all), { keepLast: 2 });
    expect(keptOf(planned)).toEqual([4, 3, 2]);
    expect(reasonsFor(planned, 4)).toBe('keep: quarantined (a bit is wrong): no rule removes it');
  });

  test('rolled-back checkpoints follow the same rules, but take no place of one on the path', () => {
    const back = { rolledBack: true, metrics: { loss: 0.1 } };
    const all = [
      checkpoint(1, { metrics: { loss: 0.9 } }),
      checkpoint(2, back),
      checkpoint(4, { ...back, metrics: { loss: 0.3 } }),
      checkpoint(3, { metrics: { loss: 0.8 }, id: { lineage: 2, epoch: 1, version: 3n } }),
    ];
    const best = plan(stateOf(all), { keepBest: [{ metric: 'loss', mode: 'min', count: 1 }] });
    expect(keptOf(best)).toEqual([3, 2]);
    expect(keptOf(plan(stateOf(all), { keepLast: 2 }))).toEqual([3, 1]);
    expect(keptOf(plan(stateOf(all), { keepEvery: 4 }))).toEqual([3, 4]);
  });
});

describe('retired checkpoints', () => {
  const retired = checkpoint(1, {
    state: 'RETIRING',
    retiringSeq: 9,
    retiringAtMs: NOW_MS - HOUR_MS,
    graceMs: HOUR_MS + 1,
    reason: 'old',
  });
  const state = stateOf([retired, ...versions(2, 3)]);

  test('they wait for the grace they were retired with, whatever that of the rules is now', () => {
    expect(reasonsFor(plan(state, { keepLast: 2 }), 1)).toMatch(/^wait: /);
    const later = { ...retired, graceMs: HOUR_MS };
    expect(reasonsFor(plan(stateOf([later, ...versions(2, 3)]), { keepLast: 2 }), 1)).toMatch(/^remove: /);
  });

  test('or for one that is asked for, by the time of the store, and are removed after it', () => {
    expect(reasonsFor(plan(state, { keepLast: 2, graceMs: HOUR_MS + 1 }), 1)).toBe(
      'wait: retired (old); it can be undeleted until 2026-11-21 14:30:00 UTC',
    );
    expect(reasonsFor(plan(state, { keepLast: 2, graceMs: HOUR_MS }), 1)).toBe(
      'remove: retired (old), and its grace of 1 h is over',
    );
  });

  test('they are dropped whatever the rules say now, and count among the dropped bytes', () => {
    const planned = plan(state, { keepLast: 9, graceMs: 0 });
    expect([reasonsFor(planned, 1).slice(0, 6), planned.droppedBytes]).toEqual(['remove', 100]);
  });

  test('I3: where nothing else is live they stay', () => {
    const alone = stateOf([retired, checkpoint(2, { state: 'QUARANTINED' })]);
    expect(reasonsFor(plan(alone, { keepLast: 1, graceMs: 0 }), 1)).toBe(
      'wait: retired (old), but no other checkpoint is live: undelete one first',
    );
  });
});

describe('rules that cannot be meant', () => {
  function refusal(state: State, policy: RetentionPolicy): string {
    try {
      plan(state, policy);
    } catch (error) {
      return `${(error as { code?: string }).code}: ${(error as Error).message}`;
    }
    throw new Error('it was accepted');
  }

  test('a metric that no checkpoint has: the message names those that are there', () => {
    const state = stateOf([checkpoint(1, { metrics: { loss: 1, accuracy: 2 } })]);
    const rule = { keepBest: [{ metric: 'constructor', mode: 'min' as const, count: 1 }] };
    expect(refusal(state, rule)).toBe(
      'InvalidArgument: the rule "best 1 by constructor" cannot be used: no checkpoint has the metric "constructor"; there are: accuracy, loss',
    );
    const many = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`m${index}`, 1]));
    expect(refusal(stateOf([checkpoint(1, { metrics: many })]), rule)).toContain(', … (12 in all)');
    expect(refusal(stateOf([checkpoint(1)]), rule)).toContain('no checkpoint has any metric');
  });

  test('rules that keep nothing: the message says how old the newest is and what it misses', () => {
    const rules = { keepEvery: 1000, keepForMs: HOUR_MS, keepLast: undefined };
    expect(refusal(stateOf(versions(1, 3)), rules)).toBe(
      'InvalidArgument: the rules (multiples of 1000, younger than 1 h) would keep none of 3 checkpoints: the newest, version 3, is 867 min old: it is not a multiple of 1000, and it is not younger than 1 h',
    );
    const back = versions(1, 2).map((each) => ({ ...each, rolledBack: true }));
    expect(refusal(stateOf(back), { keepLast: 1 })).toContain(
      'it was rolled back, so "newest 1" does not count it',
    );
  });

  test('an empty run has nothing to keep, which is no error', () => {
    const planned = plan(stateOf([]), { keepLast: 1, keepBest: [{ metric: 'loss', mode: 'min', count: 1 }] });
    expect([planned.verdicts, planned.needsForce]).toEqual([[], false]);
  });
});

test('only rules by time, a grace, and what waits for one depend on the time', () => {
  const of = (state: State, policy: RetentionPolicy) =>
    dependsOnTime(state, policyRecord(policy), policy.graceMs);
  const live = stateOf(versions(1, 2));
  const waiting = stateOf([checkpoint(1, { state: 'RETIRING', graceMs: 1 }), checkpoint(2)]);
  expect([of(live, {}), of(live, { keepLast: 1, graceMs: 0 }), of(waiting, { graceMs: 0 })]).toEqual([
    false,
    false,
    false,
  ]);
  expect([of(live, { keepLast: 1 }), of(live, { keepForMs: 1000, graceMs: 0 }), of(waiting, {})]).toEqual([
    true,
    true,
    true,
  ]);
});

// Random runs: versions on the path ascend; some were rolled back, retired, quarantined, pinned,
// verified.
const anyCheckpoint = fc.record({
  gap: fc.integer({ min: 1, max: 4 }),
  minutes: fc.integer({ min: 0, max: 90 }),
  kind: fc.constantFrom('LIVE', 'LIVE', 'LIVE', 'LIVE', 'RETIRING', 'QUARANTINED') as fc.Arbitrary<
    CatalogCheckpoint['state']
  >,
  rolledBack: fc.boolean(),
  pinned: fc.integer({ min: 0, max: 9 }),
  verified: fc.boolean(),
  loss: fc.option(fc.integer({ min: 0, max: 5 })),
});
const anyState = fc
  .tuple(fc.array(anyCheckpoint, { maxLength: 30 }), fc.nat(), fc.boolean())
  .map(([drawn, resumed, isPathOnly]) => {
    let version = 0;
    let committedAtMs = Date.UTC(2026, 10, 20);
    const all = drawn.map((each) => {
      version += each.gap;
      committedAtMs += each.minutes * 60_000;
      return checkpoint(version, {
        committedAtMs,
        state: each.kind,
        retiringSeq: each.kind === 'RETIRING' ? 3 : 0,
        retiringAtMs: each.kind === 'RETIRING' ? committedAtMs : 0,
        rolledBack: !isPathOnly && each.rolledBack,
        pins: each.pinned === 0 && each.kind === 'LIVE' ? ['kept'] : [],
        verified: each.verified && each.kind !== 'QUARANTINED',
        metrics: each.loss === null ? {} : { loss: each.loss },
      });
    });
    return stateOf(all, { resumedFrom: all[resumed % Math.max(1, all.length)]?.id });
  });
const ANY_RULE: { readonly [Name in keyof RetentionPolicy]-?: fc.Arbitrary<RetentionPolicy[Name]> } = {
  keepLast: fc.integer({ min: 1, max: 8 }),
  keepEvery: fc.integer({ min: 1, max: 12 }),
  keepEveryMs: fc.constantFrom(HOUR_MS, 4 * HOUR_MS),
  keepForMs: fc.constantFrom(HOUR_MS, 24 * HOUR_MS, 48 * HOUR_MS),
  keepBest: fc.array(
    fc.record({
      metric: fc.constant('loss'),
      mode: fc.constantFrom('min' as const, 'max' as const),
      count: fc.integer({ min: 1, max: 3 }),
    }),
    { maxLength: 2 },
  ),
  graceMs: fc.constantFrom(0, HOUR_MS),
};
const anyPolicy: fc.Arbitrary<RetentionPolicy> = fc.record(ANY_RULE, { requiredKeys: [] });

/** `null`: the rules are rejected. */
function tryPlan(state: State, policy: RetentionPolicy): RetentionPlan | null {
  try {
    return plan(state, policy);
  } catch {
    return null;
  }
}

function idsOf(planned: RetentionPlan, verdict: 'retire' | 'remove') {
  return planned.verdicts.filter((each) => each.verdict === verdict).map(({ id }) => id);
}

const inEpoch = { lineage: 1, epoch: 1, reason: 'no rule keeps it' };

describe('in any run, under any rules', () => {
  test('I3: all that the plan retires and removes pass the guard of the catalog together, in any order', () => {
    fc.assert(
      fc.property(anyState, anyPolicy, fc.boolean(), (state, policy, isReversed) => {
        const planned = tryPlan(state, policy);
        if (!planned) return;
        const ids = idsOf(planned, 'retire');
        const checkpoints = isReversed ? ids.toReversed() : ids;
        const retired = apply(
          state,
          { ...inEpoch, kind: 'retire', id: 'a', checkpoints, atMs: NOW_MS, graceMs: 0 },
          7,
        );
        expect(retired.kind).toBe(ids.length > 0 ? 'applied' : 'already');
        const removed = idsOf(planned, 'remove');
        const retiringSeqs = removed.map(() => 3);
        const remove = { ...inEpoch, kind: 'remove' as const, id: 'b', checkpoints: removed, retiringSeqs };
        expect(apply(state, remove, 8).kind).toBe(removed.length > 0 ? 'applied' : 'already');
      }),
      { numRuns: 500 },
    );
  });

  test('the newest on the path are kept', () => {
    fc.assert(
      fc.property(anyState, anyPolicy, (state, policy) => {
        const planned = tryPlan(state, policy);
        const { keepLast } = policy;
        if (!planned || keepLast === undefined) return;
        const path = state.checkpoints.filter((each) => each.state === 'LIVE' && !each.rolledBack);
        const kept = new Set(
          planned.verdicts.filter(({ verdict }) => verdict === 'keep').map(({ id }) => idText(id)),
        );
        for (const each of path.slice(-keepLast)) expect(kept).toContain(idText(each.id));
      }),
      { numRuns: 300 },
    );
  });

  test('planned again after it was done, nothing more is retired', () => {
    fc.assert(
      fc.property(anyState, anyPolicy, (state, policy) => {
        const planned = tryPlan(state, policy);
        const ids = planned ? idsOf(planned, 'retire') : [];
        if (ids.length === 0) return;
        const done = apply(
          state,
          { ...inEpoch, kind: 'retire', id: 'a', checkpoints: ids, atMs: NOW_MS, graceMs: 0 },
          7,
        );
        if (done.kind !== 'applied') throw new Error('the plan was not accepted');
        expect(idsOf(plan(done.state, policy), 'retire')).toEqual([]);
      }),
      { numRuns: 300 },
    );
  });

  test('one rule more never drops more', () => {
    fc.assert(
      fc.property(anyState, anyPolicy, anyPolicy, (state, policy, more) => {
        const graceMs = policy.graceMs;
        const before = tryPlan(state, policy);
        const after = tryPlan(state, {
          ...more,
          ...policy,
          keepBest: [...(policy.keepBest ?? []), ...(more.keepBest ?? [])],
          graceMs,
        });
        if (before?.policy == null || !after) return;
        const dropped = idsOf(before, 'retire');
        for (const id of idsOf(after, 'retire')) {
          // The rules decide which verified checkpoint is the last: a newer one may take the place
          // of an older one.
          const found = state.checkpoints.find((each) => idEquals(each.id, id));
          if (found?.verified) continue;
          expect(dropped.map(idText)).toContain(idText(id));
        }
      }),
      { numRuns: 300 },
    );
  });
});
