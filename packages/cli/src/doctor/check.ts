/** What a check is, and what it finds. */

import type { ErrorCode, StoreFact } from '@holdfast/core/contract';
import type { Probe } from './probe.ts';

/** One thing that is asked of a store. */
export interface Check {
  /** Kept: programs know the check by it. */
  readonly id: string;
  /** For people; at most 17 characters. */
  readonly title: string;
  /** Ids of earlier checks without which this one tells nothing. */
  readonly needs: readonly string[];
  /** What it means if the store breaks this promise. */
  readonly meaning: string;
  /** What to do about it. */
  readonly advice: string;
  /** What it means if the credentials do not allow it. */
  readonly whenDenied?: string;
  /** A store that fails it is slow or costly, and checkpoints in it are as safe as in any other. */
  readonly isAboutComfort?: true;
  /** Takes seconds; `--quick` leaves it out. */
  readonly isLong?: true;
  /** Throws `BrokenPromise`, `ChangedOnTheWay`, or the store's error. */
  readonly run: (probe: Probe) => Promise<Outcome>;
}

/** What was seen of a store that keeps the promise. */
export interface Outcome {
  readonly seen: string;
  /** Measurements, with their units in their names. */
  readonly figures?: Readonly<Record<string, number>>;
  /** It keeps the promise, but: makes the finding `degraded`. */
  readonly concern?: { readonly meaning: string; readonly advice: string };
  /** What the store tells of its settings: a finding for each, in place of the one of the check. */
  readonly facts?: readonly StoreFact[];
}

export type FindingStatus = 'ok' | 'degraded' | 'failed' | 'not-run';

export interface Finding {
  readonly id: string;
  readonly title: string;
  readonly status: FindingStatus;
  /** What was seen; of a check that was not run, why. */
  readonly seen: string;
  /** What that means; empty where all is well. */
  readonly meaning: string;
  /** What to do; empty where all is well. */
  readonly advice: string;
  /**
   * Of the error that the check ended with; `Unsupported` if the store broke the promise; else
   * `null`.
   */
  readonly code: ErrorCode | null;
  /** The title of the check because of which this one was not run; else `null`. */
  readonly because: string | null;
  readonly durationMs: number;
  readonly figures: Readonly<Record<string, number>>;
}

/** The store does not do what it must. The message is what was seen. */
export class BrokenPromise extends Error {
  override readonly name = 'BrokenPromise';
}

export function expectThat(isKept: boolean, seen: string): asserts isKept {
  if (!isKept) throw new BrokenPromise(seen);
}
