/**
 * The guard of a commit. Presence is asked before anything else: a finaliser whose reply was lost
 * must learn that it succeeded, whatever has happened to epoch and version since.
 */

import { referenceText } from '../contract/reference.ts';
import {
  bytesEqual,
  type CatalogCheckpoint,
  type CheckpointId,
  idEquals,
  type State,
  type WriterIncarnation,
} from '../format/index.ts';
import { type Applied, type CommitAnswer, rejected } from './decision.ts';
import { inEpochProblem, supersededProblem } from './epoch.ts';
import { boundedReason } from './reason.ts';
import { findById, incarnationOf, isAbandoned } from './state.ts';
import type { Commit } from './transaction.ts';

/**
 * The answer that needs only the id, not the receipts. `undefined`: the version can still be
 * committed. With the hash of a manifest it also recognises a commit that was removed since. It
 * applies the same clauses, in the same order, as the guard of the commit itself.
 */
export function precheckCommit(
  state: State,
  id: CheckpointId,
  own: WriterIncarnation | undefined,
  manifestSha256?: Uint8Array,
): CommitAnswer | undefined {
  const present = findById(state, id);
  if (present) return { kind: 'present', checkpoint: present };
  const gone = removedBefore(state, id, manifestSha256);
  if (gone) return gone;
  const passed = inEpochProblem(state, id);
  if (passed) return passed;
  if (isAbandoned(state, id)) return rejected('abandoned', `version ${id.version} was abandoned`);
  if (id.version <= state.top) {
    return rejected('stale', `version ${id.version} is not above ${state.top}, the highest committed`);
  }
  return own && supersededProblem(state, own);
}

function removedBefore(
  state: State,
  id: CheckpointId,
  manifestSha256?: Uint8Array,
): CommitAnswer | undefined {
  const removed = state.removedRing.find((item) => idEquals(item.id, id));
  if (removed) {
    const isSame = manifestSha256 !== undefined && bytesEqual(removed.manifestSha256, manifestSha256);
    if (isSame) return { kind: 'present-removed' };
    return rejected(
      'unknown',
      `version ${referenceText(id)} was committed and removed; it is no longer known whether it had these files`,
    );
  }
  const floor = state.removedFloor;
  const isBelow =
    floor !== undefined &&
    (id.lineage < floor.lineage || (id.lineage === floor.lineage && id.version <= floor.version));
  if (!isBelow) return undefined;
  return rejected(
    'unknown',
    `version ${referenceText(id)} is older than the removed checkpoints that the catalog remembers`,
  );
}

export function applyCommit(state: State, txn: Commit): Applied | CommitAnswer {
  const id = txn.checkpoint;
  const decided = precheckCommit(state, id, txn.own, txn.manifestSha256);
  if (decided) return decided;
  if (txn.worldSize !== state.worldSize) {
    return rejected(
      'world-size',
      `the receipts are of ${txn.worldSize} writers, the run has ${state.worldSize}`,
    );
  }
  const former = txn.writers.find(({ writer, incarnation }) => incarnation !== incarnationOf(state, writer));
  if (former) return rejected('receipts-changed', `writer ${former.writer} has restarted since`);
  const gone = txn.bases.find((base) => !isBase(state, base));
  if (gone)
    return rejected(
      'base-gone',
      `version ${referenceText(gone)}, to which it refers, is removed or quarantined`,
    );
  return { kind: 'applied', state: committed(state, txn) };
}

/**
 * A retiring base is accepted like a live one: removal checks the leases first, and the writer
 * holds one.
 */
function isBase(state: State, id: CheckpointId): boolean {
  const base = findById(state, id);
  return base !== undefined && base.state !== 'QUARANTINED';
}

function committed(state: State, txn: Commit): State {
  return {
    ...state,
    latest: txn.checkpoint,
    top: txn.checkpoint.version,
    checkpoints: [...state.checkpoints, committedCheckpoint(txn)],
  };
}

/** What the catalog holds about a checkpoint right after its commit. */
export function committedCheckpoint(txn: Commit): CatalogCheckpoint {
  return {
    id: txn.checkpoint,
    manifestKey: txn.manifestKey,
    manifestSha256: txn.manifestSha256,
    sizeBytes: txn.sizeBytes,
    fileCount: txn.fileCount,
    metrics: txn.metrics,
    annotatedMetadata: {},
    state: 'LIVE',
    retiringSeq: 0,
    pins: [],
    verified: false,
    suspect: txn.suspicions.length > 0,
    // The receipts hold the full text.
    reason: boundedReason(txn.suspicions.join('; ')),
    committedAtMs: txn.atMs,
    bases: txn.bases,
    rolledBack: false,
    retiringAtMs: 0,
    graceMs: 0,
    storedBytes: txn.storedBytes,
  };
}
