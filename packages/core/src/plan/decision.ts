/** What the catalog answers to a transaction. */

import type { CatalogCheckpoint, State } from '../format/index.ts';

export type RejectReason =
  /** The epoch or the attempt has passed. Final. */
  | 'fenced'
  /** The lineage has passed. Final. */
  | 'rolled-back'
  /** A newer life of the same writer is registered. Final. */
  | 'superseded'
  /** The version is not above the highest committed, and this id is not among the committed. Final. */
  | 'stale'
  /** The id was abandoned. Final. */
  | 'abandoned'
  /** A checkpoint that it refers to is removed or quarantined. Final for this version. */
  | 'base-gone'
  /** The world size is not the registered one. Final. */
  | 'world-size'
  /** A receipt is of a former life of its writer: list the receipts again. Not final. */
  | 'receipts-changed'
  /** It may have been committed and removed since; the catalog no longer tells. */
  | 'unknown'
  /** The guard of a command does not hold; the message says which. */
  | 'refused';

export interface Applied {
  readonly kind: 'applied';
  readonly state: State;
}

/** It holds already, by somebody's doing. */
export interface Already {
  readonly kind: 'already';
}

/** The id is in the catalog. Whether with the asker's files, its manifest tells. */
export interface Present {
  readonly kind: 'present';
  readonly checkpoint: CatalogCheckpoint;
}

/** It was committed with this very manifest, and has been removed since. */
export interface PresentRemoved {
  readonly kind: 'present-removed';
}

export interface Rejected {
  readonly kind: 'rejected';
  readonly reason: RejectReason;
  readonly message: string;
}

export function rejected(reason: RejectReason, message: string): Rejected {
  return { kind: 'rejected', reason, message };
}

/** What is answered to a commit that is not applied. */
export type CommitAnswer = Present | PresentRemoved | Rejected;

export type Decision = Applied | Already | CommitAnswer;
