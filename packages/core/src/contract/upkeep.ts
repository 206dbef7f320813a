/** The catalog and the objects, held against each other; what is there and not committed. */

import type { CheckpointId, CheckpointSummary } from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

export type FsckProblemKind =
  /** A checkpoint of the catalog lacks its manifest or a file, or has a file of another size; readers of that version fail. */
  | 'missing'
  /**
   * A manifest, receipt or file list that cannot be read, or is not what refers to it says. Readers need
   * receipts and file lists only of checkpoints whose manifest refers to them.
   */
  | 'damaged'
  /** Objects that nothing refers to and nothing ever will; a sweep deletes them. Not told while a manifest cannot be read. */
  | 'garbage'
  /** Objects that nothing refers to, as far as is known: a manifest that a rebuild skipped may. No sweep deletes them. */
  | 'skipped'
  /** Files of a version that its writers can still finish. */
  | 'unfinished'
  /** An upload in parts that nobody can finish any more; a sweep stops it. */
  | 'abandoned-upload'
  /** A key that is none of Holdfast's, or the record of an upload that cannot be read; it is left alone. */
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
  /** Missing and damaged first. Garbage and unfinished files are one entry per checkpoint; of what is missing or damaged, ten of each have one of their own. */
  readonly problems: readonly FsckProblem[];
  /** Nothing is missing or damaged. */
  readonly isSound: boolean;
  /** Keys of manifests that a rebuild skipped, for `releaseSkipped`. */
  readonly skippedManifests: readonly string[];
}

export interface RebuildOptions extends WaitOptions {
  /**
   * Keys of manifests to leave out if they cannot be read, or not this time. Nothing that they may refer to is deleted by any sweep until
   * `releaseSkipped`. Default: the first one that cannot be read stops the rebuild.
   */
  skip?: readonly string[] | undefined;
}

/** A manifest that is not in the rebuilt catalog. */
export interface LeftOutManifest {
  readonly key: string;
  readonly reason: string;
  /** It could not be read and was skipped as asked: no sweep deletes what it may refer to. Else its objects are garbage. */
  readonly isHeld: boolean;
}

export interface RebuildResult {
  /** A new one. */
  readonly runId: string;
  /** The id that `run.json` names; `null`: that record was gone. */
  readonly formerRunId: string | null;
  /** All unverified, newest first. */
  readonly checkpoints: readonly CheckpointSummary[];
  readonly skipped: readonly LeftOutManifest[];
}

/** A writer that has not delivered, and what the store knows of it, for people. */
export interface MissingWriter {
  readonly writer: number;
  readonly detail: string;
}

/** A version of which there is something in the store, and which is not committed. */
export interface BegunVersion {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly worldSize: number;
  /** Ascending. */
  readonly deliveredWriters: readonly number[];
  /** In the order of writers. Empty: `commit` finishes it. */
  readonly missing: readonly MissingWriter[];
  /** Of the files that have arrived whole; what an earlier process of a writer has left is counted too. */
  readonly uploadedBytes: number;
}

export interface UpkeepCalls {
  /**
   * What writers of the present attempt have begun above the highest committed version and nobody has committed, lowest version first. Whether
   * they still live, nobody knows. A version counts from its first file that has arrived, or that is sent in parts where the store can resume
   * uploads: of one that was begun a moment ago there is nothing yet. Changes nothing. What is committed while it looks may still be shown.
   *
   * At most two requests for the catalog, one list page per 1,000 objects of versions (of a committed one with more, the rest is passed over),
   * per 1,000 uploads under way, and per 1,000 processes that joined. `NotFound`: there is no run.
   */
  begun(options?: WaitOptions): Promise<readonly BegunVersion[]>;
  /**
   * Compares the catalog with the objects, both ways, by listings and records alone: no payload is read. Changes nothing. One list page per
   * 1,000 objects, one GET per manifest, receipt and file list, two requests per upload that was left behind. Safe while the run is written and
   * collected. `NotFound`: there is no run here; the message says whether there are manifests to rebuild from. `StoreRegressed`: the catalog
   * is older than what lies beside it.
   */
  fsck(options?: WaitOptions): Promise<FsckResult>;
  /**
   * Writes a new catalog from the manifests, where the catalog itself is gone: a new run id, an epoch above all that were, everything
   * unverified, no pins, rules as in run.json. A manifest whose files are not all there is left out, and so is one that was never committed,
   * as far as the others tell. What is left out is garbage from then on, and the next sweep deletes it. Processes of the run as it was fail
   * with `Corrupt`. One list page per 1,000 objects and one GET per manifest; repeating it after it was interrupted goes on with it.
   *
   * A manifest that cannot be read stops it, unless `skip` names it: `UnsupportedFormat` if a newer Holdfast wrote it, `Corrupt` if it is
   * damaged, else the error of the store. The message names the manifests. Nothing was written then.
   * `Conflict`: there is a catalog, or another rebuild is about to write one. `NotFound`: there is no manifest, or none that can be used.
   * `InvalidArgument`: `skip` names what is not a manifest of this run.
   */
  rebuildCatalog(options?: RebuildOptions): Promise<RebuildResult>;
  /**
   * Ends the hold of a manifest that a rebuild skipped: what nothing else refers to is garbage from then on, and the next sweep deletes it.
   * `Conflict`: that manifest is not held; the message names those that are. `NotFound`: there is no run.
   */
  releaseSkipped(manifestKey: string, options?: WaitOptions): Promise<void>;
}
