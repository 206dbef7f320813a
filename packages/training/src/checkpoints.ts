/** What the train loop asks of whoever keeps checkpoints. Core's `CheckpointManager` is one such; so may be any class of yours. */

/** A key/value store that appears as a whole. */
export interface TrainingCheckpoint {
  /** Grows from checkpoint to checkpoint. */
  readonly version: bigint;
  /**
   * Only before `commit`. The key opened twice: the last one counts. Streams are to be closed before `commit`, which refuses while a key
   * whose stream failed or was aborted has not been written again.
   */
  openOutputStream(key: string): WritableStream<Uint8Array>;
  /** Only after `commit`. The stream fails if there is no such key, or if what is there is damaged. */
  openInputStream(key: string): ReadableStream<Uint8Array>;
  /** Until this resolves nobody sees the checkpoint, and then all of it, for good. Repeating does nothing. */
  commit(): Promise<void>;
  /** Gives up what is not committed; otherwise does nothing. Safe to repeat. */
  discard(): Promise<void>;
}

export interface TrainingCheckpointManager {
  /** Begins the next one: its version is above all that are there, 0 for the first. */
  create(): Promise<TrainingCheckpoint>;
  /** `null`: there is none. */
  get(version: bigint): Promise<TrainingCheckpoint | null>;
  /** The newest; `null`: there is none. */
  latest(): Promise<TrainingCheckpoint | null>;
  /** All that are committed, newest first. */
  list(): Promise<readonly { readonly version: bigint }[]>;
}
