/** Options and results of a mirror, which copies checkpoints of one run to another. */

import type { CheckpointId, VersionInput } from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

/**
 * Which checkpoints of the source: at most one of the three options; without any, all live ones.
 */
export interface MirrorSelection {
  /** Only these versions. A missing one is `NotFound`. */
  versions?: readonly VersionInput[] | undefined;
  /** This version and higher ones. */
  since?: VersionInput | undefined;
  /** Only the checkpoint that a restart of the source would load. */
  latest?: boolean | undefined;
}

export interface MirrorOptions extends WaitOptions, MirrorSelection {
  /**
   * `skip`: skip a checkpoint that is damaged in the source, and report it. Default `fail`: end
   * with its error.
   */
  onCorrupt?: 'fail' | 'skip' | undefined;
  /**
   * Continue when everything is copied: look for new checkpoints every so many milliseconds (100 to
   * one day) until the signal fires, which is then no error. A store that cannot be reached for a
   * while does not end it either.
   */
  watchIntervalMs?: number | undefined;
}

export interface MirrorResult {
  /** In the order in which they were committed here. */
  readonly copied: readonly MirroredCheckpoint[];
  /** Versions that were already here, with the same content. */
  readonly present: readonly bigint[];
  /**
   * Versions whose originals were annotated after their commit. These annotations were copied now.
   */
  readonly annotated: readonly bigint[];
  /**
   * Versions that were not copied, and why: removed from the source meanwhile, too old to be
   * committed here, or damaged. Also versions whose annotations were not copied; the reason says
   * so.
   */
  readonly skipped: readonly { readonly version: bigint; readonly reason: string }[];
}

export interface MirroredCheckpoint {
  /** In the destination, with the lineage and epoch of that run. */
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /**
   * The part of `sizeBytes` that an interrupted mirror had already sent, and that was not sent
   * again.
   */
  readonly reusedBytes: number;
}
