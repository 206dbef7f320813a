/**
 * What people and tools call to look after a run: its history, what is kept, copies of other runs,
 * damage. A trainer needs none of it, so it is apart from `CheckpointManager`.
 */

import type { AnnotationCalls } from './annotating.ts';
import type { CheckpointId } from './checkpoint-facts.ts';
import type { CheckpointManager } from './checkpoint-manager.ts';
import type { ProcessName } from './components.ts';
import type { ExportCalls } from './exporting.ts';
import type { ForkOptions, ForkResult, HistoryCalls } from './history.ts';
import type { MirrorOptions, MirrorResult } from './mirroring.ts';
import type { CallOptions } from './object-store.ts';
import type { OverviewCalls } from './overview.ts';
import type { VerifyOptions, VerifyResult } from './reading.ts';
import type { RetentionCalls } from './retention.ts';
import type { UpkeepCalls } from './upkeep.ts';

export interface LogOptions extends CallOptions {
  /** Maximum number of entries, 1 to 1,000; default 50. One read for each. */
  limit?: number | undefined;
  /**
   * Only the commit of this checkpoint. The result is empty if the catalog no longer keeps that
   * entry, or if another decision, such as a rebuild, added the checkpoint. Cost: at most twice as
   * many reads as the number of decisions since then has binary digits.
   */
  commitOf?: CheckpointId | undefined;
}

/** The source of copies. */
export interface CopiedRun {
  readonly runId: string;
  /** The lineage of the source when the copy began. */
  readonly lineage: number;
}

export interface LogEntry {
  readonly seq: number;
  readonly kind: string;
  /** Checkpoints it changed; several if they were retired, undeleted or removed together. */
  readonly checkpoints: readonly CheckpointId[];
  /** Checkpoints of the catalog after the decision, in any state. */
  readonly versionCount: number;
  readonly lineage: number;
  readonly epoch: number;
  readonly attempt: string;
  /** The run that a mirror or a fork copies, if one owns the run; otherwise `null`. */
  readonly copyOf: CopiedRun | null;
  /** Why, in words. A mirror or a fork names its source where it takes the run over. */
  readonly reason: string;
  readonly process: ProcessName;
  /** By the writer's clock; informational. */
  readonly atMs: number;
}

/** The calls of `CheckpointManager` promise the same things; these keep its promises too. */
export interface RunAdmin
  extends AnnotationCalls,
    ExportCalls,
    HistoryCalls,
    OverviewCalls,
    RetentionCalls,
    UpkeepCalls {
  /**
   * Copies committed checkpoints of another run to this one, one after the other, lowest version
   * first: payloads, receipts, manifest, and then the commit, into this run's own catalog. Nothing
   * of a version is visible here before its commit.
   *
   * A copy has the version, names, sizes, checksums, number of writers, metrics, metadata and
   * commit time of the original, and the same assignment of files to writers. Lineage, epoch and
   * attempt are this run's; pins and other states are not copied. Every byte is compared with the
   * source's records before it is sent. Annotations made to the original after its commit are
   * copied too, also for versions that are already here.
   *
   * It acts as a writer of this run, and fences other writers once there is something to copy. Two
   * mirrors may run at once. The one that joined last completes the copy. The other ends with
   * `Fenced`, unless nothing is left for it to copy. A version that is already here with the same
   * content is not copied again. Objects that an interrupted mirror of the same run has finished
   * sending are not sent again.
   *
   * Errors:
   * - `Conflict`: a version is here with other content, or the source's latest is below what is
   *   committed here.
   * - `Corrupt`: the source is damaged; the message says where.
   * - `NotFound`: there is no run to copy from. Not with `watchIntervalMs`.
   * - `StoreRegressed`: the catalog of the source is lost.
   * - `InvalidArgument`: both are one run.
   * - `Fenced`, `OutcomeUnknown`, and the stores'.
   */
  mirrorFrom(source: RunManager, options?: MirrorOptions): Promise<MirrorResult>;
  /**
   * Compares what the store holds with the records. Changes no object. It may record the result in
   * the catalog (`record`, `quarantine`); a store that cannot be written is no error.
   */
  verify(options?: VerifyOptions): Promise<VerifyResult>;
  /**
   * Begins this run with a copy of one checkpoint of another run, copied as by `mirrorFrom`. Within
   * one store, the store copies the objects itself, if it can. Repeating an interrupted fork
   * continues it.
   *
   * `Conflict`: this run holds, or has held, checkpoints. `NotFound`: there is no such version in
   * the source. `InvalidArgument`: both are one run. Also the errors of `mirrorFrom`.
   */
  forkFrom(source: RunManager, options?: ForkOptions): Promise<ForkResult>;
  /**
   * Names of up to ten runs below this place, relative to it: for a URI that leads to a parent of
   * runs. Cost: one list request for each run, and two for each other directory. The search ends
   * after about 32, and may not have found all.
   */
  runsBelow(options?: CallOptions): Promise<readonly string[]>;
  /**
   * Decisions on this run, newest first, as far back as the catalog keeps entries (64 at least).
   */
  log(options?: LogOptions): Promise<LogEntry[]>;
}

/**
 * Whether a run was ever begun here. A run begins with its first writer, so it may have no
 * checkpoint. `StoreRegressed`: the catalog of the run was lost. Cost: that of `log` with a limit
 * of 1; if there is no run, also that of `latest`.
 */
export async function hasRun(
  manager: Pick<RunManager, 'latest'> & { readonly admin: Pick<RunAdmin, 'log'> },
  { signal }: CallOptions = {},
): Promise<boolean> {
  const entries = await manager.admin.log({ limit: 1, signal });
  // `latest` distinguishes a lost catalog from a run that was never begun.
  return entries.length > 0 || (await manager.latest({ signal })) !== null;
}

/**
 * The manager of a run in an object store. `createCheckpointManager` and `openCheckpointManager`
 * return it. Calls that take a `RunManager` as an argument accept only one that this copy of
 * Holdfast has opened. Another implementation of the interface is `InvalidArgument`.
 */
export interface RunManager extends CheckpointManager {
  readonly admin: RunAdmin;
}
