import { describe, expect, test } from 'vitest';
import { type CheckpointId, type State, UINT32_MAX } from '../format/index.ts';
import { apply } from './apply.ts';
import type { Decision } from './decision.ts';
import { EMPTY_STATE, isUncommittable, latestOf, PAST_ATTEMPTS_LENGTH, TXN_RING_LENGTH } from './state.ts';
import type { Commit, Decided } from './transaction.ts';

let txnNumber = 0;
let seq = 0;

function decide(state: State, txn: Decided): Decision {
  return apply(state, { ...txn, id: `txn-${txnNumber++}` }, ++seq);
}

/** The state after `txn`, which must be applied. */
function after(state: State, txn: Decided): State {
  const decision = decide(state, txn);
  if (decision.kind !== 'applied')
    throw new Error(
      `not applied: ${JSON.stringify(decision, (_, v) => (typeof v === 'bigint' ? `${v}` : v))}`,
    );
  return decision.state;
}

function takeover(attempt: string, worldSize = 1, attemptDrawn = false): Decided {
  return { kind: 'takeover', attempt, attemptDrawn, worldSize, reason: '' };
}

function digest(byte: number): Uint8Array {
  return new Uint8Array(32).fill(byte);
}

function commit(id: CheckpointId, changes: Partial<Commit> = {}): Commit {
  return {
    kind: 'commit',
    checkpoint: id,
    worldSize: 1,
    writers: [{ writer: 0, incarnation: 0 }],
    manifestKey: `manifest-${id.version}`,
    manifestSha256: digest(1),
    sizeBytes: 10,
    storedBytes: 10,
    fileCount: 1,
    metrics: {},
    bases: [],
    suspicions: [],
    atMs: 0,
    ...changes,
  };
}

const at = (lineage: number, epoch: number, version: bigint): CheckpointId => ({ lineage, epoch, version });
const joined = after(EMPTY_STATE, takeover('job-0'));

/** Versions 1 to `count` committed in lineage 1, epoch 1. */
function committed(count: number): State {
  let state = joined;
  for (let version = 1; version <= count; version++) state = after(state, commit(at(1, 1, BigInt(version))));
  return state;
}

function reasonOf(decision: Decision): string {
  return decision.kind === 'rejected' ? decision.reason : decision.kind;
}

function on(
  kind: 'abandon' | 'quarantine' | 'retire' | 'unretire',
  version: bigint,
  lineage = 1,
  epoch = 1,
): Decided {
  const id = at(1, 1, version);
  const about = { lineage, epoch, reason: 'because' };
  if (kind === 'retire') return { ...about, kind, checkpoints: [id], atMs: 7, graceMs: 0 };
  return kind === 'unretire' ? { ...about, kind, checkpoints: [id] } : { ...about, kind, checkpoint: id };
}

function remove(version: bigint, retiringSeq: number): Decided {
  const checkpoints = [at(1, 1, version)];
  return { kind: 'remove', lineage: 1, epoch: 1, checkpoints, reason: '', retiringSeqs: [retiringSeq] };
}

describe('takeover', () => {
  test('the first attempt begins epoch 1, the next epoch 2, and the first has passed for ever', () => {
    const second = after(joined, takeover('job-1', 4));
    expect([joined.epoch, second.epoch, second.worldSize]).toEqual([1, 2, 4]);
    expect(reasonOf(decide(second, takeover('job-0')))).toBe('fenced');
  });

  test('I5: the attempt that owns the run does not take it over again', () => {
    expect(decide(joined, takeover('job-0')).kind).toBe('already');
  });

  test('a drawn attempt is not remembered, a given one is, up to a stated number', () => {
    let state = after(joined, takeover('drawn-1', 1, true));
    state = after(state, takeover('job-2'));
    expect(state.pastAttempts).toHaveLength(1);
    const full = { ...state, pastAttempts: Array.from({ length: PAST_ATTEMPTS_LENGTH }, (_, i) => `${i}`) };
    expect(after(full, takeover('job-3')).pastAttempts).toHaveLength(PAST_ATTEMPTS_LENGTH);
  });

  test('it empties incarnations and abandoned versions, but keeps lineage and top', () => {
    let state = committed(3);
    state = after(state, { kind: 'register', lineage: 1, epoch: 1, claims: [{ writer: 0, incarnation: 1 }] });
    state = after(state, on('abandon', 9n));
    const next = after(state, takeover('job-1'));
    expect([next.incarnations, next.abandoned, next.lineage, next.top]).toEqual([{}, [], 1, 3n]);
  });
});

test('numbers that have come to their end are told', () => {
  const last = { ...committed(1), epoch: UINT32_MAX, lineage: UINT32_MAX };
  for (const [what, txn] of [
    ['attempt', takeover('job-1')],
    ['rollback', { kind: 'rollback', lineage: UINT32_MAX, checkpoint: at(1, 1, 1n), reason: 'diverged' }],
  ] as const)
    expect(decide(last, txn)).toMatchObject({
      reason: 'refused',
      message: `no ${what} is left: this run has counted them to 4294967295, the highest number`,
    });
});

describe('register', () => {
  const register = (writer: number, incarnation: number, epoch = 1): Decided => ({
    kind: 'register',
    lineage: 1,
    epoch,
    claims: [{ writer, incarnation }],
  });

  test('it only ever raises an incarnation', () => {
    const state = after(joined, register(0, 2));
    expect(state.incarnations).toEqual({ 0: 2 });
    expect(decide(state, register(0, 1)).kind).toBe('already');
  });

  test('I5: a process of a passed epoch registers nothing', () => {
    expect(reasonOf(decide(after(joined, takeover('job-1')), register(0, 1, 1)))).toBe('fenced');
  });
});

describe('commit', () => {
  test('it becomes the latest and the top', () => {
    const state = committed(2);
    expect([latestOf(state)?.id?.version, state.top]).toEqual([2n, 2n]);
  });

  test('version 0 can be committed first', () => {
    expect(after(joined, commit(at(1, 1, 0n))).top).toBe(0n);
  });

  test('I4: an id that is there is the answer, for any caller and whatever has changed since', () => {
    const state = after(committed(2), takeover('job-1'));
    expect(reasonOf(decide(state, commit(at(1, 1, 1n), { manifestSha256: digest(9) })))).toBe('present');
  });

  test('I5: after a takeover nothing of the older epoch commits', () => {
    expect(reasonOf(decide(after(joined, takeover('job-1')), commit(at(1, 1, 5n))))).toBe('fenced');
  });

  test('I2: a version that is not above the top is refused', () => {
    const state = after(committed(3), takeover('job-1'));
    expect(reasonOf(decide(state, commit(at(1, 2, 3n))))).toBe('stale');
    expect(reasonOf(decide(state, commit(at(1, 2, 4n))))).toBe('applied');
  });

  test('I6: a receipt of a former life voids the manifest, not the save', () => {
    const state = after(joined, {
      kind: 'register',
      lineage: 1,
      epoch: 1,
      claims: [{ writer: 0, incarnation: 1 }],
    });
    expect(reasonOf(decide(state, commit(at(1, 1, 1n))))).toBe('receipts-changed');
    const own = { writer: 0, incarnation: 0 };
    expect(reasonOf(decide(state, commit(at(1, 1, 1n), { own })))).toBe('superseded');
  });

  test('I6: receipts of another number of writers do not commit', () => {
    expect(reasonOf(decide(joined, commit(at(1, 1, 1n), { worldSize: 2 })))).toBe('world-size');
  });

  test('an abandoned version does not commit', () => {
    expect(reasonOf(decide(after(joined, on('abandon', 1n)), commit(at(1, 1, 1n))))).toBe('abandoned');
  });

  test('I1: a base that is removed or quarantined makes it impossible, one that is retiring does not', () => {
    const base = at(1, 1, 1n);
    const refers = commit(at(1, 1, 4n), { bases: [base] });
    const state = committed(3);
    expect(reasonOf(decide(state, refers))).toBe('applied');
    expect(reasonOf(decide(after(state, on('retire', 1n)), refers))).toBe('applied');
    expect(reasonOf(decide(after(state, on('quarantine', 1n)), refers))).toBe('base-gone');
    expect(reasonOf(decide(state, commit(at(1, 1, 4n), { bases: [at(1, 1, 99n)] })))).toBe('base-gone');
  });

  test('I7: a removed checkpoint answers its own manifest as committed, another as unknown', () => {
    const retiring = after(committed(3), on('retire', 1n));
    const retiringSeq = retiring.checkpoints[0]?.retiringSeq ?? 0;
    const removed = after(retiring, remove(1n, retiringSeq));
    expect(reasonOf(decide(removed, commit(at(1, 1, 1n))))).toBe('present-removed');
    expect(reasonOf(decide(removed, commit(at(1, 1, 1n), { manifestSha256: digest(2) })))).toBe('unknown');
    const forgotten = { ...removed, removedRing: [], removedFloor: { lineage: 1, version: 1n } };
    expect(reasonOf(decide(forgotten, commit(at(1, 1, 1n))))).toBe('unknown');
  });

  test('the ring holds the newest transactions, its own last', () => {
    let state = joined;
    for (let version = 1; version <= TXN_RING_LENGTH + 5; version++)
      state = after(state, commit(at(1, 1, BigInt(version))));
    expect(state.txnRing).toHaveLength(TXN_RING_LENGTH);
    expect(state.txnRing.at(-1)).toBe(`txn-${txnNumber - 1}`);
  });
});

describe('retention', () => {
  test('I3: neither the latest nor a pinned checkpoint is retired', () => {
    const state = committed(3);
    expect(reasonOf(decide(state, on('retire', 3n)))).toBe('refused');
    const pinned = after(state, {
      kind: 'pin',
      lineage: 1,
      epoch: 1,
      checkpoint: at(1, 1, 1n),
      reason: '',
      label: 'paper',
    });
    expect(reasonOf(decide(pinned, on('retire', 1n)))).toBe('refused');
    const unpinned = after(pinned, {
      kind: 'unpin',
      lineage: 1,
      epoch: 1,
      checkpoint: at(1, 1, 1n),
      reason: '',
      label: 'paper',
    });
    expect(reasonOf(decide(unpinned, on('retire', 1n)))).toBe('applied');
  });

  test('I3: remove needs the very retirement under which the leases were listed', () => {
    const first = after(committed(3), on('retire', 1n));
    const firstSeq = first.checkpoints[0]?.retiringSeq ?? 0;
    const again = after(after(first, on('unretire', 1n)), on('retire', 1n));
    expect(reasonOf(decide(again, remove(1n, firstSeq)))).toBe('refused');
    expect(reasonOf(decide(again, remove(1n, again.checkpoints[0]?.retiringSeq ?? 0)))).toBe('applied');
  });

  test('I3: what the present attempt resumed from is not retired, and is again after the next takeover', () => {
    const resumed = after(committed(2), takeover('job-1'));
    let state = resumed;
    for (const version of [3n, 4n]) state = after(state, commit(at(1, 2, version)));
    const retireTwo: Decided = { ...on('retire', 2n), epoch: 2 } as Decided;
    expect(decide(state, retireTwo)).toMatchObject({
      kind: 'rejected',
      message: expect.stringContaining('resumed from it'),
    });
    const next = after(state, takeover('job-2'));
    expect(reasonOf(decide(next, { ...on('retire', 2n), epoch: 3 } as Decided))).toBe('applied');
  });

  test('I3: a rollback makes its target what the attempt resumed from', () => {
    const back = after(committed(3), {
      kind: 'rollback',
      lineage: 1,
      checkpoint: at(1, 1, 2n),
      reason: 'diverged',
    });
    expect(back.resumedFrom).toEqual(at(1, 1, 2n));
  });

  test('I3: the only verified checkpoint is not retired; one of two is', () => {
    const verify = (version: bigint): Decided => ({
      kind: 'verify',
      lineage: 1,
      epoch: 1,
      checkpoint: at(1, 1, version),
      reason: '',
    });
    const one = after(committed(4), verify(1n));
    expect(decide(one, on('retire', 1n))).toMatchObject({
      message: expect.stringContaining('only verified'),
    });
    expect(reasonOf(decide(one, verify(1n)))).toBe('already');
    expect(reasonOf(decide(after(one, verify(2n)), on('retire', 1n)))).toBe('applied');
  });

  test('a decision on several checkpoints takes all of them or none', () => {
    const both = (checkpoints: bigint[]): Decided => ({
      kind: 'retire',
      lineage: 1,
      epoch: 1,
      checkpoints: checkpoints.map((version) => at(1, 1, version)),
      reason: 'old',
      atMs: 7,
      graceMs: 0,
    });
    const state = committed(4);
    expect(reasonOf(decide(state, both([1n, 4n])))).toBe('refused');
    const retired = after(state, both([1n, 2n]));
    expect(retired.checkpoints.map((each) => [each.state, each.retiringAtMs])).toEqual([
      ['RETIRING', 7],
      ['RETIRING', 7],
      ['LIVE', 0],
      ['LIVE', 0],
    ]);
  });

  test('I3: where nothing is live any more, what was retired is not removed', () => {
    const retired = after(committed(2), on('retire', 1n));
    const seqOfIt = retired.checkpoints[0]?.retiringSeq ?? 0;
    const alone = after(retired, on('quarantine', 2n));
    expect(decide(alone, remove(1n, seqOfIt))).toMatchObject({
      message: expect.stringContaining('no other checkpoint is live'),
    });
    expect(reasonOf(decide(after(alone, on('unretire', 1n)), on('unretire', 1n)))).toBe('refused');
  });

  test('what is taken back is the latest where all that was newer is quarantined', () => {
    const retired = after(after(committed(4), on('retire', 1n)), on('retire', 3n));
    const older = after(retired, on('quarantine', 4n));
    expect([older.latest?.version, after(older, on('unretire', 1n)).latest?.version]).toEqual([2n, 2n]);
    expect(after(older, on('unretire', 3n)).latest?.version).toBe(3n);
    const none = after(older, on('quarantine', 2n));
    expect([none.latest, after(none, on('unretire', 1n)).latest?.version]).toEqual([undefined, 1n]);
  });

  test('I5: nothing of an older epoch retires or removes', () => {
    const state = after(committed(3), takeover('job-1'));
    expect(reasonOf(decide(state, on('retire', 1n)))).toBe('fenced');
  });

  test('what falls off the removed ring raises the floor', () => {
    let state = committed(2);
    state = {
      ...state,
      removedRing: Array.from({ length: 256 }, (_, i) => ({
        id: at(1, 1, BigInt(i + 100)),
        manifestSha256: digest(0),
      })),
    };
    state = after(state, on('retire', 1n));
    expect(after(state, remove(1n, seq)).removedFloor).toEqual({ lineage: 1, version: 100n });
  });
});

describe('quarantine and abandon', () => {
  test('I2: quarantine moves `latest` to the newest live one and never lowers the top', () => {
    const state = after(committed(3), on('quarantine', 3n));
    expect([latestOf(state)?.id?.version, state.top]).toEqual([2n, 3n]);
    expect(reasonOf(decide(state, commit(at(1, 1, 3n))))).toBe('present');
  });

  test('an abandoned version is forgotten only when another clause covers it', () => {
    let state = joined;
    for (let version = 1; version <= 256; version++) state = after(state, on('abandon', BigInt(version)));
    expect(reasonOf(decide(state, on('abandon', 300n)))).toBe('refused');
    state = after(state, commit(at(1, 1, 400n)));
    expect(after(state, on('abandon', 500n)).abandoned).toEqual([at(1, 1, 500n)]);
    expect(isUncommittable(state, at(1, 1, 7n))).toBe(true);
  });
});

describe('rollback', () => {
  const back = (version: bigint, lineage = 1): Decided => ({
    kind: 'rollback',
    lineage,
    checkpoint: at(1, 1, version),
    reason: 'diverged',
  });

  test('it goes back in versions but never in lineage, and only once', () => {
    const state = after(committed(5), back(2n));
    expect([state.lineage, state.top, latestOf(state)?.id?.version, state.epoch]).toEqual([2, 2n, 2n, 1]);
    expect(reasonOf(decide(state, back(1n)))).toBe('rolled-back');
  });

  test('I5: writers of the lineage it left are fenced, those of the new one may use the numbers again', () => {
    const state = after(committed(5), back(2n));
    expect(reasonOf(decide(state, commit(at(1, 1, 6n))))).toBe('rolled-back');
    expect(reasonOf(decide(state, commit(at(2, 1, 3n))))).toBe('applied');
  });

  test('what it went back before is kept, but readers are not offered it, not even after a quarantine', () => {
    let state = after(committed(5), back(2n));
    state = after(state, commit(at(2, 1, 7n)));
    const quarantined = after(state, {
      kind: 'quarantine',
      lineage: 2,
      epoch: 1,
      checkpoint: at(2, 1, 7n),
      reason: 'bad',
    });
    expect(latestOf(quarantined)?.id).toEqual(at(1, 1, 2n));
    expect(quarantined.checkpoints).toHaveLength(6);
  });

  test('a checkpoint that is not live is no target', () => {
    expect(reasonOf(decide(after(committed(3), on('quarantine', 2n)), back(2n)))).toBe('refused');
    expect(reasonOf(decide(committed(3), back(9n)))).toBe('refused');
  });
});
