/** Which checkpoints are kept, and what becomes of the others. */

import type {
  CheckpointId,
  CheckpointReference,
  CheckpointStateName,
  VersionInput,
} from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

/**
 * A checkpoint is kept if any rule keeps it; without any rule all are. Whatever the rules say, these are kept: the latest, those with a pin,
 * the one that the present attempt resumed from, the last live and the last verified one. Ages are by the store's own clock.
 *
 * Checkpoints that a rollback left behind follow the same rules, but never take the place of one on the way to the latest: `keepLast` does
 * not count them, and of the best and the first they are kept if they are it among all. Quarantined ones are left alone.
 */
export interface RetentionPolicy {
  /** The newest so many; at least 1. */
  keepLast?: number | undefined;
  /** Versions that are multiples of it; at least 1. */
  keepEvery?: VersionInput | undefined;
  /** The first that was committed in each such span of time, counted from 1970; 1,000 to `SPAN_MS_MAX`. */
  keepEveryMs?: number | undefined;
  /** Those committed no longer ago than so many milliseconds; 1,000 to `SPAN_MS_MAX`. */
  keepForMs?: number | undefined;
  /** The best by metrics; checkpoints without the metric do not count. */
  keepBest?: readonly KeepBest[] | undefined;
  /**
   * How long one that no rule keeps can be taken back before it is removed, in milliseconds: 0 to `SPAN_MS_MAX`. It stays
   * what it was when the checkpoint was retired, unless `collect` is given another. Default: 1 hour.
   */
  graceMs?: number | undefined;
}

export interface KeepBest {
  metric: string;
  mode: 'min' | 'max';
  /** At least 1. */
  count: number;
}

/** What becomes of one checkpoint of the catalog. */
export interface RetentionVerdict {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly storedBytes: number;
  /** A rollback went back to before it; another checkpoint may have its version by now. */
  readonly isLeftBehind: boolean;
  /** Before anything is done. */
  readonly state: CheckpointStateName;
  /** `keep`; `retire`: no rule keeps it; `remove`: it is retired and its grace is over; `wait`: it is retired and its grace is not over. */
  readonly verdict: 'keep' | 'retire' | 'remove' | 'wait';
  /** In words, each rule that keeps it, or why none does. At least one. */
  readonly reasons: readonly string[];
  /** It stays although no rule keeps it: it is the latest, pinned, quarantined, or an attempt resumed from it. */
  readonly isBeyondRules: boolean;
}

export interface RetentionPlan {
  /** The rules it was made with; `null`: there are none, so that nothing is retired. */
  readonly policy: RetentionPolicy | null;
  /** The same in words, with the grace of what is retired now: `newest 3, multiples of 1000; grace 1 h`. */
  readonly rules: string;
  /** All in the catalog, newest first. */
  readonly verdicts: readonly RetentionVerdict[];
  /** Stored bytes of all in the catalog. */
  readonly totalBytes: number;
  /** Stored bytes of those to retire, to remove or waiting. */
  readonly droppedBytes: number;
  /** It drops more than half of the run's bytes: `collect` wants `force`. */
  readonly needsForce: boolean;
}

export interface RetentionOptions extends WaitOptions {
  /** Default: the rules of the run. */
  policy?: RetentionPolicy | undefined;
}

export interface CollectOptions extends RetentionOptions {
  /** Go on although the plan drops more than half of the run's bytes. */
  force?: boolean | undefined;
}

/** A checkpoint that was left for later, and why: its grace, a reader's lease. */
export interface Postponed {
  readonly id: CheckpointId;
  readonly version: bigint;
  /** As in `RetentionVerdict`. */
  readonly isLeftBehind: boolean;
  readonly reason: string;
}

export interface CollectResult {
  readonly plan: RetentionPlan;
  readonly retired: readonly bigint[];
  readonly removed: readonly bigint[];
  readonly postponed: readonly Postponed[];
  readonly swept: SweepResult;
}

export interface SweepResult {
  /** Objects that were deleted, records included. */
  readonly objectCount: number;
  /** Their bytes. */
  readonly freedBytes: number;
  /** Uploads that nobody can finish any more and that were stopped. */
  readonly uploadCount: number;
  /** Bytes of their parts, as far as the store tells. */
  readonly uploadBytes: number;
  /** Expired leases that were deleted. */
  readonly leaseCount: number;
  /** What the store would not delete: locked, held, denied. At most 100 of `heldCount`. */
  readonly held: readonly { readonly key: string; readonly reason: string }[];
  readonly heldCount: number;
  /** What the bucket's settings mean for the bytes that were freed: versioning, soft delete. For people. */
  readonly notes: readonly string[];
}

export interface RetentionCalls {
  /**
   * What `collect` would do now. Changes nothing. At most four requests. `InvalidArgument`: the rules would keep nothing, or name a metric
   * that no checkpoint has; `InvalidConfig`: the clocks of this machine and of the store are more than a day apart, and the time matters;
   * `NotFound`: there is no run.
   */
  planRetention(options?: RetentionOptions): Promise<RetentionPlan>;
  /**
   * Retires what no rule keeps, removes what was retired and has neither grace nor lease left, and deletes what nothing refers to any more.
   * Stopped at any point, it loses nothing and the next call goes on. Deletes at the pace of setting `deletesPerSecondMax`.
   * `Conflict`: the plan drops more than half of the run's bytes and `force` is not set. `Denied`: the store does not let us delete.
   * `OutcomeUnknown`: whether a decision took effect is not known; nothing was deleted, and the next call goes on. Also as `planRetention`.
   */
  collect(options?: CollectOptions): Promise<CollectResult>;
  /** Sets the rules of the run for all its writers, or with `null` none. They are applied after each commit, in the background. */
  setRetention(policy: RetentionPolicy | null, options?: WaitOptions): Promise<void>;
  /** The rules of the run; `null`: none. */
  retention(options?: WaitOptions): Promise<RetentionPolicy | null>;
  /**
   * Keeps a checkpoint until it is unpinned, whatever the rules say. `label`: 1 to 200 printable characters, not only spaces. `NotFound`:
   * there is no such live version. Safe to repeat.
   */
  pin(checkpoint: CheckpointReference, label: string, options?: WaitOptions): Promise<void>;
  /** Takes one label away, or without one all. `NotFound`: there is no such version, or no such label. Resolves to the labels taken away. */
  unpin(checkpoint: CheckpointReference, label?: string, options?: WaitOptions): Promise<readonly string[]>;
  /**
   * Takes back a retirement. The version is the latest then, if all newer ones are quarantined. Rules that do not keep it retire it again, so pin it next. `NotFound`: it is removed already, or was never
   * there. `Conflict`: it is not retired.
   */
  undelete(checkpoint: CheckpointReference, options?: WaitOptions): Promise<void>;
}
