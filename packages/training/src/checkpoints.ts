/**
 * What the train loop needs of a checkpoint manager: core's `CheckpointManager`, or any other
 * class.
 */

/** A key/value store that becomes visible as a whole. */
export interface TrainingCheckpoint {
  /** Grows from checkpoint to checkpoint. */
  readonly version: bigint;
  /**
   * Allowed only before `commit`. If a key is opened twice, the last stream counts. Close all
   * streams before `commit`.
   *
   * `commit` fails while a key's stream has failed or was aborted and the key has not been written
   * again.
   */
  openOutputStream(key: string): WritableStream<Uint8Array>;
  /**
   * Allowed only after `commit`. The stream fails if the key does not exist or its bytes are
   * damaged.
   */
  openInputStream(key: string): ReadableStream<Uint8Array>;
  /**
   * The checkpoint is invisible until this resolves; then all of it is visible, for good. Safe to
   * repeat.
   */
  commit(): Promise<void>;
  /** Discards a checkpoint that is not committed; otherwise does nothing. Safe to repeat. */
  discard(): Promise<void>;
}

export interface TrainingCheckpointManager {
  /** Begins the next checkpoint. Its version is above all existing ones, or 0 for the first. */
  create(): Promise<TrainingCheckpoint>;
  /** `null` if the version does not exist. */
  get(version: bigint): Promise<TrainingCheckpoint | null>;
  /** The newest checkpoint; `null` if there is none. */
  latest(): Promise<TrainingCheckpoint | null>;
  /** All committed checkpoints, newest first. */
  list(): Promise<readonly { readonly version: bigint }[]>;
  /**
   * Takes the run over from earlier managers, if this kind of manager has such a rule. `train`
   * calls it for managers that it opens.
   */
  join?(): Promise<unknown>;
  /** Releases what the manager holds. `train` calls it for managers that it opens. */
  close?(): Promise<void>;
}

/** Opens a new manager at each call. `train` closes what it returns. */
export type CheckpointManagerOpener = () => TrainingCheckpointManager | Promise<TrainingCheckpointManager>;
