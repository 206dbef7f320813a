/** What is known of a checkpoint: its name, and what the catalog and its records say. */

/** The whole name of a checkpoint. Version numbers repeat after a rollback, ids do not. */
export interface CheckpointId {
  readonly lineage: number;
  readonly epoch: number;
  readonly version: bigint;
}

/** A version as callers may give it: 0 to 2^63 - 1. A `number` must be a safe integer, so nothing is ever rounded. */
export type VersionInput = bigint | number;

/**
 * Names a committed checkpoint. A version alone means the checkpoint on the way to the latest. After a rollback, others of the same
 * version may be left behind: with the lineage in which it was committed, the version names one checkpoint. A `CheckpointId` will do.
 */
export type CheckpointReference = VersionInput | { readonly version: VersionInput; readonly lineage: number };

/** One saving process of a job of `count`: 1 to `WORLD_SIZE_MAX`. `index` counts from 0. */
export interface WriterPosition {
  readonly index: number;
  readonly count: number;
}

export type CheckpointStateName = 'live' | 'retiring' | 'quarantined';

/** What the catalog says of a checkpoint: one small read, however many files it has. */
export interface CheckpointSummary {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  /** Of `sizeBytes`: what was sent for this checkpoint; the rest are unchanged files that lie with earlier ones. */
  readonly storedBytes: number;
  /** Checkpoints with whose files it shares objects; some of them may be removed by now. */
  readonly bases: readonly CheckpointId[];
  readonly fileCount: number;
  /** Those of the commit, and those that were annotated since; the last value of a name stands. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly state: CheckpointStateName;
  readonly isLatest: boolean;
  readonly pins: readonly string[];
  readonly isVerified: boolean;
  readonly isSuspect: boolean;
  /** A rollback went back to before it: no restart loads it, and its version may be written anew. */
  readonly isLeftBehind: boolean;
  readonly reason: string;
  /** By the store's own clock. A copy has the time of its original. */
  readonly committedAtMs: number;
  /** Until when a retired one can be taken back, by the store's own clock. `null`: it is not retired. */
  readonly graceUntilMs: number | null;
  /** How long that was from when the catalog was read, by the store's own clock; not below 0. `null`: it is not retired. */
  readonly graceLeftMs: number | null;
}

export interface CheckpointFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly crc32c: number;
  readonly writer: number;
  /** Key of the object in the store, relative to the run: it can be copied away with any tool. */
  readonly key: string;
  /** When its source was last modified, milliseconds since 1970; `null` where that is not recorded. */
  readonly mtimeMs: number | null;
}

/** What a writer said of its state when its bytes were taken. */
export interface WriterState {
  readonly writer: number;
  /** `null`: it said nothing, and so are the other two. */
  readonly consistency: Consistency | null;
  /** Of the writer's own state: how many updates it had seen, say. */
  readonly stateVersion: bigint | null;
  /** By the writer's own clock; informational. */
  readonly takenAtMs: number | null;
}

export interface CheckpointDetails extends CheckpointSummary {
  readonly worldSize: number;
  /** One for each writer, in their order. */
  readonly writers: readonly WriterState[];
  readonly files: readonly CheckpointFile[];
  /** Names of directories that a writer saved without a file in them, in their order. */
  readonly directories: readonly string[];
  /** That of the commit, and what was annotated since; the last value of a name stands. */
  readonly metadata: Readonly<Record<string, string>>;
  readonly manifestKey: string;
}

/**
 * How the bytes of a checkpoint fit together, where several writers take theirs. `paused`: nobody changed anything meanwhile, so all are of one
 * moment. `polluted`: training went on, and each writer's bytes are of another moment, which is written down.
 */
export type Consistency = 'paused' | 'polluted';
