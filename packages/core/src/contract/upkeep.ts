/** The catalog and the objects, held against each other. */

import type { CheckpointId, CheckpointSummary, WaitOptions } from './checkpoint-manager.ts';

export type FsckProblemKind =
  /** A checkpoint of the catalog lacks an object, or has one of another size; readers of that version fail. */
  | 'missing'
  /** A manifest or receipt that cannot be read or is not what the catalog says. */
  | 'damaged'
  /** An object that nothing refers to and nothing ever will; a sweep deletes it. */
  | 'garbage'
  /** Files of a version that its writers can still finish. */
  | 'unfinished'
  /** An upload in parts that nobody can finish any more; a sweep stops it. */
  | 'abandoned-upload'
  /** A key that is none of Holdfast's. */
  | 'foreign';

export interface FsckProblem {
  readonly kind: FsckProblemKind;
  /** Of the checkpoint it belongs to, where it belongs to one. */
  readonly id: CheckpointId | null;
  /** Key of the object, or of the first where `objectCount` is above 1. */
  readonly key: string;
  readonly objectCount: number;
  readonly sizeBytes: number;
  readonly message: string;
}

export interface FsckResult {
  /** Checkpoints of the catalog that were held against their objects. */
  readonly checkpointCount: number;
  readonly objectCount: number;
  readonly totalBytes: number;
  /** Missing and damaged first. Garbage and unfinished files are one entry per checkpoint. */
  readonly problems: readonly FsckProblem[];
  /** Nothing is missing or damaged. */
  readonly isSound: boolean;
}

export interface RebuildResult {
  readonly runId: string;
  /** All unverified, newest first. */
  readonly checkpoints: readonly CheckpointSummary[];
  /** Manifests that were left out, and why. */
  readonly skipped: readonly { readonly key: string; readonly reason: string }[];
}

export interface UpkeepCalls {
  /**
   * Compares the catalog with the objects, both ways, by listings and records alone: no payload is read. Changes nothing. One list page per
   * 1,000 objects and one GET per checkpoint. `NotFound`: there is no run here; the message says whether there are manifests to rebuild from.
   */
  fsck(options?: WaitOptions): Promise<FsckResult>;
  /**
   * Writes a new catalog from the manifests, where the catalog itself is gone: a new run id, an epoch above all that were, everything
   * unverified. A manifest whose objects are not all there is left out. `Conflict`: there is a catalog. `NotFound`: there is no manifest.
   */
  rebuildCatalog(options?: WaitOptions): Promise<RebuildResult>;
}
