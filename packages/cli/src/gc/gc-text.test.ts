import type {
  CollectResult,
  Postponed,
  RetentionPlan,
  RetentionVerdict,
  SweepResult,
} from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { plainStyle } from '../style.ts';
import { collectText } from './collect-text.ts';
import { collectJson, planJson } from './gc-json.ts';
import { explainText, planText } from './plan-text.ts';

const GIB = 1024 ** 3;

function verdict(version: number, what: RetentionVerdict['verdict'], reason: string): RetentionVerdict {
  return {
    id: { lineage: 1, epoch: 2, version: BigInt(version) },
    version: BigInt(version),
    sizeBytes: 2 * GIB,
    storedBytes: GIB,
    isLeftBehind: false,
    state: what === 'remove' || what === 'wait' ? 'retiring' : 'live',
    verdict: what,
    reasons: [reason],
    isBeyondRules: false,
  };
}

function plan(verdicts: RetentionVerdict[], rest: Partial<RetentionPlan> = {}): RetentionPlan {
  const dropped = verdicts.filter((each) => each.verdict !== 'keep').length;
  return {
    policy: { keepLast: 2, graceMs: 7_200_000 },
    rules: 'newest 2; grace 2 h',
    verdicts,
    totalBytes: verdicts.length * GIB,
    droppedBytes: dropped * GIB,
    needsForce: false,
    ...rest,
  };
}

const swept: SweepResult = {
  objectCount: 0,
  freedBytes: 0,
  uploadCount: 0,
  uploadBytes: 0,
  leaseCount: 0,
  held: [],
  heldCount: 0,
  notes: [],
};

function collected(rest: Partial<CollectResult>): CollectResult {
  return { plan: plan([]), retired: [], removed: [], postponed: [], swept, ...rest };
}

function postponed(version: bigint, reason: string): Postponed {
  return { id: { lineage: 1, epoch: 2, version }, version, isLeftBehind: false, reason };
}

/** A rollback left the second one behind: its version was written again. */
const TWICE = [
  verdict(7, 'keep', 'newest 2'),
  { ...verdict(7, 'retire', 'no rule keeps it'), isLeftBehind: true },
];

const MIXED = [
  verdict(6, 'keep', 'newest 2; it is the latest'),
  verdict(5, 'keep', 'newest 2'),
  verdict(4, 'retire', 'no rule keeps it: newest 2'),
  verdict(3, 'wait', 'retired, with 1 h of its grace left'),
  verdict(2, 'remove', 'retired, and its grace is over'),
];

describe('planText', () => {
  it('is one screen: rules, what becomes of how many, what that frees', () => {
    expect(planText(plan(MIXED), plainStyle).split('\n')).toEqual([
      'rules: newest 2; grace 2 h',
      'PLAN     VERSIONS    STORED   WHICH',
      'keep            2   2.0 GiB   5 and 6',
      'retire          1   1.0 GiB   4',
      'wait            1   1.0 GiB   3',
      'remove          1   1.0 GiB   2',
      'removed for good: 1.0 GiB',
      'removed after the grace period: 2.0 GiB; until then `holdfast undelete` can undo it',
    ]);
  });

  it('without a grace says so', () => {
    const text = planText(plan(MIXED.slice(0, 3), { policy: { keepLast: 2, graceMs: 0 } }), plainStyle);
    expect(text).toMatch(/\nremoved for good, without a grace period: 1\.0 GiB$/);
  });

  it('without a grace, what was retired with one keeps it', () => {
    const text = planText(plan(MIXED.slice(0, 4), { policy: { keepLast: 2, graceMs: 0 } }), plainStyle);
    expect(text.split('\n').slice(-2)).toEqual([
      'removed for good, without a grace period: 1.0 GiB',
      'removed after the grace period: 1.0 GiB; until then `holdfast undelete` can undo it',
    ]);
  });

  it('says what needs --force, with the numbers', () => {
    const text = planText(plan(MIXED, { needsForce: true }), plainStyle);
    expect(text).toMatch(/\nthis drops more than half of the run, 3\.0 GiB of 5\.0 GiB: it needs --force$/);
  });

  it('says that nothing goes', () => {
    const text = planText(
      plan(MIXED.slice(0, 2), { policy: null, rules: 'none: everything is kept' }),
      plainStyle,
    );
    expect(text.split('\n')).toEqual([
      'rules: none: everything is kept',
      'PLAN   VERSIONS    STORED   WHICH',
      'keep          2   2.0 GiB   5 and 6',
      'nothing to retire or remove; objects that belong to no version are deleted nevertheless',
    ]);
  });

  it('names what a rollback left behind with its lineage', () => {
    expect(planText(plan(TWICE), plainStyle)).toMatch(/\nkeep .* 7\nretire .* 7@1\n/);
    expect(explainText(plan(TWICE), plainStyle)).toMatch(/\n +7 .*\n +7@1 .*/);
    const [left] = [{ ...postponed(7n, 'its grace'), isLeftBehind: true }];
    const both = collected({ postponed: [left, postponed(7n, 'its grace')] });
    expect(collectText(both, plainStyle)).toContain('waits  7@1 and 7   its grace');
  });

  it('says why more stays than the rules say, once for each reason', () => {
    const beyond = (version: number, reason: string) => ({
      ...verdict(version, 'keep', reason),
      isBeyondRules: true,
    });
    const resumed = 'the current attempt resumed from it';
    const verdicts = [
      verdict(4, 'keep', 'newest 1'),
      beyond(3, resumed),
      beyond(2, 'pinned'),
      beyond(1, 'pinned'),
    ];
    const lines = planText(plan(verdicts), plainStyle).split('\n');
    expect(lines).toContain(`beside the rules 3 stays: ${resumed}`);
    expect(lines).toContain('beside the rules 1 and 2 stay: pinned');
  });

  it('names the first and the last of many', () => {
    const many = Array.from({ length: 12 }, (_, index) => verdict(1200 - index * 100, 'keep', 'newest 12'));
    expect(planText(plan(many), plainStyle)).toContain('   100, 200, 300 … 1200\n');
  });
});

describe('explainText', () => {
  it('has every version, newest first, with its reasons', () => {
    const lines = explainText(plan(MIXED), plainStyle).split('\n');
    expect(lines.slice(1, 4)).toEqual([
      'VERSION    STORED   PLAN     WHY',
      '      6   1.0 GiB   keep     newest 2; it is the latest',
      '      5   1.0 GiB   keep     newest 2',
    ]);
    expect(lines[6]).toBe('      2   1.0 GiB   remove   retired, and its grace is over');
  });
});

describe('collectText', () => {
  it('is one line where all went well', () => {
    const result = collected({
      retired: [4n],
      removed: [2n, 1n],
      swept: {
        ...swept,
        objectCount: 1034,
        freedBytes: 108 * GIB,
        uploadCount: 2,
        uploadBytes: GIB,
        leaseCount: 1,
      },
    });
    expect(collectText(result, plainStyle)).toBe(
      'collected  retired 1, removed 2, deleted 1,034 objects, 108 GiB; 2 uploads stopped, 1.0 GiB; 1 expired lease deleted',
    );
  });

  it('names what waits by its reason, what is held, and what the settings of the bucket mean', () => {
    const held = Array.from({ length: 12 }, (_, index) => ({
      key: `version_2/${index}\n`,
      reason: 'locked',
    }));
    const result = collected({
      postponed: [
        postponed(4n, 'its grace ends in 1 h'),
        postponed(3n, 'its grace ends in 1 h'),
        postponed(1n, 'eval-7 has a lease on it'),
      ],
      swept: {
        ...swept,
        held,
        heldCount: 30,
        notes: ['versions are kept: what was deleted is still billed'],
      },
    });
    const lines = collectText(result, plainStyle).split('\n');
    expect(lines.slice(0, 3)).toEqual([
      'waits  1   eval-7 has a lease on it',
      'waits  3 and 4   its grace ends in 1 h',
      'held   version_2/0\\x0a   locked',
    ]);
    expect(lines.slice(-3)).toEqual([
      'held   20 objects more',
      'note   versions are kept: what was deleted is still billed',
      'nothing to collect',
    ]);
  });
});

describe('JSON', () => {
  it('a plan has every version with its verdict', () => {
    const json = planJson(plan(MIXED.slice(0, 1), { policy: { keepEvery: 10n } }));
    expect(json).toEqual({
      policy: { keepEvery: 10 },
      checkpoints: [
        {
          version: 6,
          id: { lineage: 1, epoch: 2, version: 6 },
          sizeBytes: 2 * GIB,
          storedBytes: GIB,
          isLeftBehind: false,
          state: 'live',
          verdict: 'keep',
          reasons: ['newest 2; it is the latest'],
          isBeyondRules: false,
        },
      ],
      totalBytes: GIB,
      droppedBytes: 0,
      needsForce: false,
    });
    expect(planJson(plan([], { policy: null })).policy).toBeNull();
  });

  it('a collection has what was done', () => {
    const result = collected({
      retired: [2n ** 60n],
      removed: [1n],
      postponed: [postponed(3n, 'grace')],
    });
    expect(collectJson(result)).toMatchObject({
      retired: ['1152921504606846976'],
      removed: [1],
      postponed: [
        { version: 3, id: { lineage: 1, epoch: 2, version: 3 }, isLeftBehind: false, reason: 'grace' },
      ],
      swept: { objectCount: 0, held: [] },
    });
  });
});
