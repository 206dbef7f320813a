/** What the train loop and `Preemption` need of a saver. `AsyncSaver` is one. */

import type { CheckpointManager, CommitMeta, SaveResult, WriterPosition } from '@holdfast/core/contract';

/** A save that has made its copy and has not ended. */
export interface SaveInFlight {
  /** `null`: not known yet. */
  readonly version: bigint | null;
  readonly writer: WriterPosition;
  /** Since `saveAsync` was called. */
  readonly elapsedMs: number;
  readonly doneBytes: number;
  /** 0: not known yet. */
  readonly totalBytes: number;
  /** The unfinished file that is furthest behind; `null` if there is none. */
  readonly file: string | null;
  /** Time since the last progress: bytes, or a delivery. */
  readonly silentMs: number;
  /** Writers that have not delivered, once this writer has. */
  readonly missingWriters: readonly number[];
}

/** `skipped`: another save is in flight, and the policy is to skip this one. */
export type SaveStart = 'started' | 'skipped';

export interface Saver {
  /** The manager that it saves with. */
  readonly manager: CheckpointManager;
  readonly inFlight: SaveInFlight | null;
  /** The newest version that this saver has committed. */
  readonly newest: SaveResult | null;
  /**
   * Copies what `write` writes and resolves when it is copied; the state may then change. Open each
   * key once. If an earlier save failed and that was not yet reported, rejects with that failure
   * and saves nothing.
   */
  saveStreams(
    write: (open: (key: string) => WritableStream<Uint8Array>) => Promise<void>,
    meta?: CommitMeta,
  ): Promise<SaveStart>;
  /**
   * Waits until no save is in flight. Resolves to the last save's result if it was not yet
   * reported, otherwise to `null`. Rejects if that save failed.
   */
  settled(): Promise<SaveResult | null>;
}
