/** Defines a check. */

import type { StoreFact } from '@holdfast/core/contract';
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
  /** Throws `ConformanceError`, `ChangedOnTheWay`, or the store's error. */
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
