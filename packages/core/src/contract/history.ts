/** Going back, branching off, comparing, and keeping what others read. */

import type { CheckpointId, CheckpointReference, VersionInput } from './checkpoint-facts.ts';
import type { CheckpointManager } from './checkpoint-manager.ts';
import type { WaitOptions } from './progress.ts';

export interface RollbackOptions extends WaitOptions {
  /** Becomes the latest. */
  to: CheckpointReference;
  /** For people who read the log later: 1 to 1,000 characters, not only spaces. */
  reason: string;
}

export interface RollbackResult {
  /** The checkpoint gone back to. */
  readonly id: CheckpointId;
  readonly version: bigint;
  /** The new one; writers of the one before are fenced. */
  readonly lineage: number;
  /** Versions that are no longer on the way to the latest, ascending. They stay until retention takes them. */
  readonly leftBehind: readonly bigint[];
}

export interface ForkOptions extends WaitOptions {
  /** Default: the latest of the source. */
  version?: VersionInput | 'latest' | undefined;
}

export interface ForkResult {
  /** In the source. */
  readonly from: CheckpointId;
  /** Of the copy. */
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** Of `sizeBytes`: left by a fork that was interrupted, and not sent again. */
  readonly reusedBytes: number;
}

export interface DiffOptions extends WaitOptions {
  /** Also compare the bytes of each tensor. Reads every byte of the files that differ, once. */
  tensors?: boolean | undefined;
}

export type FileChange = 'same' | 'changed' | 'added' | 'removed';

export interface FileDiff {
  readonly name: string;
  readonly change: FileChange;
  /** Of the file in the first version; `null`: it is not there. */
  readonly beforeBytes: number | null;
  /** Of the file in the second version; `null`: it is not there. */
  readonly afterBytes: number | null;
  /** Of a changed file whose format is known, in the order of their names; `null` of others. */
  readonly tensors: readonly TensorDiff[] | null;
  /** Why tensors could not be compared although the file's name says that there are some; empty otherwise. */
  readonly note: string;
}

export type TensorChange =
  | 'added'
  | 'removed'
  /** Another type of element, or another shape. */
  | 'reshaped'
  /** Other bytes. */
  | 'changed'
  | 'same'
  /** Type and shape are as before; the bytes were not compared (option `tensors`). */
  | 'unread';

export interface TensorDiff {
  readonly name: string;
  readonly change: TensorChange;
  /** `null`: it is not there. */
  readonly before: TensorShape | null;
  readonly after: TensorShape | null;
}

export interface TensorShape {
  /** As the format names it: `F32`, `BF16`, … */
  readonly dtype: string;
  /** Elements in each dimension; empty for a scalar. */
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

export interface DiffResult {
  readonly before: CheckpointId;
  readonly after: CheckpointId;
  /** All of both, in the order of their names. */
  readonly files: readonly FileDiff[];
  /** Payload bytes that were read and verified for it. */
  readonly bytesRead: number;
}

export interface LeaseOptions extends WaitOptions {
  /** Default: the latest. */
  version?: CheckpointReference | 'latest' | undefined;
  /** From when the store has it, by the store's clock: 1 s to 30 days. */
  ttlMs: number;
  /** Who reads, for people: 1 to 128 letters, digits, '.', '_' and '-', the first no dot or dash. Default: `reader`. */
  reader?: string | undefined;
}

/** A claim of a reader on one checkpoint. All times are by the store's clock. */
export interface Lease {
  /** For `releaseLease`. */
  readonly id: string;
  /** Of its object, relative to the run. */
  readonly key: string;
  readonly checkpoint: CheckpointId;
  readonly version: bigint;
  readonly reader: string;
  /** Where it was taken; informational. */
  readonly host: string;
  readonly pid: number;
  readonly createdAtMs: number;
  /** At the listing. */
  readonly ageMs: number;
  /** `null`: its record cannot be read; it counts until it is released. */
  readonly expiresAtMs: number | null;
  readonly isExpired: boolean;
}

export interface HistoryCalls {
  /**
   * Makes an older version the latest again, and begins a new lineage there: running writers are fenced, and versions above may be written
   * anew. Nothing is deleted. One more entry in the catalog. Repeating it begins one lineage more.
   *
   * `NotFound`: there is no such version, or it was removed or left behind by a rollback. `Conflict`: it is quarantined or being retired, or
   * another rollback came first. `OutcomeUnknown`: `recover` tells whether it took effect.
   */
  rollback(options: RollbackOptions): Promise<RollbackResult>;
  /**
   * Begins this run with a copy of one checkpoint of another, as `mirrorFrom` copies it; inside one store by the store itself, where it can.
   * An interrupted fork goes on when it is repeated.
   *
   * `Conflict`: this run holds, or has held, checkpoints. `NotFound`: there is no such version in the source. `InvalidArgument`: both are one
   * run. The other errors of `mirrorFrom`.
   */
  forkFrom(source: CheckpointManager, options?: ForkOptions): Promise<ForkResult>;
  /**
   * In what two versions differ: by file from the records alone (size and BLAKE3 where both have it, else CRC32C), and by tensor where a
   * file of that name differs and is in the safetensors format: added, removed and reshaped ones from its header. Changes nothing.
   * `Corrupt`: a file that had to be read does not match its record.
   */
  diff(
    before: CheckpointReference | 'latest',
    after: CheckpointReference | 'latest',
    options?: DiffOptions,
  ): Promise<DiffResult>;

  /**
   * Keeps collection away from a checkpoint for a while; `restore`, `openInputStream` and `openSource` do so by themselves. It is never
   * extended: to hold on longer, take another before it ends. `NotFound`: there is no such version, or it is no longer live. `Denied`,
   * `ReadOnly`: the store cannot be written, and there is no lease without that.
   */
  lease(options: LeaseOptions): Promise<Lease>;
  /** Ends a claim before its time. `false`: there was none; it was released or has been swept. Safe to repeat. */
  releaseLease(id: string, options?: WaitOptions): Promise<boolean>;
  /** All claims on a version, or on all: of restores under way too, and those that have expired until they are swept. One GET each. */
  leases(options?: WaitOptions & { version?: CheckpointReference | undefined }): Promise<Lease[]>;
}
