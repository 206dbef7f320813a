/** Rules for which checkpoints are kept, and how the others are deleted. */

import type {
  CheckpointId,
  CheckpointReference,
  CheckpointStateName,
  VersionInput,
} from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

/**
 * A checkpoint is kept if any rule keeps it; without any rule all are kept. Some are kept whatever
 * the rules say: the latest, pinned ones, the one that the present attempt resumed from, the last
 * live one and the last verified one. Ages are by the store's own clock.
 *
 * Checkpoints that a rollback left behind follow the same rules, but never take the place of one on
 * the path to the latest. `keepLast` does not count them. The rules for the best and the first keep
 * one of them only if it is the best or first among all. Quarantined ones are left alone.
 */
export interface RetentionPolicy {
  /** The newest ones, this many; at least 1. */
  keepLast?: number | undefined;
  /** Versions that are multiples of this number; at least 1. */
  keepEvery?: VersionInput | undefined;
  /**
   * The first checkpoint committed in each span of this length, counted from 1970; 1,000 to
   * `SPAN_MS_MAX`.
   */
  keepEveryMs?: number | undefined;
  /** Checkpoints committed no longer ago than this; 1,000 to `SPAN_MS_MAX`. */
  keepForMs?: number | undefined;
  /** The best by metrics; checkpoints without the metric do not count. */
  keepBest?: readonly KeepBest[] | undefined;
  /**
   * How long a retired checkpoint can be undeleted before it is removed, in milliseconds: 0 to
   * `SPAN_MS_MAX`. The value at retirement applies, unless `collect` is given another. Default: 1
   * hour.
   */
  graceMs?: number | undefined;
}

export interface KeepBest {
  metric: string;
  mode: 'min' | 'max';
  /** At least 1. */
  count: number;
}

/** The verdict on one checkpoint of the catalog. */
export interface RetentionVerdict {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly storedBytes: number;
  /** A rollback went back to before it; another checkpoint may have its version by now. */
  readonly isLeftBehind: boolean;
  /** The state before `collect` does anything. */
  readonly state: CheckpointStateName;
  /**
   * `keep`; `retire`: no rule keeps it; `remove`: it is retired and its grace is over; `wait`: it
   * is retired and its grace is not over.
   */
  readonly verdict: 'keep' | 'retire' | 'remove' | 'wait';
  /** In words: each rule that keeps it, or why none does. At least one. */
  readonly reasons: readonly string[];
  /**
   * It is kept although no rule keeps it: it is the latest, pinned, quarantined, or an attempt
   * resumed from it.
   */
  readonly isBeyondRules: boolean;
}

export interface RetentionPlan {
  /** The rules of this plan; `null`: there are no rules, so nothing is retired. */
  readonly policy: RetentionPolicy | null;
  /**
   * The same in words, with the grace of checkpoints retired now: `newest 3, multiples of 1000;
   * grace 1 h`.
   */
  readonly rules: string;
  /** All checkpoints in the catalog, newest first. */
  readonly verdicts: readonly RetentionVerdict[];
  /** Stored bytes of all checkpoints in the catalog. */
  readonly totalBytes: number;
  /** Stored bytes of checkpoints to retire, to remove or waiting. */
  readonly droppedBytes: number;
  /** The plan drops more than half of the run's bytes: `collect` requires `force`. */
  readonly needsForce: boolean;
}

export interface RetentionOptions extends WaitOptions {
  /** Default: the rules of the run. */
  policy?: RetentionPolicy | undefined;
}

export interface CollectOptions extends RetentionOptions {
  /** Proceed although the plan drops more than half of the run's bytes. */
  force?: boolean | undefined;
  /**
   * Why, for the log of the run: 1 to 1,000 characters, not only spaces. The reasons of the rules
   * follow it in brackets. Default: these alone.
   */
  reason?: string | undefined;
}

/** A checkpoint that could not be removed yet, and why: its grace, or a reader's lease. */
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
  /** Uploads that no process can finish any more, and that were aborted. */
  readonly uploadCount: number;
  /** Bytes of their parts, if the store reports them. */
  readonly uploadBytes: number;
  /** Expired leases that were deleted. */
  readonly leaseCount: number;
  /** Objects that the store refused to delete: locked, held, denied. At most 100 of `heldCount`. */
  readonly held: readonly { readonly key: string; readonly reason: string }[];
  readonly heldCount: number;
  /**
   * How the bucket's settings affect the bytes that were freed: versioning, soft delete. For
   * people.
   */
  readonly notes: readonly string[];
}

export interface RetentionCalls {
  /**
   * What `collect` would do now. Changes nothing. At most four requests. `InvalidArgument`: the
   * rules would keep nothing, or name a metric that no checkpoint has. `InvalidConfig`: the clocks
   * of this machine and of the store are more than a day apart, and the time matters. `NotFound`:
   * there is no run.
   */
  planRetention(options?: RetentionOptions): Promise<RetentionPlan>;
  /**
   * Retires checkpoints that no rule keeps, removes retired ones without grace or lease left, and
   * deletes objects that nothing refers to any more. It may be stopped at any point: nothing is
   * lost, and the next call continues. Deletes at the pace of setting `deletesPerSecondMax`.
   * `Conflict`: the plan drops more than half of the run's bytes and `force` is not set. `Denied`:
   * the store does not permit deletion. `OutcomeUnknown`: it is not known whether a decision took
   * effect; nothing was deleted, and the next call continues. Also the errors of `planRetention`.
   */
  collect(options?: CollectOptions): Promise<CollectResult>;
  /**
   * Sets the rules of the run for all its writers; `null` removes them. They are applied after each
   * commit, in the background.
   */
  setRetention(policy: RetentionPolicy | null, options?: WaitOptions): Promise<void>;
  /** The rules of the run; `null`: there are none. */
  retention(options?: WaitOptions): Promise<RetentionPolicy | null>;
  /**
   * Keeps a checkpoint until it is unpinned, whatever the rules say. `label`: 1 to 200 printable
   * characters, not only spaces. `NotFound`: there is no such live version. Safe to repeat.
   */
  pin(checkpoint: CheckpointReference, label: string, options?: WaitOptions): Promise<void>;
  /**
   * Removes one label, or all labels if none is given. `NotFound`: there is no such version, or no
   * such label. Resolves to the labels that were removed.
   */
  unpin(checkpoint: CheckpointReference, label?: string, options?: WaitOptions): Promise<readonly string[]>;
  /**
   * Undoes a retirement. The version becomes the latest if all newer ones are quarantined. Rules
   * that do not keep it retire it again, so pin it next. `NotFound`: it is removed already, or
   * never existed. `Conflict`: it is not retired.
   */
  undelete(checkpoint: CheckpointReference, options?: WaitOptions): Promise<void>;
}
