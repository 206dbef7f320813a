/** What a mirror is given, and what it tells: checkpoints of one run copied to another. */

import type { CheckpointId, VersionInput } from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

/** Which checkpoints of the source: at most one of the three; without any, all that are live. */
export interface MirrorSelection {
  /** Only these. One that is not there is `NotFound`. */
  versions?: readonly VersionInput[] | undefined;
  /** This version and higher ones. */
  since?: VersionInput | undefined;
  /** Only what a restart of the source would load. */
  latest?: boolean | undefined;
}

export interface MirrorOptions extends WaitOptions, MirrorSelection {
  /** `skip`: pass over a checkpoint that is damaged in the source, and say so. Default `fail`: end with its error. */
  onCorrupt?: 'fail' | 'skip' | undefined;
  /**
   * Go on when all is copied: look for new checkpoints after so many milliseconds (100 to one day), again and again, until the signal fires, which then
   * is no error. A store that cannot be reached for a while does not end it either.
   */
  watchIntervalMs?: number | undefined;
}

export interface MirrorResult {
  /** In the order in which they were committed here. */
  readonly copied: readonly MirroredCheckpoint[];
  /** Versions that were here already, with the same content. */
  readonly present: readonly bigint[];
  /** Versions to which metrics or metadata were added that the originals were annotated with after their commits. */
  readonly annotated: readonly bigint[];
  /**
   * Versions that were not copied, and why: removed from the source meanwhile, too old to be committed here, damaged. Or whose annotations
   * were not carried over: the reason says so.
   */
  readonly skipped: readonly { readonly version: bigint; readonly reason: string }[];
}

export interface MirroredCheckpoint {
  /** In the destination: lineage and epoch are its own. */
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** Of `sizeBytes`: left by a mirror that was interrupted, and not sent again. */
  readonly reusedBytes: number;
}
