/** Options and results of restoring and verifying. */

import type { CheckpointId, CheckpointReference } from './checkpoint-facts.ts';
import type { Replace, RestoreTarget } from './files.ts';
import type { WaitOptions } from './progress.ts';

export type RestoreDestination =
  /** A directory: appears whole or not at all. */
  | string
  /**
   * Bytes in memory, filled in place, at least one; each must have exactly the file's size, and no
   * two may share memory (`InvalidArgument`). Files without a buffer are not restored.
   */
  | Readonly<Record<string, Uint8Array>>
  /** A target that the caller implements. */
  | RestoreTarget;

export interface RestoreOptions extends WaitOptions {
  /** Default: the latest. */
  version?: CheckpointReference | 'latest' | undefined;
  to: RestoreDestination;
  /**
   * Only files and empty directories that match one of these globs (`*`, `**`, `?`, `[abc]`,
   * `{a,b}`), at least one. `NotFound`: one of them matches nothing, as a misspelt name does.
   */
  only?: readonly string[] | undefined;
  /**
   * True: files, and empty directories, get the modification times that they had when they were
   * saved, to the millisecond. A file without a recorded time (it was saved from memory or a
   * stream) gets none. A directory with files in it keeps the time of the restore. A custom target
   * receives the times; buffers have none. Default false.
   */
  mtimes?: boolean | undefined;
  /** Which contents of a non-empty directory may be lost. Default: nothing. */
  replace?: Replace | undefined;
  /**
   * `fallback`: if the latest is damaged, restore the newest checkpoint that verifies, and report
   * it. Default `fail`.
   */
  onCorrupt?: 'fail' | 'fallback' | undefined;
}

export interface RestoreResult {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** Newer checkpoints that were damaged and skipped, newest first (`onCorrupt: 'fallback'`). */
  readonly skipped: readonly { readonly version: bigint; readonly reason: string }[];
}

export interface VerifyOptions extends WaitOptions {
  version?: CheckpointReference | 'latest' | undefined;
  /**
   * 0: the records, and that every object exists with its size and, if the store returns it, its
   * checksum; no payload is read. 1: also the first part of each file, the last, and about one in
   * 64 of the others, chosen at random. 2: every byte. Default 2.
   */
  level?: 0 | 1 | 2 | undefined;
  /**
   * If level 2 finds no problem, record that in the catalog; retention keeps the last verified
   * checkpoint. Default true.
   */
  record?: boolean | undefined;
  /**
   * If there is a problem, quarantine the checkpoint for good. The newest live one is then the
   * latest. Default false.
   */
  quarantine?: boolean | undefined;
}

export interface VerifyResult {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly level: 0 | 1 | 2;
  readonly fileCount: number;
  /** Bytes read and compared. */
  readonly bytesRead: number;
  /** Files whose checksum the store returned, which was compared (levels 0 and 1). */
  readonly storedChecksumCount: number;
  /** Empty if there is no problem. `name` is a file's, or the key of a record. */
  readonly problems: readonly { readonly name: string; readonly message: string }[];
  /**
   * True: a second check, which comes before a quarantine, found none of the problems again. Then
   * answers of the store are changed in transit, and it is not known whether anything is damaged.
   */
  readonly isDoubtful: boolean;
  /** State in the catalog because of this call, or of an earlier one with the same result. */
  readonly recorded: 'verified' | 'quarantined' | 'none';
  /**
   * Why a result could not be recorded, such as a store that cannot be written; empty otherwise.
   */
  readonly note: string;
  /** The latest version now; `null`: there is no latest. */
  readonly latest: bigint | null;
}
