/** What one check of a store, or the clean-up after all of them, has found. */

import type { ErrorCode } from '@holdfast/core/contract';

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
