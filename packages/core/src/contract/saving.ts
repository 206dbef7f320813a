/** Options and results of joining, saving and committing. */

import type { CheckpointId, Consistency, VersionInput, WriterPosition } from './checkpoint-facts.ts';
import type { ProgressEvent, WaitOptions } from './progress.ts';
import type { Staging } from './staging.ts';

/**
 * What `commit` and `save` may record besides the files. With several writers: the union. If names
 * clash, the lowest writer wins.
 */
export interface CommitMeta {
  /**
   * Finite numbers; at most `METRIC_COUNT_MAX`, with names of at most `METRIC_NAME_LENGTH_MAX`
   * characters.
   */
  metrics?: Readonly<Record<string, number>> | undefined;
  /** At most `METADATA_BYTES_MAX` bytes as JSON, names and values together. */
  metadata?: Readonly<Record<string, string>> | undefined;
}

/**
 * Bytes to save: a path, bytes in memory, or a stream of unknown length (an async iterable, such as
 * a Node or web stream), for one file only. Bytes in memory must not change until the save has
 * ended. If a file is written to meanwhile, also through a shared mapping, the save rejects it
 * (`SourceChanged`), or saves it as it was at one moment.
 */
export type SaveSource = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface CommitWaitOptions extends WaitOptions {
  /**
   * How long to wait for the other writers, 0 to 7 days; default: setting `commitTimeoutMs`. 0:
   * check once.
   */
  timeoutMs?: number | undefined;
}

export interface JoinOptions {
  /** Default: the manager's. */
  writer?: WriterPosition | undefined;
  signal?: AbortSignal | undefined;
  /** Receives only `voided` events. */
  onProgress?: ((event: ProgressEvent) => void) | undefined;
}

export interface JoinResult {
  readonly epoch: number;
  readonly lineage: number;
  /** It began a new epoch, and so fenced the previous attempt. */
  readonly tookOver: boolean;
  /** Id of the run. A run that is begun again at the same place has another one. */
  readonly runId: string;
}

/**
 * Detects files that nothing seems to have written since the last checkpoint. That is the newest
 * live checkpoint when the save begins.
 */
export interface StaleOptions {
  /**
   * `warn`: the checkpoint is committed and marked as suspect. `fail`: `Stale`, and nothing is
   * committed. `off`: no check. Default `warn`.
   */
  onStale?: 'warn' | 'fail' | 'off' | undefined;
  /**
   * Globs of the files that training changes; one that begins with `!` excludes. Such a file is
   * suspect if it is byte for byte the file of the last checkpoint. Without globs, unchanged files
   * are suspect only if all files are unchanged. With or without globs, the files are suspect if
   * every file that the last checkpoint has too has more than doubled or halved its size.
   */
  shouldChange?: readonly string[] | undefined;
}

export interface ConsistencyOptions {
  /**
   * Recorded for this writer, with the version of its state and the time. Default: nothing is
   * recorded.
   */
  consistency?: Consistency | undefined;
  /**
   * Version of this writer's state when its bytes are read. A function is called just before the
   * first byte is read, and after `pause`. With `paused` it must equal the checkpoint's version:
   * otherwise `InvalidArgument`, and nothing is delivered. Default: the checkpoint's version.
   */
  stateVersion?: VersionInput | (() => VersionInput) | undefined;
  /**
   * Required with `paused`, and only accepted then. Resolves once the state no longer changes, to a
   * function that ends the pause. That function is called once: when the last byte was read (with
   * `staging`: copied), when the save has failed, and also if `pause` resolves too late. With
   * several writers, both functions must wait for the other writers, as at a barrier: otherwise one
   * writer continues training while another still reads.
   */
  pause?: ((signal: AbortSignal) => Promise<() => unknown>) | undefined;
  /**
   * Limit from the call of `pause` until the function it resolved to is called. A longer pause is
   * `TimedOut`, and nothing is delivered. 1 ms to 7 days, default one minute.
   */
  pauseTimeoutMs?: number | undefined;
}

export interface SaveOptions extends CommitWaitOptions, CommitMeta, StaleOptions, ConsistencyOptions {
  /** Default: one above the highest so far, 0 for the first. Only a lone writer may omit it. */
  version?: VersionInput | undefined;
  /**
   * Saves every file below this directory (at least one), and its empty directories, as they were
   * at one moment. `SourceChanged` if a file is written to, replaced or removed before all have
   * been read, or if the directory is replaced. A file that is added meanwhile is not saved.
   * Exactly one of `dir`, `files` and `buffers`.
   */
  dir?: string | undefined;
  /**
   * For `dir`: globs of what to exclude, such as `*.tmp`; a directory with everything below it.
   * Same syntax as `only` of a restore.
   */
  exclude?: readonly string[] | undefined;
  /** For `dir`: how to treat symbolic links in it; see `ScanOptions`. Default: `refuse`. */
  links?: 'refuse' | 'skip' | 'follow' | undefined;
  /** Saves these: logical name to source. */
  files?: Readonly<Record<string, SaveSource>> | undefined;
  /** Saves these: logical name to bytes. */
  buffers?: Readonly<Record<string, Uint8Array>> | undefined;
  /** Default: the manager's. */
  writer?: WriterPosition | undefined;
  /** Deliver this writer's files and leave the commit to the writer that delivers last. */
  noWait?: boolean | undefined;
  /**
   * Copy all sources there before anything else is done. After the event `staged` the sources may
   * change.
   */
  staging?: Staging | undefined;
  /**
   * `auto`: a file equal to one of the newest checkpoints, whatever its name there, is not sent
   * again; the new checkpoint refers to the stored object. Files are equal if size, CRC32C and
   * BLAKE3 are. BLAKE3 is computed and recorded only for a file whose size and CRC32C equal those
   * of such a file. The first repeat is sent too, later ones are not. A stream cannot
   * be compared beforehand and is always sent. Default: the manager's.
   */
  dedupe?: 'auto' | 'off' | undefined;
}

export interface SaveResult {
  readonly id: CheckpointId;
  readonly version: bigint;
  /** False only with `noWait`, if another writer had not delivered yet. */
  readonly isCommitted: boolean;
  /** This version was already committed with exactly the same content; nothing was sent. */
  readonly wasCommittedBefore: boolean;
  /**
   * The version was already committed, and this call gave other metrics or metadata than this
   * writer had given then. They were recorded, as by `annotate`.
   */
  readonly isAnnotated: boolean;
  /** It was committed before, and is retired since: it is removed unless it is undeleted. */
  readonly isRetiring?: true;
  /** Size of this writer's files. */
  readonly sizeBytes: number;
  /**
   * The part of `sizeBytes` that was not sent: unchanged files, stored with earlier checkpoints.
   */
  readonly referencedBytes: number;
  readonly fileCount: number;
  /** In words, why this writer's files look stale; empty if they do not. */
  readonly suspicions: readonly string[];
  /** Writers that had not delivered (`noWait`). */
  readonly missingWriters: readonly number[];
}
