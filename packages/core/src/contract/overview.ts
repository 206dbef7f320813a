/** The facts of a run that a list of many runs shows. */

import type { CheckpointSummary } from './checkpoint-facts.ts';
import type { CallOptions } from './object-store.ts';
import type { BegunVersion } from './upkeep.ts';

export interface OverviewOptions extends CallOptions {
  /**
   * Time over which attempts and fences are counted, by the store's clock; 1 ms to 366 days.
   * Default: one day.
   */
  readonly historyMs?: number | undefined;
  /** Also find out when the newest verified checkpoint was verified. Default: false. */
  readonly findVerification?: boolean | undefined;
  /** Also find out when the last rollback was made. Default: false. */
  readonly findRollback?: boolean | undefined;
  /** Also list the saves in progress, as `begun` does. Default: false. */
  readonly listBegun?: boolean | undefined;
}

/** Recent changes of ownership. */
export interface RecentHistory {
  /**
   * The counts are complete from here on, milliseconds since 1970 by the store's clock. It is later
   * than asked if the run is younger, or if the catalog no longer keeps the entries.
   */
  readonly sinceMs: number;
  /** Attempts that took the run over. */
  readonly attemptCount: number;
  /**
   * Takeovers that fenced an older attempt, and rollbacks. The restart of a single writer is not
   * counted.
   */
  readonly fenceCount: number;
}

export interface RunOverview {
  /** Number of the newest catalog entry. As long as it is the same, so is what the catalog says. */
  readonly seq: number;
  readonly runId: string;
  /** What a restart would load; `null`: nothing that can be loaded was committed. */
  readonly latest: CheckpointSummary | null;
  /** Number of writers of the present attempt. */
  readonly worldSize: number;
  readonly lineage: number;
  readonly epoch: number;
  readonly attempt: string;
  /** Live checkpoints, those that a rollback left behind included. */
  readonly liveCount: number;
  /** Retired by retention, and not removed yet. */
  readonly retiringCount: number;
  readonly quarantinedCount: number;
  /** Bytes that were sent for the checkpoints of the catalog. */
  readonly storedBytes: number;
  /**
   * Bytes of these checkpoints that were stored for older ones already, and not sent again. If the
   * older one was removed, no `storedBytes` counts them.
   */
  readonly referencedBytes: number;
  /** `null`: an older entry that is needed for it cannot be read. */
  readonly history: RecentHistory | null;
  /** The newest checkpoint of which every byte was verified; `null`: there is none. */
  readonly verified: CheckpointSummary | null;
  /**
   * When `verified` was verified, milliseconds since 1970 by the store's clock. `null`: it was not
   * asked for, or the catalog no longer keeps the entry.
   */
  readonly verifiedAtMs: number | null;
  /**
   * The last rollback was made then or before, milliseconds since 1970 by the store's clock. It is
   * the exact time unless the catalog no longer keeps the entry, or an entry cannot be read.
   * `null`: it was not asked for, or there was no rollback.
   */
  readonly rolledBackByMs: number | null;
  /** Lowest version first; `null`: not asked for. */
  readonly begun: readonly BegunVersion[] | null;
  /** The store's clock when the catalog was listed, milliseconds since 1970. */
  readonly storeTimeMs: number;
}

export interface OverviewCalls {
  /**
   * What the catalog says of the run as a whole. No payload is listed or read. Changes nothing.
   *
   * Requests: as many as `latest`, and one for each page of older checkpoints. A manager that has
   * read the catalog before lists all of it again, by one more. There is another one if the run had
   * a decision in the time of `historyMs`. Up to ten for `findVerification`, only if a
   * checkpoint is verified, and for `findRollback`, only after a rollback. Those of `begun` for
   * `listBegun`.
   *
   * `NotFound`: there is no run. `StoreRegressed`: its catalog is lost. `Corrupt`: the newest entry
   * or a page is damaged, or the entry is of another run.
   */
  overview(options?: OverviewOptions): Promise<RunOverview>;
}
