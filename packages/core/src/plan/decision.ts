/** The catalog's answers to a transaction. */

import type { CatalogCheckpoint, State } from '../format/index.ts';

export type RejectReason =
  /** The epoch or the attempt is no longer current. Final. */
  | 'fenced'
  /** The lineage is no longer current. Final. */
  | 'rolled-back'
  /** A newer life of the same writer is registered. Final. */
  | 'superseded'
  /** The version is not above the highest committed one, and this id is not committed. Final. */
  | 'stale'
  /** The id was abandoned. Final. */
  | 'abandoned'
  /** A checkpoint it refers to is removed or quarantined. Final for this version. */
  | 'base-gone'
  /** The world size differs from the registered one. Final. */
  | 'world-size'
  /** A receipt is of a former life of its writer: list the receipts again. Not final. */
  | 'receipts-changed'
  /** It may have been committed and removed since; the catalog does not remember. */
  | 'unknown'
  /** The guard of a command failed; the message says which. */
  | 'refused';

export interface Applied {
  readonly kind: 'applied';
  readonly state: State;
}

/** The requested state exists already, whichever process made it. */
export interface Already {
  readonly kind: 'already';
}

/** The id is in the catalog. Its manifest tells whether it holds the caller's files. */
export interface Present {
  readonly kind: 'present';
  readonly checkpoint: CatalogCheckpoint;
}

/** It was committed with exactly this manifest, and has been removed since. */
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

/** The answer to a commit that is not applied. */
export type CommitAnswer = Present | PresentRemoved | Rejected;

export type Decision = Applied | Already | CommitAnswer;
