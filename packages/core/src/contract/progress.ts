/** What a call tells while it goes on, and how it is stopped. */

import type { CheckpointId, WriterPosition } from './checkpoint-facts.ts';
import type { ProcessName } from './components.ts';

export interface WaitOptions {
  signal?: AbortSignal | undefined;
  /** What it throws is logged, once a call, and changes nothing. A promise that it returns is not waited for. */
  onProgress?: ((event: ProgressEvent) => void) | undefined;
}

/** Receipts that count no more, because a later process of their writer has joined. */
export interface VoidedDeliveries {
  readonly writer: number;
  /** Ascending. Empty: the run is so large that they were not looked for to the end. */
  readonly versions: readonly bigint[];
  /** All of them were found. */
  readonly isComplete: boolean;
  /** That delivered them; `pid` 0: not known. */
  readonly process: ProcessName;
  /** Of that process; empty: it named none. */
  readonly life: string;
}

export type ProgressEvent =
  /** With `staging`: all is copied, so many bytes. Comes first of all. */
  | { readonly type: 'staged'; readonly sizeBytes: number }
  /** Joined the run: from now on the process is fenced by any newer attempt. `tookOver`: it fenced an older one. */
  | {
      readonly type: 'joined';
      readonly version: bigint;
      readonly writer: WriterPosition;
      readonly epoch: number;
      readonly tookOver: boolean;
    }
  /**
   * This process has taken the place of an earlier one of its writer. What that one had delivered and no commit has used yet never will
   * be. Processes of one trainer share a `life`, and do not replace each other.
   */
  | ({ readonly type: 'voided' } & VoidedDeliveries)
  /**
   * Known once the files are planned. `sizeBytes` counts streams of unknown length as 0. `files` is empty where a checkpoint has so many
   * that their names are read only as the transfer goes on.
   */
  | {
      readonly type: 'planned';
      readonly version: bigint;
      readonly fileCount: number;
      readonly sizeBytes: number;
      readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
    }
  /** `doneBytes` and `totalBytes` are of the file `name`; bytes count once they are in the store or verified in the destination. */
  | { readonly type: 'bytes'; readonly name: string; readonly doneBytes: number; readonly totalBytes: number }
  | { readonly type: 'retry'; readonly detail: string }
  /** Of `name`, so many bytes were left by an interrupted save of this version: they were compared with the source, and not sent again. */
  | {
      readonly type: 'resumed';
      readonly version: bigint;
      readonly name: string;
      readonly keptBytes: number;
    }
  /** Files look as if nobody had written them since the last checkpoint; once for each suspicion. */
  | { readonly type: 'suspect'; readonly version: bigint; readonly reason: string }
  /** Gone to the store: this writer's share is durable. */
  | { readonly type: 'delivered'; readonly version: bigint; readonly missingWriters: readonly number[] }
  | {
      readonly type: 'waiting';
      readonly version: bigint;
      readonly missingWriters: readonly number[];
      readonly waitedMs: number;
    }
  | { readonly type: 'committed'; readonly id: CheckpointId }
  /** This version is passed over: in a restore because it is damaged, in a mirror for the reason it gives. */
  | { readonly type: 'skipped'; readonly version: bigint; readonly reason: string }
  /** Restore: an old directory stays, at `path`: it holds files that may not go, or it cannot be removed. */
  | { readonly type: 'left'; readonly path: string; readonly reason: string }
  /** Mirror: nothing is left to copy for now; it looks again after so long. */
  | { readonly type: 'idle'; readonly waitMs: number };
