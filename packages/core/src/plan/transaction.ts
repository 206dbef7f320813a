/** What may be asked of the catalog. Each transaction has an id of its own, so that its issuer can find it again. */

import type { CheckpointId, Policy } from '../format/index.ts';

/** The lineage and epoch in which the issuer acts: those it joined, or, for a command, those it read when it planned. */
interface InEpoch {
  readonly lineage: number;
  readonly epoch: number;
}

export interface WriterLife {
  readonly writer: number;
  readonly incarnation: number;
}

export interface Takeover {
  readonly kind: 'takeover';
  readonly attempt: string;
  /** Drawn by its only process, which cannot come back: not remembered after it has passed. */
  readonly attemptDrawn: boolean;
  readonly worldSize: number;
}

export interface Register extends InEpoch {
  readonly kind: 'register';
  /** Highest claim listed for each writer. */
  readonly claims: readonly WriterLife[];
}

export interface Commit {
  readonly kind: 'commit';
  readonly checkpoint: CheckpointId;
  /** The writer that asks; absent for a survivor that only finishes. */
  readonly own?: WriterLife | undefined;
  readonly worldSize: number;
  /** Whose receipts the manifest is made of. */
  readonly writers: readonly WriterLife[];
  readonly manifestKey: string;
  readonly manifestSha256: Uint8Array;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** Of `sizeBytes`: what was sent for it. */
  readonly storedBytes: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly bases: readonly CheckpointId[];
  /** What makes it look stale, in words. */
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
/** Every byte was read and matched. */
export interface Verify extends OnCheckpoint {
  readonly kind: 'verify';
}

/** Retire, unretire and remove take all of their checkpoints or none: what has changed since they were planned is planned anew. */
interface OnCheckpoints extends InEpoch {
  readonly checkpoints: readonly CheckpointId[];
  readonly reason: string;
}

export interface Retire extends OnCheckpoints {
  readonly kind: 'retire';
  /** The store's own clock. */
  readonly atMs: number;
  /** How long they can be taken back. */
  readonly graceMs: number;
}
export interface Unretire extends OnCheckpoints {
  readonly kind: 'unretire';
}
export interface Remove extends OnCheckpoints {
  readonly kind: 'remove';
  /** For each, in the same order: under which `retiringSeq` its leases were listed and found empty. */
  readonly retiringSeqs: readonly number[];
}
export interface Pin extends OnCheckpoint {
  readonly kind: 'pin' | 'unpin';
  readonly label: string;
}

/** Metrics and metadata that came after the commit. The last value of a name stands. */
export interface Annotate extends OnCheckpoint {
  readonly kind: 'annotate';
  readonly metrics: Readonly<Record<string, number>>;
  readonly metadata: Readonly<Record<string, string>>;
}

export interface Rollback {
  readonly kind: 'rollback';
  /** The lineage it leaves. */
  readonly lineage: number;
  readonly checkpoint: CheckpointId;
  readonly reason: string;
}

export interface SetPolicy extends InEpoch {
  readonly kind: 'policy';
  readonly policy: Policy;
}

/** What a rebuild skipped is not held any longer. */
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
