/** What a writer gives, and what it is told: joining, saving, committing. */

import type { CheckpointId, Consistency, VersionInput, WriterPosition } from './checkpoint-facts.ts';
import type { ProgressEvent, WaitOptions } from './progress.ts';
import type { Staging } from './staging.ts';

/** What `commit` and `save` may record besides the files. With several writers: the union; the lowest writer wins a clash. */
export interface CommitMeta {
  /** Finite numbers; at most `METRIC_COUNT_MAX`, with names of at most `METRIC_NAME_LENGTH_MAX` characters. */
  metrics?: Readonly<Record<string, number>> | undefined;
  /** At most `METADATA_BYTES_MAX` bytes as JSON, names and values together. */
  metadata?: Readonly<Record<string, string>> | undefined;
}

/**
 * Bytes to save: a path, bytes in memory, or a stream of unknown length (an async iterable; Node and web streams are such).
 * Bytes in memory must not change until the save has ended. A file that is written to meanwhile, also
 * through a shared mapping, is refused (`SourceChanged`), or saved as it was at one moment.
 */
export type SaveSource = string | Uint8Array | AsyncIterable<Uint8Array>;

export interface CommitWaitOptions extends WaitOptions {
  /** How long to wait for the other writers, 0 to 7 days; default: setting `commitTimeoutMs`. 0: look once. */
  timeoutMs?: number | undefined;
}

export interface JoinOptions {
  /** Default: the manager's. */
  writer?: WriterPosition | undefined;
  signal?: AbortSignal | undefined;
  /** Told of what is `voided`, and of nothing else. */
  onProgress?: ((event: ProgressEvent) => void) | undefined;
}

export interface JoinResult {
  readonly epoch: number;
  readonly lineage: number;
  /** It began a new epoch, and so fenced the attempt before. */
  readonly tookOver: boolean;
}

/** Files that look as if nobody had written them since the last checkpoint: the newest live one that is there when the save begins. */
export interface StaleOptions {
  /** `warn`: the checkpoint is committed and marked as suspect. `fail`: `Stale`, and nothing is committed. `off`: nobody looks. Default `warn`. */
  onStale?: 'warn' | 'fail' | 'off' | undefined;
  /**
   * Globs of the files that training changes; one that begins with `!` excludes. Such a file is suspect if it is byte for byte that of the
   * last checkpoint. Without globs: all files together, if not one differs. And whatever the globs: all files together, if each has
   * more than doubled or halved its size.
   */
  shouldChange?: readonly string[] | undefined;
}

export interface ConsistencyOptions {
  /** Recorded for this writer, with the version of its state and the time. Default: nothing is. */
  consistency?: Consistency | undefined;
  /**
   * Of this writer's state when its bytes are taken; a function is called just before the first byte is read, and after `pause`. With `paused`
   * it has to be the checkpoint's: `InvalidArgument` otherwise, and nothing is delivered. Default: the checkpoint's.
   */
  stateVersion?: VersionInput | (() => VersionInput) | undefined;
  /**
   * With `paused`, and only then: resolves once nothing changes any more, to what lets it go on. That is called once, when the last byte was
   * read (with `staging`: copied) or the save has failed, and also if `pause` resolves too late. With several writers both meet the others, as at a
   * barrier: else one writer goes on while another still reads.
   */
  pause?: ((signal: AbortSignal) => Promise<() => unknown>) | undefined;
  /** From the call of `pause` on, until what it resolved to is called: longer is `TimedOut`, and nothing is delivered. 1 ms to 7 days, default one minute. */
  pauseTimeoutMs?: number | undefined;
}

export interface SaveOptions extends CommitWaitOptions, CommitMeta, StaleOptions, ConsistencyOptions {
  /** Default: one above the highest so far, 0 for the first; only a lone writer may leave it out. */
  version?: VersionInput | undefined;
  /** Save every file below this directory, one at least, and its empty directories. Exactly one of `dir`, `files` and `buffers`. */
  dir?: string | undefined;
  /** Of `dir`: globs of what is left out, a directory with all below, such as `*.tmp`. They know what those of `only` of a restore do. */
  exclude?: readonly string[] | undefined;
  /** Of `dir`: what becomes of symbolic links in it; see `ScanOptions`. Default: `refuse`. */
  links?: 'refuse' | 'skip' | 'follow' | undefined;
  /** Save these: logical name to source. */
  files?: Readonly<Record<string, SaveSource>> | undefined;
  /** Save these: logical name to bytes. */
  buffers?: Readonly<Record<string, Uint8Array>> | undefined;
  /** Default: the manager's. */
  writer?: WriterPosition | undefined;
  /** Deliver this writer's files and leave the commit to whoever comes last. */
  noWait?: boolean | undefined;
  /** Copy everything there before anything else is done. From the event `staged` on the sources may change. */
  staging?: Staging | undefined;
  /**
   * `auto`: a file like one of the newest checkpoints, whatever its name there, is not sent again; the new checkpoint refers to the object
   * that is there. It counts as like if size, CRC32C and BLAKE3 are. A stream cannot be compared beforehand and is always sent. Default: the
   * manager's.
   */
  dedupe?: 'auto' | 'off' | undefined;
}

export interface SaveResult {
  readonly id: CheckpointId;
  readonly version: bigint;
  /** False only with `noWait`, when another writer was still missing. */
  readonly isCommitted: boolean;
  /** This version had been committed before with the very same content; nothing was sent. */
  readonly wasCommittedBefore: boolean;
  /**
   * It had been committed before, and this call gave other metrics or metadata than this writer's then: they were recorded, as by
   * `annotate`.
   */
  readonly isAnnotated: boolean;
  /** Of this writer. */
  readonly sizeBytes: number;
  /** Of `sizeBytes`: unchanged files that were not sent, for they lie in the store with earlier checkpoints. */
  readonly referencedBytes: number;
  readonly fileCount: number;
  /** In words, what makes this writer's files look stale; empty: nothing does. */
  readonly suspicions: readonly string[];
  /** Writers that had not delivered (`noWait`). */
  readonly missingWriters: readonly number[];
}
