/**
 * Every decision about a run: one pure function from the newest state and a transaction to the next
 * state or a rejection. Each clause is a rule of docs/format.md; the order of the clauses matters,
 * most of all in `commit`.
 */

import { referenceText } from '../contract/reference.ts';
import { idEquals, type State, UINT32_MAX } from '../format/index.ts';
import { applyCommit } from './apply-commit.ts';
import { applyKeeping } from './apply-keeping.ts';
import { type Decision, type Rejected, rejected } from './decision.ts';
import { inEpochProblem } from './epoch.ts';
import {
  ABANDONED_LENGTH,
  attemptHash,
  findById,
  incarnationOf,
  isPastAttempt,
  isUncommittable,
  onPathAbove,
  PAST_ATTEMPTS_LENGTH,
  pushBounded,
  TXN_RING_LENGTH,
} from './state.ts';
import type { Abandon, Decided, Register, Release, Rollback, Takeover, Txn } from './transaction.ts';

/** `seq`: the number of the entry that would hold the new state. */
export function apply(state: State, txn: Txn, seq: number): Decision {
  const decision = decide(state, txn, seq);
  if (decision.kind !== 'applied') return decision;
  const txnRing = pushBounded(state.txnRing, txn.id, TXN_RING_LENGTH);
  return { kind: 'applied', state: { ...decision.state, txnRing } };
}

function decide(state: State, txn: Decided, seq: number): Decision {
  switch (txn.kind) {
    case 'takeover':
      return takeover(state, txn);
    case 'commit':
      return applyCommit(state, txn);
    case 'rollback':
      return rollback(state, txn);
    default: {
      // Except for takeover and rollback, the lineage and epoch of the issuer must be current.
      return inEpochProblem(state, txn) ?? decideInEpoch(state, txn, seq);
    }
  }
}

type InEpochTxn = Exclude<Decided, Takeover | Rollback | { kind: 'commit' }>;

function decideInEpoch(state: State, txn: InEpochTxn, seq: number): Decision {
  switch (txn.kind) {
    case 'register':
      return register(state, txn);
    case 'abandon':
      return abandon(state, txn);
    case 'policy':
      return { kind: 'applied', state: { ...state, policy: txn.policy } };
    case 'release':
      return release(state, txn);
    default:
      return applyKeeping(state, txn, seq);
  }
}

function release(state: State, { manifestKey }: Release): Decision {
  const skippedManifests = state.skippedManifests.filter((key) => key !== manifestKey);
  if (skippedManifests.length < state.skippedManifests.length)
    return { kind: 'applied', state: { ...state, skippedManifests } };
  const held = state.skippedManifests.join(', ') || 'nothing';
  return rejected('refused', `${manifestKey} is not a skipped manifest; a rebuild skipped these: ${held}`);
}

function takeover(state: State, txn: Takeover): Decision {
  if (txn.attempt === state.attempt) return { kind: 'already' };
  if (isPastAttempt(state, txn.attempt)) {
    return rejected(
      'fenced',
      `attempt "${txn.attempt}" is no longer current: attempt "${state.attempt}" owns the run`,
    );
  }
  if (state.epoch === UINT32_MAX) return noneLeft('attempt', state.epoch);
  const remembers = state.attempt !== '' && !state.attemptDrawn;
  const pastAttempts = remembers
    ? pushBounded(state.pastAttempts, attemptHash(state.attempt), PAST_ATTEMPTS_LENGTH)
    : state.pastAttempts;
  return {
    kind: 'applied',
    state: {
      ...state,
      epoch: state.epoch + 1,
      attempt: txn.attempt,
      attemptDrawn: txn.attemptDrawn,
      pastAttempts,
      worldSize: txn.worldSize,
      incarnations: {},
      abandoned: [],
      resumedFrom: state.latest,
    },
  };
}

/** No run counts so far. A forged record may. */
function noneLeft(what: 'attempt' | 'rollback', last: number): Rejected {
  return rejected('refused', `no ${what} is left: this run has counted them to ${last}, the highest number`);
}

function register(state: State, txn: Register): Decision {
  const newer = txn.claims.filter((claim) => claim.incarnation > incarnationOf(state, claim.writer));
  if (newer.length === 0) return { kind: 'already' };
  const incarnations = { ...state.incarnations };
  for (const claim of newer) incarnations[claim.writer] = claim.incarnation;
  return { kind: 'applied', state: { ...state, incarnations } };
}

function abandon(state: State, txn: Abandon): Decision {
  const id = txn.checkpoint;
  if (state.abandoned.some((other) => idEquals(other, id))) return { kind: 'already' };
  if (isUncommittable(state, id))
    return rejected('refused', `version ${referenceText(id)} is already decided`);
  // An id may only be dropped if another clause rejects it. If its age alone decided, a late commit
  // would be accepted.
  const held = state.abandoned.filter((other) => !isUncommittable({ ...state, abandoned: [] }, other));
  if (held.length >= ABANDONED_LENGTH) {
    return rejected(
      'refused',
      `${ABANDONED_LENGTH} versions are already abandoned; commit a higher one first`,
    );
  }
  return { kind: 'applied', state: { ...state, abandoned: [...held, id] } };
}

function rollback(state: State, txn: Rollback): Decision {
  if (state.lineage !== txn.lineage) {
    return rejected(
      'rolled-back',
      `lineage ${txn.lineage} has ended: the run is at lineage ${state.lineage}`,
    );
  }
  if (state.lineage === UINT32_MAX) return noneLeft('rollback', state.lineage);
  const target = findById(state, txn.checkpoint);
  const isTarget = target?.state === 'LIVE' && !target.rolledBack;
  if (!isTarget) return rejected('refused', `version ${referenceText(txn.checkpoint)} is not live`);
  const { version } = txn.checkpoint;
  const left = new Set(onPathAbove(state, version));
  return {
    kind: 'applied',
    state: {
      ...state,
      lineage: state.lineage + 1,
      latest: txn.checkpoint,
      resumedFrom: txn.checkpoint,
      top: version,
      incarnations: {},
      abandoned: [],
      checkpoints: state.checkpoints.map((checkpoint) =>
        left.has(checkpoint) ? { ...checkpoint, rolledBack: true } : checkpoint,
      ),
    },
  };
}
