/**
 * What a trainer calls. A manager looks after one *run*: everything under one URI.
 *
 * - A checkpoint exists if and only if it is committed; before, no reader sees any of it, and after, all of it.
 * - When `save` or `commit` resolves, the checkpoint is durable: it survives the loss of every process.
 * - A reported outcome is true. Where it cannot be known the error is `OutcomeUnknown`, whose token `recover` takes:
 *   also where a signal, a deadline or `close` ends a call whose deciding request is on its way. `Aborted` means that the
 *   decision it was about was not sent. A signal that fires after the answer changes nothing.
 */

import type { ProcessName } from './components.ts';
import type { RandomSource, Replace, RestoreTarget } from './files.ts';
import type { HistoryCalls } from './history.ts';
import type { CallOptions } from './object-store.ts';
import type { RetentionCalls } from './retention.ts';
import type { Staging } from './staging.ts';
import type { Throttle } from './throttle.ts';
import type { UpkeepCalls } from './upkeep.ts';

/** The whole name of a checkpoint. Version numbers repeat after a rollback, ids do not. */
export interface CheckpointId {
  readonly lineage: number;
  readonly epoch: number;
  readonly version: bigint;
}

/** A version as callers may give it: 0 to 2^63 - 1. A `number` must be a safe integer, so nothing is ever rounded. */
export type VersionInput = bigint | number;

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
}

export interface CheckpointFile {
  readonly name: string;
  readonly sizeBytes: number;
  readonly crc32c: number;
  readonly writer: number;
  /** Key of the object in the store, relative to the run: it can be copied away with any tool. */
  readonly key: string;
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
  readonly metadata: Readonly<Record<string, string>>;
  readonly manifestKey: string;
}

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

export interface WaitOptions {
  signal?: AbortSignal | undefined;
  onProgress?: ((event: ProgressEvent) => void) | undefined;
}

export interface CommitWaitOptions extends WaitOptions {
  /** How long to wait for the other writers; default: setting `commitTimeoutMs`. 0: look once. */
  timeoutMs?: number | undefined;
}

export interface ListCheckpointsOptions extends CallOptions {
  /** Default: all. */
  readonly limit?: number | undefined;
}

export interface JoinOptions {
  /** Default: the manager's. */
  writer?: WriterPosition | undefined;
  signal?: AbortSignal | undefined;
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

/**
 * How the bytes of a checkpoint fit together, where several writers take theirs. `paused`: nobody changed anything meanwhile, so all are of one
 * moment. `polluted`: training went on, and each writer's bytes are of another moment, which is written down.
 */
export type Consistency = 'paused' | 'polluted';

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
  /** From the call of `pause` on, until what it resolved to is called: longer is `TimedOut`, and nothing is delivered. Default one minute. */
  pauseTimeoutMs?: number | undefined;
}

export interface SaveOptions extends CommitWaitOptions, CommitMeta, StaleOptions, ConsistencyOptions {
  /** Default: one above the highest so far, 0 for the first; only a lone writer may leave it out. */
  version?: VersionInput | undefined;
  /** Save every file below this directory. Exactly one of `dir`, `files` and `buffers`. */
  dir?: string | undefined;
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

export type RestoreDestination =
  /** A directory: appears whole or not at all. */
  | string
  /** Bytes in memory, filled in place; each must have exactly the file's size. Names that are not there are not restored. */
  | Readonly<Record<string, Uint8Array>>
  /** A target of one's own. */
  | RestoreTarget;

export interface RestoreOptions extends WaitOptions {
  /** Default: the latest. */
  version?: VersionInput | 'latest' | undefined;
  to: RestoreDestination;
  /** Only files that match one of these globs (`*`, `**`, `?`, `[abc]`, `{a,b}`). No match at all is `NotFound`. */
  only?: readonly string[] | undefined;
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
  version?: VersionInput | 'latest' | undefined;
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

/** Which checkpoints of the source: at most one of the three; without any, all that are live. */
export interface MirrorSelection {
  /** Only these. One that is not there is `NotFound`. */
  versions?: readonly VersionInput[] | undefined;
  /** This version and higher ones. */
  since?: VersionInput | undefined;
  /** Only what a restart of the source would load. */
  latest?: boolean | undefined;
}

export interface MirrorOptions extends WaitOptions, MirrorSelection {
  /** `skip`: pass over a checkpoint that is damaged in the source, and say so. Default `fail`: end with its error. */
  onCorrupt?: 'fail' | 'skip' | undefined;
  /**
   * Go on when all is copied: look for new checkpoints after so many milliseconds, again and again, until the signal fires, which then
   * is no error. A store that cannot be reached for a while does not end it either.
   */
  watchIntervalMs?: number | undefined;
}

export interface MirrorResult {
  /** In the order in which they were committed here. */
  readonly copied: readonly MirroredCheckpoint[];
  /** Versions that were here already, with the same content. */
  readonly present: readonly bigint[];
  /** Versions that were not copied, and why: removed from the source meanwhile, too old to be committed here, damaged. */
  readonly skipped: readonly { readonly version: bigint; readonly reason: string }[];
}

export interface MirroredCheckpoint {
  /** In the destination: lineage and epoch are its own. */
  readonly id: CheckpointId;
  readonly version: bigint;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** Of `sizeBytes`: left by a mirror that was interrupted, and not sent again. */
  readonly reusedBytes: number;
}

export type RecoveredOutcome =
  /** It took effect: a commit is durable and holds the caller's files. A record may have gone since, as a lease does. */
  | 'committed'
  /** It did not, and never will. */
  | 'not-committed'
  /** It has not, but may yet: of a version `commit` settles it, of anything else the same call again. */
  | 'pending'
  /** It cannot be known any more. */
  | 'unknown';

export interface RecoverResult {
  readonly outcome: RecoveredOutcome;
  /** What the token was about: the commit of a version, another decision on the run, or a record, such as a lease. */
  readonly of: 'commit' | 'decision' | 'record';
  /** Of a commit; `null` of anything else. */
  readonly id: CheckpointId | null;
  /** Of a commit that is pending: whether the caller's receipt is there, so that others can finish it. `null`: there is no question of it. */
  readonly isDelivered: boolean | null;
  /** In words, why. */
  readonly detail: string;
}

export interface LogEntry {
  readonly seq: number;
  readonly kind: string;
  /** What it was about; several where they were retired, taken back or removed together. */
  readonly checkpoints: readonly CheckpointId[];
  readonly lineage: number;
  readonly epoch: number;
  readonly attempt: string;
  readonly reason: string;
  readonly process: ProcessName;
  /** By the writer's clock; informational. */
  readonly atMs: number;
}

export type ProgressEvent =
  /** With `staging`: all is copied, so many bytes. Comes first of all. */
  | { readonly type: 'staged'; readonly sizeBytes: number }
  /** Joined the run: from now on the process is fenced by any newer attempt. `tookOver`: it fenced an older one. */
  | {
      readonly type: 'joined';
      readonly version: bigint;
      readonly writer: WriterPosition;
      readonly epoch: number;
      readonly tookOver: boolean;
    }
  /**
   * Known once the files are planned. `sizeBytes` counts streams of unknown length as 0. `files` is empty where a checkpoint has so many
   * that their names are read only as the transfer goes on.
   */
  | {
      readonly type: 'planned';
      readonly version: bigint;
      readonly fileCount: number;
      readonly sizeBytes: number;
      readonly files: readonly { readonly name: string; readonly sizeBytes: number }[];
    }
  /** `doneBytes` and `totalBytes` are of the file `name`; bytes count once they are in the store or verified in the destination. */
  | { readonly type: 'bytes'; readonly name: string; readonly doneBytes: number; readonly totalBytes: number }
  | { readonly type: 'retry'; readonly detail: string }
  /** Of `name`, so many bytes were left by an interrupted save of this version: they were compared with the source, and not sent again. */
  | {
      readonly type: 'resumed';
      readonly version: bigint;
      readonly name: string;
      readonly keptBytes: number;
    }
  /** Files look as if nobody had written them since the last checkpoint; once for each suspicion. */
  | { readonly type: 'suspect'; readonly version: bigint; readonly reason: string }
  /** Gone to the store: this writer's share is durable. */
  | { readonly type: 'delivered'; readonly version: bigint; readonly missingWriters: readonly number[] }
  | {
      readonly type: 'waiting';
      readonly version: bigint;
      readonly missingWriters: readonly number[];
      readonly waitedMs: number;
    }
  | { readonly type: 'committed'; readonly id: CheckpointId }
  /** This version is passed over: in a restore because it is damaged, in a mirror for the reason it gives. */
  | { readonly type: 'skipped'; readonly version: bigint; readonly reason: string }
  /** Restore: an old directory stays, at `path`: it holds files that may not go, or it cannot be removed. */
  | { readonly type: 'left'; readonly path: string; readonly reason: string }
  /** Mirror: nothing is left to copy for now; it looks again after so long. */
  | { readonly type: 'idle'; readonly waitMs: number };

/** A checkpoint that is being written, or one that is committed. */
export interface Checkpoint extends AsyncDisposable {
  readonly version: bigint;
  /** `null` until it is committed. */
  readonly summary: CheckpointSummary | null;

  /**
   * A stream into the file `name`. Nothing is visible before `commit`. Opened twice: the last one that is closed counts.
   * Only on a checkpoint from `create`, and not while it is being committed. A chunk may be reused once its write has resolved.
   *
   * `abort` ends within a second, whatever the store does. A stream that failed or was aborted keeps `commit` from succeeding until the
   * file is written again by a stream that was opened later. One that is dropped fails too, once it is garbage: abort it instead.
   */
  openOutputStream(name: string): WritableStream<Uint8Array>;

  /**
   * A stream of the file's bytes in order, each verified before it is handed out. Only on a committed checkpoint. `NotFound`: no such file.
   *
   * A read lease is held from the first chunk to the end: the last chunk, an error, `cancel`, or the end of the checkpoint or the manager.
   * `cancel`, and `return` of an iterator, end within a second, whatever the store does; a lease that cannot be deleted then expires.
   * After four lives of the lease (setting `leaseTtlMs`) without a read it is renewed no longer. The next read takes a new one, or is
   * `NotFound` if the checkpoint was removed meanwhile. A stream that is dropped gives its lease back once it is garbage, and keeps no
   * process alive.
   */
  openInputStream(name: string): ReadableStream<Uint8Array>;

  /**
   * A file's bytes at any position, for tools that want parts of a large one. What `readInto` gives is not to be trusted before
   * `assertUnchanged` has resolved, which proves all that was read until then: it reads what is missing of each part of which something was
   * read (the manifest has a checksum for each), and where reads overlapped, those and what adjoins them once more; all else is read only
   * once. `Corrupt` names file, range, expected and found. One request for each gap; reads that adjoin are kept in mind as one.
   *
   * Any number of reads at once, within the memory of the manager. A read lease is held until `close`, or until `signal` or the manager's
   * end stop everything with `Aborted`. Without reads, and when it is dropped, it is as for `openInputStream`. `close` ends within a second,
   * whatever the store does. Only on a committed checkpoint. `NotFound`: no such file. A range outside it is `InvalidArgument`.
   */
  openSource(name: string, options?: WaitOptions): Promise<RandomSource>;

  /** Names, sizes and checksums of all files. Only on a committed checkpoint. One read; of a very large one more, and memory for all names. */
  details(options?: WaitOptions): Promise<CheckpointDetails>;

  /**
   * Delivers this writer's files, waits for the others', and commits. Output streams are to be closed before. A stream that is still open
   * is an `InvalidArgument`, and so is one that failed and whose file was not written again; the message names the files. Calling it again
   * after it has succeeded does nothing.
   */
  commit(meta?: CommitMeta & CommitWaitOptions & StaleOptions): Promise<void>;

  /** Gives the checkpoint up: open streams fail and it can no longer be committed. After `commit` it does nothing. Safe to repeat. */
  discard(): Promise<void>;
}

export interface CheckpointManager extends AsyncDisposable, HistoryCalls, RetentionCalls, UpkeepCalls {
  readonly uri: string;
  /**
   * How fast payload is sent, by saves and by copies from other runs: to be changed or paused at any time. It is what the manager was opened
   * with, or its own, with the limit of setting `saveBytesPerSecondMax`. Reading, records and copies within a store are not limited.
   */
  readonly throttle: Throttle;

  /**
   * Becomes a writer of the run; `save` and `create` do it by themselves. A job that restores before it trains calls it first: from then on
   * no older attempt can commit, so what `latest` then says stays the latest until this attempt saves. Done once; repeating is free.
   * `Fenced`: this attempt has passed. `WorldSizeMismatch`: its writers disagree.
   */
  join(options?: JoinOptions): Promise<JoinResult>;
  /** Begins a checkpoint. Default version: one above the highest so far, 0 for the first (a lone writer only). */
  create(version?: VersionInput, options?: CallOptions): Promise<Checkpoint>;
  /** A committed one; `null` if there is none of this version in the present lineage, or only a quarantined one. */
  get(version: VersionInput, options?: CallOptions): Promise<Checkpoint | null>;
  /** What a restart should load; `null` when nothing was ever committed. At most two requests, whatever the size of the run; three while its catalog has but two entries. */
  latest(options?: CallOptions): Promise<Checkpoint | null>;
  /**
   * All in the catalog (retiring and quarantined ones too), or the newest `limit` of them, newest first. Requests as in `latest`; a run of
   * more than about 1,000 checkpoints has a page for every 512 older ones, and each page that is needed takes one more.
   * `InvalidArgument`: the limit is no whole number from 1 on.
   */
  list(options?: ListCheckpointsOptions): Promise<CheckpointSummary[]>;

  /**
   * Uploads, delivers, waits for the other writers and commits. Resolves only when the checkpoint is committed with these very files
   * (or, with `noWait`, delivered). Errors: `Fenced`, `Incomplete`, `Conflict`, `OutcomeUnknown`, `SourceChanged`, `Stale`
   * (`onStale: 'fail'`), `BaseGone` (a checkpoint to which it refers was removed meanwhile), and the store's.
   */
  save(options: SaveOptions): Promise<SaveResult>;
  /** Finishes a version whose writers have all delivered; needs no writer of its own. Default: the highest that was begun. */
  commit(options?: CommitWaitOptions & { version?: VersionInput | undefined }): Promise<CheckpointSummary>;
  /** Writes a checkpoint's files to `to`; every byte is compared with its checksum first. */
  restore(options: RestoreOptions): Promise<RestoreResult>;
  /**
   * Copies committed checkpoints of another run to this one, one after the other, lowest version first: payloads, receipts, manifest, and
   * then the commit, into this run's own catalog. Until then nothing of a version is visible here.
   *
   * A copy has the version, names, sizes, checksums, number of writers, metrics, metadata and commit time of the original, and which writer
   * wrote which file; lineage, epoch and attempt are this run's, and pins and other states stay behind. Every byte is compared with the
   * source's records before it is sent.
   *
   * It is a writer of this run, and fences others once there is something to copy: two mirrors at once are safe, and one of them ends with
   * `Fenced`. What is here already with the same content is not copied again, nor is what an interrupted mirror of the same run has
   * finished sending.
   *
   * Errors: `Conflict` (a version is here with other content, or the source's latest is below what is committed here), `Corrupt` (the
   * source is damaged, and the message says where), `NotFound` (there is no run to copy from; not with `watchIntervalMs`),
   * `InvalidArgument` (both are one run), `Fenced`, `OutcomeUnknown`, and the stores'.
   */
  mirrorFrom(source: CheckpointManager, options?: MirrorOptions): Promise<MirrorResult>;
  /**
   * Compares what the store holds with the records. Changes no object; the catalog may learn of the outcome (`record`, `quarantine`), and a
   * store that does not let it is no error.
   */
  verify(options?: VerifyOptions): Promise<VerifyResult>;
  /** What became of a call that ended in `OutcomeUnknown`. Changes nothing. */
  recover(token: string, options?: WaitOptions): Promise<RecoverResult>;
  /** Decisions on this run, newest first: at most `limit` (default 50), as far back as the catalog keeps entries (64 at least). */
  log(options?: { limit?: number | undefined; signal?: AbortSignal | undefined }): Promise<LogEntry[]>;

  /**
   * Stops what is under way, streams and sources too, and releases their leases, memory and the store. First it gives retention that a
   * commit has begun up to 10 s. All else takes less than a second, whatever the store does; what the store has not ended by then is left
   * to itself. Safe to call again.
   */
  close(): Promise<void>;
}
