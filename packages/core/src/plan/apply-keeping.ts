/**
 * Decisions about existing checkpoints: verify, quarantine, pin, annotate, retire, unretire,
 * remove.
 */

import { referenceText } from '../contract/reference.ts';
import { type CatalogCheckpoint, type CheckpointId, idEquals, type State } from '../format/index.ts';
import { annotated, annotationProblem } from './annotation.ts';
import { type Decision, type Rejected, rejected } from './decision.ts';
import { findById, hasOtherLive, newestLive, pushBounded, REMOVED_RING_LENGTH } from './state.ts';
import type { Annotate, Pin, Quarantine, Remove, Retire, Unretire, Verify } from './transaction.ts';

/** Limit of pins per checkpoint: each page of the catalog with the checkpoint has all of them. */
export const PINS_MAX = 64;

export function applyKeeping(
  state: State,
  txn: Verify | Quarantine | Pin | Annotate | Retire | Unretire | Remove,
  seq: number,
): Decision {
  switch (txn.kind) {
    case 'verify':
      return verify(state, txn.checkpoint);
    case 'quarantine':
      return quarantine(state, txn.checkpoint, txn.reason);
    case 'pin':
    case 'unpin':
      return pin(state, txn);
    case 'annotate':
      return annotate(state, txn);
    case 'retire':
      return allOf(state, txn.checkpoints, (next, id) => retire(next, id, txn, seq));
    case 'unretire':
      return allOf(state, txn.checkpoints, unretire);
    case 'remove':
      return allOf(state, txn.checkpoints, (next, id, index) => remove(next, id, txn.retiringSeqs[index]));
  }
}

/**
 * Applies changes one after the other, each to the state that the previous one produced. If one is
 * rejected, all are.
 */
function allOf(
  state: State,
  ids: readonly CheckpointId[],
  decide: (state: State, id: CheckpointId, index: number) => Decision,
): Decision {
  let next = state;
  for (const [index, id] of ids.entries()) {
    const decision = decide(next, id, index);
    if (decision.kind === 'applied') next = decision.state;
    else if (decision.kind !== 'already') return decision;
  }
  return next === state ? { kind: 'already' } : { kind: 'applied', state: next };
}

/** Why retention may not take this checkpoint, whatever the rules say; `undefined`: it may. */
export function retireProblem(state: State, checkpoint: CatalogCheckpoint): string | undefined {
  const { id, pins, verified } = checkpoint;
  if (state.latest && idEquals(state.latest, id)) return 'it is the latest';
  if (pins.length > 0) return `it is pinned: ${pins.join(', ')}`;
  if (state.resumedFrom && idEquals(state.resumedFrom, id)) return 'the current attempt resumed from it';
  if (!hasOtherLive(state, checkpoint)) return 'it is the only live checkpoint';
  if (verified && !hasOtherLive(state, checkpoint, true)) return 'it is the only verified checkpoint';
  return undefined;
}

function retire(state: State, id: CheckpointId, txn: Retire, seq: number): Decision {
  const found = findById(state, id);
  const problem = found?.state === 'LIVE' ? retireProblem(state, found) : undefined;
  if (problem !== undefined)
    return rejected('refused', `version ${referenceText(id)} cannot be retired: ${problem}`);
  return change(state, id, ['LIVE'], {
    state: 'RETIRING',
    retiringSeq: seq,
    retiringAtMs: txn.atMs,
    graceMs: txn.graceMs,
    reason: txn.reason,
  });
}

/**
 * Newer checkpoints may have been quarantined since. Then this one becomes the latest, which a
 * restart loads.
 */
function unretire(state: State, id: CheckpointId): Decision {
  const fields = { state: 'LIVE', retiringSeq: 0, retiringAtMs: 0, graceMs: 0, reason: '' } as const;
  const changed = change(state, id, ['RETIRING'], fields);
  return changed.kind === 'applied' ? withNewestAsLatest(changed.state) : changed;
}

function withNewestAsLatest(state: State): Decision {
  return { kind: 'applied', state: { ...state, latest: newestLive(state)?.id } };
}

function remove(state: State, id: CheckpointId, retiringSeq: number | undefined): Decision {
  const found = findById(state, id);
  if (!found) return { kind: 'already' };
  if (found.state !== 'RETIRING' || found.retiringSeq !== retiringSeq) {
    return rejected('refused', 'it was undeleted or retired again since its leases were listed');
  }
  // All live checkpoints may have been quarantined since. Then this one must be undeleted, not
  // removed.
  if (!hasOtherLive(state, found)) {
    return rejected('refused', `version ${referenceText(id)} cannot be removed: no other checkpoint is live`);
  }
  if (found.verified && !hasOtherLive(state, found, true)) {
    const why = 'no other live checkpoint is verified';
    return rejected('refused', `version ${referenceText(id)} cannot be removed: ${why}`);
  }
  const item = { id, manifestSha256: found.manifestSha256 };
  const dropped = state.removedRing.length >= REMOVED_RING_LENGTH ? state.removedRing[0]?.id : undefined;
  return {
    kind: 'applied',
    state: {
      ...state,
      checkpoints: state.checkpoints.filter((checkpoint) => checkpoint !== found),
      removedRing: pushBounded(state.removedRing, item, REMOVED_RING_LENGTH),
      removedFloor: dropped ? higherFloor(state.removedFloor, dropped) : state.removedFloor,
    },
  };
}

function higherFloor(floor: State['removedFloor'], id: CheckpointId): State['removedFloor'] {
  const isHigher =
    !floor || id.lineage > floor.lineage || (id.lineage === floor.lineage && id.version > floor.version);
  return isHigher ? { lineage: id.lineage, version: id.version } : floor;
}

function verify(state: State, id: CheckpointId): Decision {
  if (findById(state, id)?.verified) return { kind: 'already' };
  return change(state, id, ['LIVE', 'RETIRING'], { verified: true });
}

/**
 * Leaves `top` unchanged, which only a rollback lowers: a quarantined version is never written
 * again.
 */
function quarantine(state: State, id: CheckpointId, reason: string): Decision {
  const changed = change(state, id, ['LIVE'], { state: 'QUARANTINED', verified: false, reason });
  if (changed.kind !== 'applied') return changed;
  if (!state.latest || !idEquals(state.latest, id)) return changed;
  return withNewestAsLatest(changed.state);
}

function pin(state: State, txn: Pin): Decision {
  const found = findById(state, txn.checkpoint);
  const has = found?.pins.includes(txn.label) ?? false;
  if (found && has === (txn.kind === 'pin')) return { kind: 'already' };
  if (found && txn.kind === 'pin' && found.pins.length >= PINS_MAX) {
    return rejected(
      'refused',
      `version ${referenceText(txn.checkpoint)} has ${PINS_MAX} pins already; unpin one of them first`,
    );
  }
  const pins =
    txn.kind === 'pin'
      ? [...(found?.pins ?? []), txn.label]
      : (found?.pins ?? []).filter((label) => label !== txn.label);
  return change(state, txn.checkpoint, ['LIVE'], { pins });
}

function annotate(state: State, txn: Annotate): Decision {
  const found = findById(state, txn.checkpoint);
  const next = found && annotated(found, txn);
  if (found && next === found) return { kind: 'already' };
  const problem = next && annotationProblem(next);
  if (problem !== undefined)
    return rejected('refused', `version ${referenceText(txn.checkpoint)}: ${problem}`);
  return change(state, txn.checkpoint, ['LIVE'], { ...next });
}

function change(
  state: State,
  id: CheckpointId,
  from: readonly CatalogCheckpoint['state'][],
  fields: Partial<CatalogCheckpoint>,
): { readonly kind: 'applied'; readonly state: State } | Rejected {
  const found = findById(state, id);
  if (!found) return rejected('refused', `version ${referenceText(id)} is not in the catalog`);
  if (!from.includes(found.state)) {
    return rejected('refused', `version ${referenceText(id)} is ${found.state.toLowerCase()}`);
  }
  const checkpoints = state.checkpoints.map((checkpoint) =>
    checkpoint === found ? { ...checkpoint, ...fields } : checkpoint,
  );
  return { kind: 'applied', state: { ...state, checkpoints } };
}
