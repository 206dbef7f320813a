/**
 * What a trainer calls. A manager looks after one *run*: everything under one URI.
 *
 * - A checkpoint exists if and only if it is committed; before, no reader sees any of it, and after, all of it.
 * - When `save` or `commit` resolves, the checkpoint is durable: it survives the loss of every process.
 * - A reported outcome is true. Where it cannot be known the error is `OutcomeUnknown`, whose token `recover` takes:
 *   also where a signal, a deadline or `close` ends a call whose deciding request is on its way. `Aborted` means that the
 *   decision it was about was not sent. A signal that fires after the answer changes nothing.
 *
 * What a call is given is checked before anything is done: a value that is not accepted is `InvalidArgument`, and the message says what is.
 * `undefined` leaves an option out; `null` does only where its type says so.
 *
 * Versions are bigints. `JSON.stringify` of a result, of a progress event or of an error writes them as decimal strings.
 *
 * What its calls take and tell stands in a file for each subject; all of it is exported from here too.
 */

import type { AnnotationCalls } from './annotating.ts';
import type {
  CheckpointDetails,
  CheckpointId,
  CheckpointReference,
  CheckpointSummary,
  VersionInput,
} from './checkpoint-facts.ts';
import type { ProcessName } from './components.ts';
import type { RandomSource } from './files.ts';
import type { HistoryCalls } from './history.ts';
import type { MirrorOptions, MirrorResult } from './mirroring.ts';
import type { CallOptions } from './object-store.ts';
import type { WaitOptions } from './progress.ts';
import type { RestoreOptions, RestoreResult, VerifyOptions, VerifyResult } from './reading.ts';
import type { RetentionCalls } from './retention.ts';
import type {
  CommitMeta,
  CommitWaitOptions,
  JoinOptions,
  JoinResult,
  SaveOptions,
  SaveResult,
  StaleOptions,
} from './saving.ts';
import type { Throttle } from './throttle.ts';
import type { UpkeepCalls } from './upkeep.ts';

export type * from './annotating.ts';
export type * from './checkpoint-facts.ts';
export type * from './mirroring.ts';
export type * from './progress.ts';
export type * from './reading.ts';
export type * from './saving.ts';

export interface ListCheckpointsOptions extends CallOptions {
  /** Default: all. */
  readonly limit?: number | undefined;
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

export interface LogOptions extends CallOptions {
  /** At most so many, 1 to 1,000; default 50. One read for each. */
  limit?: number | undefined;
  /**
   * Only the commit of this checkpoint; none where the catalog no longer keeps it, or where it came by another decision, such as a rebuild.
   * Cost: at most twice as many reads as the number of decisions since then has binary digits.
   */
  commitOf?: CheckpointId | undefined;
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

export interface CheckpointManager
  extends AsyncDisposable,
    AnnotationCalls,
    HistoryCalls,
    RetentionCalls,
    UpkeepCalls {
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
  /**
   * A committed one; `null` if there is none, or only a quarantined one. A version alone is looked for on the way to the latest; one that
   * a rollback left behind is got by lineage and version.
   */
  get(checkpoint: CheckpointReference, options?: CallOptions): Promise<Checkpoint | null>;
  /**
   * What a restart should load; `null` when nothing was ever committed, or when all that is there is quarantined, retired or left
   * behind by a rollback. `list` tells these apart: it is empty only when nothing was ever committed. At most two requests, whatever the size of the run; three while its
   * catalog has two or three entries, and where there is none. `StoreRegressed`: the catalog is lost.
   */
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
   * source's records before it is sent. What the original is annotated with after its commit follows, also of versions that are here already.
   *
   * It is a writer of this run, and fences others once there is something to copy. Two mirrors may run at once: the one that joined last
   * completes the copy, and the other ends with `Fenced`, unless nothing is left for it to copy. What is here already with the same content is not copied again, nor is what an interrupted mirror of the same run has
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
  /**
   * Names of the first ten runs below this place, relative to it: for a URI that leads to what holds runs. Cost: one list request for each, and
   * for each 1,000 keys that belong to no run; at most 20.
   */
  runsBelow(options?: CallOptions): Promise<readonly string[]>;
  /** Decisions on this run, newest first, as far back as the catalog keeps entries (64 at least). */
  log(options?: LogOptions): Promise<LogEntry[]>;

  /**
   * Stops what is under way, streams and sources too, and releases their leases, memory and the store. First it gives retention that a
   * commit has begun up to 10 s. All else takes less than a second, whatever the store does; what the store has not ended by then is left
   * to itself. Safe to call again.
   */
  close(): Promise<void>;
}
