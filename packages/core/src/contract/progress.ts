/** Progress events of a call, and how to stop it. */

import type { CheckpointId, WriterPosition } from './checkpoint-facts.ts';
import type { ProcessName } from './components.ts';

export interface WaitOptions {
  signal?: AbortSignal | undefined;
  /**
   * If it throws, the error is logged once per call and changes nothing. A promise it returns is
   * not awaited.
   */
  onProgress?: ((event: ProgressEvent) => void) | undefined;
}

/** Receipts that no longer count, because a later process of their writer has joined. */
export interface VoidedDeliveries {
  readonly writer: number;
  /** Ascending. Empty: the run is so large that the search for them was not finished. */
  readonly versions: readonly bigint[];
  /** All of them were found. */
  readonly isComplete: boolean;
  /** The process that delivered them; `pid` 0: not known. */
  readonly process: ProcessName;
  /** Life of that process; empty: it named none. */
  readonly life: string;
}

export type ProgressEvent =
  /** With `staging`: everything is copied; the number of bytes. The first event of all. */
  | { readonly type: 'staged'; readonly sizeBytes: number }
  /**
   * Joined the run: from now on any newer attempt fences this process. `tookOver`: it fenced an
   * older one.
   */
  | {
      readonly type: 'joined';
      readonly version: bigint;
      readonly writer: WriterPosition;
      readonly epoch: number;
      readonly tookOver: boolean;
    }
  /**
   * This process has replaced an earlier one of its writer. Deliveries of that process that no
   * commit has used yet can no longer be committed. Processes of one trainer share a `life`, and do
   * not replace each other.
   */
  | ({ readonly type: 'voided' } & VoidedDeliveries)
  /**
   * Sent once the files are planned. `sizeBytes` counts streams of unknown length as 0. `files` is
   * empty if a checkpoint has so many files that their names are read only during the transfer.
   */
  | {
      readonly type: 'planned';
      readonly version: bigint;
      readonly fileCount: number;
      readonly sizeBytes: number;
      readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
    }
  /**
   * `doneBytes` and `totalBytes` are of the file `name`. Bytes count once they are in the store, or
   * verified in the destination.
   */
  | { readonly type: 'bytes'; readonly name: string; readonly doneBytes: number; readonly totalBytes: number }
  | { readonly type: 'retry'; readonly detail: string }
  /**
   * Bytes of `name` that an interrupted save of this version had sent: they were compared with the
   * source, and not sent again.
   */
  | {
      readonly type: 'resumed';
      readonly version: bigint;
      readonly name: string;
      readonly keptBytes: number;
    }
  /** Files look unchanged since the last checkpoint; once for each suspicion. */
  | { readonly type: 'suspect'; readonly version: bigint; readonly reason: string }
  /** This writer's share is in the store and durable. */
  | { readonly type: 'delivered'; readonly version: bigint; readonly missingWriters: readonly number[] }
  | {
      readonly type: 'waiting';
      readonly version: bigint;
      readonly missingWriters: readonly number[];
      readonly waitedMs: number;
    }
  | { readonly type: 'committed'; readonly id: CheckpointId }
  /**
   * This version is skipped: in a restore because it is damaged, in a mirror for the reason given.
   */
  | { readonly type: 'skipped'; readonly version: bigint; readonly reason: string }
  /**
   * Restore: an old directory remains at `path`, because it holds files that may not be deleted, or
   * because it cannot be removed.
   */
  | { readonly type: 'left'; readonly path: string; readonly reason: string }
  /** Mirror: nothing is left to copy for now; it checks again after `waitMs`. */
  | { readonly type: 'idle'; readonly waitMs: number };
