/**
 * Compares the catalog with the objects, rebuilds a lost catalog, and finds what is stored but not
 * committed.
 */

import type { CheckpointId, CheckpointSummary } from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

export type FsckProblemKind =
  /**
   * A checkpoint of the catalog lacks its manifest or a file, or has a file of another size;
   * readers of that version fail.
   */
  | 'missing'
  /**
   * A manifest, receipt or file list that cannot be read, or differs from the record that refers to
   * it. Readers need receipts and file lists only for checkpoints whose manifest refers to them.
   */
  | 'damaged'
  /**
   * Objects that nothing refers to and nothing ever will; a sweep deletes them. Not reported while
   * a manifest cannot be read.
   */
  | 'garbage'
  /**
   * Objects without a known reference: a manifest that a rebuild skipped may refer to them. No
   * sweep deletes them.
   */
  | 'skipped'
  /** Files of a version that its writers can still finish. */
  | 'unfinished'
  /** An upload in parts that no process can finish any more; a sweep aborts it. */
  | 'abandoned-upload'
  /** Not a Holdfast key, or an unreadable record of an upload; ignored. */
  | 'foreign';

export interface FsckProblem {
  readonly kind: FsckProblemKind;
  /** The checkpoint it belongs to, if any. */
  readonly id: CheckpointId | null;
  /** Key of the object, or of the first one if `objectCount` is above 1. */
  readonly key: string;
  readonly objectCount: number;
  readonly sizeBytes: number;
  readonly message: string;
}

export interface FsckResult {
  /** Checkpoints of the catalog that were compared with their objects. */
  readonly checkpointCount: number;
  readonly objectCount: number;
  readonly totalBytes: number;
  /**
   * Missing and damaged first. The first ten missing objects have an entry each, and the others
   * share one; likewise the damaged ones. Garbage and unfinished files: one entry per checkpoint.
   */
  readonly problems: readonly FsckProblem[];
  /** No object is missing or damaged. */
  readonly isSound: boolean;
  /** Keys of manifests that a rebuild skipped, for `releaseSkipped`. */
  readonly skippedManifests: readonly string[];
}

export interface RebuildOptions extends WaitOptions {
  /**
   * Keys of manifests to leave out if they cannot be read, even if only for the moment. No sweep
   * deletes anything they may refer to until `releaseSkipped`. Default: the first unreadable
   * manifest stops the rebuild.
   */
  skip?: readonly string[] | undefined;
}

/** A manifest that is not in the rebuilt catalog. */
export interface LeftOutManifest {
  readonly key: string;
  readonly reason: string;
  /**
   * True: the manifest could not be read and was skipped on request; no sweep deletes what it may
   * refer to. False: its objects are garbage.
   */
  readonly isHeld: boolean;
}

export interface RebuildResult {
  /** The new id of the run. */
  readonly runId: string;
  /** The id that `run.json` names; `null`: that record was lost. */
  readonly formerRunId: string | null;
  /** All unverified, newest first. */
  readonly checkpoints: readonly CheckpointSummary[];
  readonly skipped: readonly LeftOutManifest[];
}

/** A writer that has not delivered, and what the store knows about it, for people. */
export interface MissingWriter {
  readonly writer: number;
  readonly detail: string;
}

/** A version that has objects in the store and is not committed. */
export interface BegunVersion {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly worldSize: number;
  /** Ascending. */
  readonly deliveredWriters: readonly number[];
  /** In the order of writers. Empty: `commit` finishes the version. */
  readonly missing: readonly MissingWriter[];
  /**
   * Bytes of the files that have arrived whole, including those that an earlier process of a writer
   * left.
   */
  readonly uploadedBytes: number;
  /** `uploadedBytes` of each writer, in the order of writers: `worldSize` numbers. */
  readonly writerBytes: readonly number[];
}

export interface UpkeepCalls {
  /**
   * Versions that writers of the present attempt have begun above the highest committed version,
   * and that are not committed; lowest version first. The store cannot tell whether those writers
   * still run. A version is listed once one of its files has arrived, or is being sent in parts if
   * the store can resume uploads. A version that was begun a moment ago is not visible yet. Changes
   * nothing. A version that is committed during the call may still be shown.
   *
   * Requests: at most two for the catalog. Then one list page per 1,000 versions, per 1,000 objects
   * of versions that are not committed, per 1,000 uploads in progress, and per 1,000 processes that
   * joined. `NotFound`: there is no run.
   */
  begun(options?: WaitOptions): Promise<readonly BegunVersion[]>;
  /**
   * Compares the catalog with the objects, in both directions, by listings and records alone: no
   * payload is read. Changes nothing. One list page per 1,000 objects, one GET per manifest,
   * receipt and file list, two requests per upload that was left behind. Safe while others
   * save to the run or sweep it. `NotFound`: there is no run here; the message says whether there
   * are manifests to rebuild from. `StoreRegressed`: the catalog is older than other records of the
   * run, so an old copy of it was put back.
   */
  fsck(options?: WaitOptions): Promise<FsckResult>;
  /**
   * Writes a new catalog from the manifests if the catalog itself is lost. The new catalog has a
   * new run id, an epoch above all previous ones, no pins and the rules in run.json; every
   * checkpoint is unverified. A manifest is left out if some of its files are missing, or if the
   * other manifests show that it was never committed. Objects of such a manifest are garbage
   * from then on, and the next sweep deletes them. Processes of the former run fail with `Corrupt`.
   * One list page per 1,000 objects and one GET per manifest; repeating an interrupted rebuild
   * continues it.
   *
   * An unreadable manifest stops it, unless `skip` names it: `UnsupportedFormat` if a newer
   * Holdfast wrote it, `Corrupt` if it is damaged, else the error of the store. The message names
   * the manifests, and nothing was written. `Conflict`: there is a catalog, or another rebuild is
   * about to write one. `NotFound`: there is no manifest, or no usable one. `InvalidArgument`:
   * `skip` names a key that is not a manifest of this run.
   */
  rebuildCatalog(options?: RebuildOptions): Promise<RebuildResult>;
  /**
   * Releases a manifest that a rebuild skipped: what nothing else refers to is garbage from then
   * on, and the next sweep deletes it. `Conflict`: that manifest is not held; the message names
   * those that are. `NotFound`: there is no run.
   */
  releaseSkipped(manifestKey: string, options?: WaitOptions): Promise<void>;
}
