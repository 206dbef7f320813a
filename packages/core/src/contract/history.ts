/** Rollback, fork, comparison, and leases of readers. */

import type { CheckpointId, CheckpointReference, VersionInput } from './checkpoint-facts.ts';
import type { WaitOptions } from './progress.ts';

export interface RollbackOptions extends WaitOptions {
  /** Becomes the latest. */
  to: CheckpointReference;
  /** For people who read the log later: 1 to 1,000 characters, not only spaces. */
  reason: string;
}

export interface RollbackResult {
  /** The checkpoint that the rollback went back to. */
  readonly id: CheckpointId;
  readonly version: bigint;
  /** The new lineage; writers of the previous one are fenced. */
  readonly lineage: number;
  /**
   * Versions that are no longer on the path to the latest, ascending. They stay until retention
   * removes them.
   */
  readonly leftBehind: readonly bigint[];
}

export interface ForkOptions extends WaitOptions {
  /** Default: the latest of the source. */
  version?: VersionInput | 'latest' | undefined;
}

export interface ForkResult {
  /** The checkpoint in the source. */
  readonly from: CheckpointId;
  /** The checkpoint of this run. */
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /**
   * The part of `sizeBytes` that an interrupted fork had already sent, and that was not sent again.
   */
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
  /** Size of the file in the first version; `null`: the file is not there. */
  readonly beforeBytes: number | null;
  /** Size of the file in the second version; `null`: the file is not there. */
  readonly afterBytes: number | null;
  /** For a changed file of a known format, sorted by name; otherwise `null`. */
  readonly tensors: readonly TensorDiff[] | null;
  /**
   * Why tensors could not be compared although the file's name says that it holds some; empty
   * otherwise.
   */
  readonly note: string;
}

export type TensorChange =
  | 'added'
  | 'removed'
  /** Different element type or shape. */
  | 'reshaped'
  /** Different bytes. */
  | 'changed'
  | 'same'
  /** Type and shape are the same; the bytes were not compared (option `tensors`). */
  | 'unread';

export interface TensorDiff {
  readonly name: string;
  readonly change: TensorChange;
  /** `null`: the first version does not have this tensor. */
  readonly before: TensorShape | null;
  readonly after: TensorShape | null;
}

export interface TensorShape {
  /** The format's name for it: `F32`, `BF16`, … */
  readonly dtype: string;
  /** Elements in each dimension; empty for a scalar. */
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

export interface DiffResult {
  readonly before: CheckpointId;
  readonly after: CheckpointId;
  /** All files of both versions, sorted by name. */
  readonly files: readonly FileDiff[];
  /** Payload bytes that were read and verified for the comparison. */
  readonly bytesRead: number;
}

export interface InspectOptions extends WaitOptions {
  /** Default: the latest. */
  version?: CheckpointReference | 'latest' | undefined;
}

export interface InspectResult {
  readonly id: CheckpointId;
  /** Sorted by name. */
  readonly files: readonly InspectedFile[];
  /** Payload bytes that were read and verified. */
  readonly bytesRead: number;
}

export interface InspectedFile {
  readonly name: string;
  /** Index of the writer that saved it. */
  readonly writer: number;
  readonly sizeBytes: number;
  /** In the order of their bytes. `null`: the file holds none that could be read. */
  readonly tensors: readonly InspectedTensor[] | null;
  /** Why tensors could not be read although its name says that it holds some; empty otherwise. */
  readonly note: string;
}

/** A tensor in a file, or the part of a tensor that one rank has saved. */
export interface InspectedTensor extends TensorShape {
  readonly name: string;
  /**
   * The first index of a part in the whole tensor, for each dimension, as PyTorch's distributed
   * checkpoints say in their headers. `null`: the file says nothing of parts.
   */
  readonly offsets: readonly number[] | null;
  /**
   * Position of its first byte in the file. The bytes are in C order. `null`: it is in an archive
   * of `torch.save` in the file.
   */
  readonly fileOffsetBytes: number | null;
}

export interface LocateOptions extends WaitOptions {
  /** Default: the latest. */
  version?: CheckpointReference | 'latest' | undefined;
}

/** The places of a checkpoint's bytes. */
export interface LocateResult {
  readonly id: CheckpointId;
  /**
   * The place, ending in `/`, below which the files have their names, and nothing else is. A copy
   * of it by any tool is the checkpoint. `null` if there is no file, if
   * several writers saved it, or if it shares files with an older version.
   */
  readonly prefixUri: string | null;
  /** Sorted by name. */
  readonly files: readonly LocatedFile[];
}

export interface LocatedFile {
  readonly name: string;
  /** Index of the writer that saved it. */
  readonly writer: number;
  readonly sizeBytes: number;
  /** Names its object, which holds the bytes of the file and nothing else. It has no escapes. */
  readonly uri: string;
}

export interface LeaseOptions extends WaitOptions {
  /** Default: the latest. */
  version?: CheckpointReference | 'latest' | undefined;
  /** Counted from when the store has the lease, by the store's clock: 1 s to 30 days. */
  ttlMs: number;
  /**
   * Name of the reader, for people: 1 to 128 letters, digits, '.', '_' and '-'; the first is no dot
   * or dash. Default: `reader`.
   */
  reader?: string | undefined;
}

/** A reader's lease on one checkpoint. All times are by the store's clock. */
export interface Lease {
  /** For `releaseLease`. */
  readonly id: string;
  /** Key of its object, relative to the run. */
  readonly key: string;
  readonly checkpoint: CheckpointId;
  readonly version: bigint;
  readonly reader: string;
  /** Host that took the lease; informational. */
  readonly host: string;
  readonly pid: number;
  readonly createdAtMs: number;
  /** Age when it was listed. */
  readonly ageMs: number;
  /** `null`: its record cannot be read. Such a lease counts until it is released. */
  readonly expiresAtMs: number | null;
  readonly isExpired: boolean;
}

export interface HistoryCalls {
  /**
   * Makes an older version the latest again, and begins a new lineage there. Running writers are
   * fenced, and higher versions may be written again. Nothing is deleted. Writes one more entry in
   * the catalog. Repeating the call begins another lineage.
   *
   * `NotFound`: there is no such version, or it was removed or left behind by a rollback.
   * `Conflict`: it is quarantined or retired, or another rollback came first.
   * `OutcomeUnknown`: `recover` tells whether it took effect.
   */
  rollback(options: RollbackOptions): Promise<RollbackResult>;
  /**
   * Compares two versions. By file: from the records alone, by size and BLAKE3 if both have it,
   * else by CRC32C, of the file and of its parts. By tensor: if a file of the same name differs and
   * is in the safetensors format; its header tells which tensors were added, removed or reshaped.
   * Changes nothing. `Corrupt`: a file that had to be read does not match its record.
   */
  diff(
    before: CheckpointReference | 'latest',
    after: CheckpointReference | 'latest',
    options?: DiffOptions,
  ): Promise<DiffResult>;

  /**
   * The tensors in the files of a version: from the headers of its safetensors files, and from the
   * `.metadata` of `torch.distributed.checkpoint` for its `.distcp` files. Reads the first part of
   * each safetensors file, and `.metadata`, as inert data, under a lease. Changes nothing.
   * `NotFound`: there is no such version. `Corrupt`: bytes that were read do not match their
   * record.
   */
  inspect(options?: InspectOptions): Promise<InspectResult>;

  /**
   * Finds the objects of a version, for programs that read them without Holdfast. Reads its
   * records, and holds a result for each file in memory. Retention may remove them after that, so
   * take a `lease` first or pin the version. `NotFound`: there is no such version.
   */
  locate(options?: LocateOptions): Promise<LocateResult>;

  /**
   * Protects a checkpoint from collection for a limited time; `restore`, `openInputStream` and
   * `openSource` do so by themselves. A lease is never extended: to protect the checkpoint longer,
   * take another lease before this one expires. `NotFound`: there is no such version, or it is no
   * longer live. `Denied`, `ReadOnly`: the store cannot be written, which a lease requires.
   */
  lease(options: LeaseOptions): Promise<Lease>;
  /**
   * Ends a lease before it expires. `false`: there was no such lease; it was released or swept.
   * Safe to repeat, also after `OutcomeUnknown`, which has no token here.
   */
  releaseLease(id: string, options?: WaitOptions): Promise<boolean>;
  /**
   * All leases on a version, or on all versions. Includes those of restores in progress, and
   * expired ones until they are swept. One GET each.
   */
  leases(options?: WaitOptions & { version?: CheckpointReference | undefined }): Promise<Lease[]>;
}
