/** What saves while training goes on. `AsyncSaver` is one; the train loop and whoever is preempted ask no more of it than this. */

import type { CheckpointManager, CommitMeta, SaveResult, WriterPosition } from '@holdfast/core/contract';

/** A save that has taken its copy and is not over. */
export interface SaveInFlight {
  /** `null`: not known yet. */
  readonly version: bigint | null;
  readonly writer: WriterPosition;
  /** Since `saveAsync` was called. */
  readonly elapsedMs: number;
  readonly doneBytes: number;
  /** 0: not known yet. */
  readonly totalBytes: number;
  /** The file that is furthest behind of those that are under way; `null`: no file is. */
  readonly file: string | null;
  /** Since anything was heard of it: bytes, a delivery. */
  readonly silentMs: number;
  /** This writer has delivered; these have not. */
  readonly missingWriters: readonly number[];
}

/** `skipped`: another save is in flight, and the policy is to leave this one out. */
export type SaveStart = 'started' | 'skipped';

export interface Saver {
  /** Where it saves. */
  readonly manager: CheckpointManager;
  readonly inFlight: SaveInFlight | null;
  /** The last one that this saver has committed. */
  readonly newest: SaveResult | null;
  /**
   * Copies what `write` writes and resolves when it is copied: from then on the state may change. Each key is opened once. Rejects with what
   * became of an earlier save that nobody has heard of yet; then nothing is saved by this call.
   */
  saveStreams(
    write: (open: (key: string) => WritableStream<Uint8Array>) => Promise<void>,
    meta?: CommitMeta,
  ): Promise<SaveStart>;
  /** When nothing is in flight: what the last save came to, if nobody has heard of it yet; `null` otherwise. Rejects if it failed. */
  settled(): Promise<SaveResult | null>;
}
