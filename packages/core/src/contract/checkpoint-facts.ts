/** Facts about a checkpoint: its name, and what the catalog and its records say. */

/** The full name of a checkpoint. Version numbers repeat after a rollback, ids do not. */
export interface CheckpointId {
  readonly lineage: number;
  readonly epoch: number;
  readonly version: bigint;
}

/**
 * A version as callers may give it: 0 to 2^63 - 1. A `number` must be a safe integer, so nothing is
 * ever rounded.
 */
export type VersionInput = bigint | number;

/**
 * Names a committed checkpoint. A version alone means the checkpoint on the path to the latest. A
 * rollback may leave other checkpoints of the same version behind. Version and lineage together
 * name exactly one checkpoint: the lineage is the one in which it was committed. A `CheckpointId`
 * is accepted too.
 */
export type CheckpointReference = VersionInput | { readonly version: VersionInput; readonly lineage: number };

/** One writer of a job of `count` writers: 1 to `WORLD_SIZE_MAX`. `index` counts from 0. */
export interface WriterPosition {
  readonly index: number;
  readonly count: number;
}

export type CheckpointStateName = 'live' | 'retiring' | 'quarantined';

/** What the catalog says about a checkpoint: one small read, however many files it has. */
export interface CheckpointSummary {
  readonly id: CheckpointId;
  readonly version: bigint;
  /**
   * Key of its manifest, relative to the run. A run that was removed and begun again at its place
   * uses ids again, and these keys not.
   */
  readonly manifestKey: string;
  readonly sizeBytes: number;
  /**
   * The part of `sizeBytes` that was sent for this checkpoint. The rest are unchanged files stored
   * with earlier checkpoints.
   */
  readonly storedBytes: number;
  /** Checkpoints whose objects it shares. Some of them may be removed by now. */
  readonly bases: readonly CheckpointId[];
  readonly fileCount: number;
  /** Metrics of the commit and of later annotations; the last value of a name counts. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly state: CheckpointStateName;
  readonly isLatest: boolean;
  readonly pins: readonly string[];
  readonly isVerified: boolean;
  readonly isSuspect: boolean;
  /**
   * A rollback went back to before it. No restart loads it, and its version may be written again.
   */
  readonly isLeftBehind: boolean;
  readonly reason: string;
  /** By the store's own clock. A copy keeps the time of its original. */
  readonly committedAtMs: number;
  /**
   * Until when a retired checkpoint can be undeleted, by the store's own clock. `null`: it is not
   * retired.
   */
  readonly graceUntilMs: number | null;
  /**
   * Time left until `graceUntilMs` when the catalog was read, by the store's own clock; not below
   * 0. `null`: it is not retired.
   */
  readonly graceLeftMs: number | null;
}

export interface CheckpointFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly crc32c: number;
  readonly writer: number;
  /** Key of the object in the store, relative to the run: any tool can copy it. */
  readonly key: string;
  /** When its source was last modified, milliseconds since 1970; `null` if not recorded. */
  readonly mtimeMs: number | null;
}

/** What a writer reported about its state when its bytes were read. */
export interface WriterState {
  readonly writer: number;
  /** All three fields are `null` if the writer reported no state. */
  readonly consistency: Consistency | null;
  /** Version of the writer's own state, such as the number of updates it had applied. */
  readonly stateVersion: bigint | null;
  /** By the writer's own clock; informational. */
  readonly takenAtMs: number | null;
}

export interface CheckpointDetails extends CheckpointSummary {
  readonly worldSize: number;
  /** One for each writer, in the order of writers. */
  readonly writers: readonly WriterState[];
  readonly files: readonly CheckpointFile[];
  /** Names of directories that a writer saved without a file in them, in their order. */
  readonly directories: readonly string[];
  /** Metadata of the commit and of later annotations; the last value of a name counts. */
  readonly metadata: Readonly<Record<string, string>>;
}

/**
 * How consistent the bytes of a checkpoint are if several writers contribute to it. `paused`: all
 * writers were paused, so all bytes are of one moment. `polluted`: training continued, so each
 * writer's bytes are of a different moment, which is recorded.
 */
export type Consistency = 'paused' | 'polluted';
