/**
 * Transactions: the requests to the catalog. Each has its own id, so that its issuer can find it
 * again.
 */

import type { CheckpointId, Policy, WriterIncarnation } from '../format/index.ts';

/**
 * The lineage and epoch in which the issuer acts: those it joined or, for a command, those it read
 * when it planned.
 */
interface InEpoch {
  readonly lineage: number;
  readonly epoch: number;
}

export interface Takeover {
  readonly kind: 'takeover';
  readonly attempt: string;
  /**
   * True: the attempt has one process, which drew the attempt's id at random. No later process has
   * it, so the catalog may forget it when the attempt has passed.
   */
  readonly attemptDrawn: boolean;
  readonly worldSize: number;
  /** A fork or a mirror names its source here; empty otherwise. */
  readonly reason: string;
}

export interface Register extends InEpoch {
  readonly kind: 'register';
  /** Highest claim found for each writer. */
  readonly claims: readonly WriterIncarnation[];
}

export interface Commit {
  readonly kind: 'commit';
  readonly checkpoint: CheckpointId;
  /** The writer that commits; absent for another process that only finishes the commit. */
  readonly own?: WriterIncarnation | undefined;
  readonly worldSize: number;
  /** Writers whose receipts the manifest consists of. */
  readonly writers: readonly WriterIncarnation[];
  readonly manifestKey: string;
  readonly manifestSha256: Uint8Array;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** The part of `sizeBytes` that was sent for this checkpoint. */
  readonly storedBytes: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly bases: readonly CheckpointId[];
  /** Why its files look stale, in words. */
  readonly suspicions: readonly string[];
  /** The store's own clock. */
  readonly atMs: number;
}

interface OnCheckpoint extends InEpoch {
  readonly checkpoint: CheckpointId;
  readonly reason: string;
}

export interface Abandon extends OnCheckpoint {
  readonly kind: 'abandon';
}
export interface Quarantine extends OnCheckpoint {
  readonly kind: 'quarantine';
}
/** Every byte was read and matched its checksum. */
export interface Verify extends OnCheckpoint {
  readonly kind: 'verify';
}

/**
 * Retire, unretire and remove apply to all of their checkpoints or to none. If something has
 * changed since planning, the caller plans again.
 */
interface OnCheckpoints extends InEpoch {
  readonly checkpoints: readonly CheckpointId[];
  readonly reason: string;
}

export interface Retire extends OnCheckpoints {
  readonly kind: 'retire';
  /** The store's own clock. */
  readonly atMs: number;
  /** How long the checkpoints can be undeleted. */
  readonly graceMs: number;
}
export interface Unretire extends OnCheckpoints {
  readonly kind: 'unretire';
}
export interface Remove extends OnCheckpoints {
  readonly kind: 'remove';
  /**
   * For each checkpoint, in the same order: the `retiringSeq` that it had when a listing showed no
   * lease of it.
   */
  readonly retiringSeqs: readonly number[];
}
export interface Pin extends OnCheckpoint {
  readonly kind: 'pin' | 'unpin';
  readonly label: string;
}

/** Metrics and metadata recorded after the commit. The last value of a name counts. */
export interface Annotate extends OnCheckpoint {
  readonly kind: 'annotate';
  readonly metrics: Readonly<Record<string, number>>;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface Rollback {
  readonly kind: 'rollback';
  /** The lineage that the rollback leaves. */
  readonly lineage: number;
  readonly checkpoint: CheckpointId;
  readonly reason: string;
}

export interface SetPolicy extends InEpoch {
  readonly kind: 'policy';
  readonly policy: Policy;
}

/** Lets sweeps delete what was kept because a skipped manifest may refer to it. */
export interface Release extends InEpoch {
  readonly kind: 'release';
  /** Key of the manifest. */
  readonly manifestKey: string;
  readonly reason: string;
}

export type Decided =
  | Takeover
  | Register
  | Commit
  | Abandon
  | Verify
  | Quarantine
  | Retire
  | Unretire
  | Remove
  | Pin
  | Annotate
  | Rollback
  | SetPolicy
  | Release;

export type Txn = Decided & {
  /** 128 random bits, hex. */
  readonly id: string;
};
