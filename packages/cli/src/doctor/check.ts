/** Defines checks and their findings. */

import type { ErrorCode, StoreFact } from '@holdfast/core/contract';
import type { Probe } from './probe.ts';

/** One check of a store. */
export interface Check {
  /** Stable: programs identify the check by it. */
  readonly id: string;
  /** For people; at most 17 characters. */
  readonly title: string;
  /** Ids of earlier checks that this one depends on. */
  readonly needs: readonly string[];
  /** Consequence if the store fails the check. */
  readonly meaning: string;
  /** What to do about it. */
  readonly advice: string;
  /** Consequence if the credentials do not allow it. */
  readonly whenDenied?: string;
  /** A store that fails it is slow or costly, but checkpoints in it are safe. */
  readonly isAboutComfort?: true;
  /** Takes seconds; `--quick` skips it. */
  readonly isLong?: true;
  /** Throws `BrokenPromise`, `ChangedOnTheWay`, or the store's error. */
  readonly run: (probe: Probe) => Promise<Outcome>;
}

/** Observations of a store that passes the check. */
export interface Outcome {
  readonly seen: string;
  /** Measurements. Their names contain the units. */
  readonly figures?: Readonly<Record<string, number>>;
  /** The check passes with a reservation, so the finding is `degraded`. */
  readonly concern?: { readonly meaning: string; readonly advice: string };
  /** Facts about the store's settings: each becomes a finding, instead of the check's own. */
  readonly facts?: readonly StoreFact[];
}

export type FindingStatus = 'ok' | 'degraded' | 'failed' | 'not-run';

export interface Finding {
  readonly id: string;
  readonly title: string;
  readonly status: FindingStatus;
  /** The observation; for a check that was not run, the reason. */
  readonly seen: string;
  /** Consequence; empty if all is well. */
  readonly meaning: string;
  /** What to do; empty if all is well. */
  readonly advice: string;
  /** Code of the check's error; `Unsupported` if the store broke the contract; otherwise `null`. */
  readonly code: ErrorCode | null;
  /** Title of the check that prevented this one; otherwise `null`. */
  readonly because: string | null;
  readonly durationMs: number;
  readonly figures: Readonly<Record<string, number>>;
}

/** The store breaks the contract. The message is what was observed. */
export class BrokenPromise extends Error {
  override readonly name = 'BrokenPromise';
}

export function expectThat(isKept: boolean, seen: string): asserts isKept {
  if (!isKept) throw new BrokenPromise(seen);
}
