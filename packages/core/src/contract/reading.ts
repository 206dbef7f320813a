/** What a reader gives, and what it is told: restoring and verifying. */

import type { CheckpointId, CheckpointReference } from './checkpoint-facts.ts';
import type { Replace, RestoreTarget } from './files.ts';
import type { WaitOptions } from './progress.ts';

export type RestoreDestination =
  /** A directory: appears whole or not at all. */
  | string
  /** Bytes in memory, filled in place, one at least; each must have exactly the file's size. Files that are not named are not restored. */
  | Readonly<Record<string, Uint8Array>>
  /** A target of one's own. */
  | RestoreTarget;

export interface RestoreOptions extends WaitOptions {
  /** Default: the latest. */
  version?: CheckpointReference | 'latest' | undefined;
  to: RestoreDestination;
  /**
   * Only files and empty directories that match one of these globs (`*`, `**`, `?`, `[abc]`, `{a,b}`);
   * an empty list: all. No match at all is `NotFound`.
   */
  only?: readonly string[] | undefined;
  /**
   * True: files, and empty directories, get the times of modification that they had when they were saved,
   * to the millisecond. One without such a time (it was saved from memory or a stream) gets none. A
   * directory with files in it keeps the time of the restore. A target of your own is told the times; buffers have none. Default false.
   */
  mtimes?: boolean | undefined;
  /** What of a directory that is not empty may be lost. Default: nothing. */
  replace?: Replace | undefined;
  /** `fallback`: when the latest is damaged, take the newest that verifies, and say so. Default `fail`. */
  onCorrupt?: 'fail' | 'fallback' | undefined;
}

export interface RestoreResult {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** Newer ones that were damaged and passed over, newest first (`onCorrupt: 'fallback'`). */
  readonly skipped: readonly { readonly version: bigint; readonly reason: string }[];
}

export interface VerifyOptions extends WaitOptions {
  version?: CheckpointReference | 'latest' | undefined;
  /**
   * 0: the records, and that every object is there with its size and, where the store tells it, its checksum; no payload is read.
   * 1: also the first part of each file, the last, and about one in 64 of the others, by chance. 2: every byte. Default 2.
   */
  level?: 0 | 1 | 2 | undefined;
  /** When level 2 finds nothing wrong, the catalog remembers it, and retention keeps the last such checkpoint. Default true. */
  record?: boolean | undefined;
  /** When something is wrong: take the checkpoint out of use for good. The newest live one is then the latest. Default false. */
  quarantine?: boolean | undefined;
}

export interface VerifyResult {
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly level: 0 | 1 | 2;
  readonly fileCount: number;
  /** Bytes read and compared. */
  readonly bytesRead: number;
  /** Files of which the store told its own checksum, which was compared (levels 0 and 1). */
  readonly storedChecksumCount: number;
  /** Empty: all is well. `name` is a file's, or the key of a record. */
  readonly problems: readonly { readonly name: string; readonly message: string }[];
  /** What the catalog says of it now because of this call, or of one before that came to the same. */
  readonly recorded: 'verified' | 'quarantined' | 'none';
  /** Why nothing was recorded that should have been, such as a store that cannot be written; empty otherwise. */
  readonly note: string;
  /** The latest version now; `null`: there is none. */
  readonly latest: bigint | null;
}
