/**
 * What a trainer calls. A manager handles one *run*: everything under one URI.
 *
 * - A checkpoint exists if and only if it is committed. Before the commit no reader sees any of it;
 *   after the commit readers see all of it.
 * - When `save` or `commit` resolves, the checkpoint is durable: it survives the loss of every
 *   process.
 * - A reported outcome is true. If the outcome cannot be known, the error is `OutcomeUnknown`, and
 *   `recover` takes its token. That includes calls that a signal, a deadline or `close` ends while
 *   the deciding request is in flight. `Aborted` means that the request for the decision was not
 *   sent. A signal that fires after the answer changes nothing.
 *
 * Arguments are checked before anything is done: a value that is not accepted is `InvalidArgument`,
 * and the message says what is accepted. `undefined` leaves an option out; `null` does so only if
 * its type says so.
 *
 * Versions are bigints. `JSON.stringify` of a result, of a progress event or of an error writes
 * them as decimal strings.
 *
 * The types of arguments and results are in one file per subject; all of them are exported from
 * here too.
 */

import type {
  CheckpointDetails,
  CheckpointId,
  CheckpointReference,
  CheckpointSummary,
  VersionInput,
} from './checkpoint-facts.ts';
import type { InputStreamOptions, RandomSource } from './files.ts';
import type { CallOptions } from './object-store.ts';
import type { WaitOptions } from './progress.ts';
import type { RestoreOptions, RestoreResult } from './reading.ts';
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
  /**
   * The call took effect. A commit is durable and holds the caller's files. A record, such as a
   * lease, may have been deleted since.
   */
  | 'committed'
  /** The call did not take effect, and never will. */
  | 'not-committed'
  /**
   * The call has not taken effect, but still may. For a version, `commit` settles it; for anything
   * else, repeat the call.
   */
  | 'pending'
  /** The outcome can no longer be known. */
  | 'unknown';

export interface RecoverResult {
  readonly outcome: RecoveredOutcome;
  /**
   * What the token stands for: the commit of a version, another decision on the run, or a record,
   * such as a lease.
   */
  readonly of: 'commit' | 'decision' | 'record';
  /** The checkpoint of a commit; otherwise `null`. */
  readonly id: CheckpointId | null;
  /**
   * For a pending commit: whether the caller's receipt is stored, so that other writers can finish
   * the commit. `null`: not applicable.
   */
  readonly isDelivered: boolean | null;
  /** The reason, in words. */
  readonly detail: string;
}

/** A checkpoint that is being written, or one that is committed. */
export interface Checkpoint extends AsyncDisposable {
  readonly version: bigint;
  /** `null` until it is committed. */
  readonly summary: CheckpointSummary | null;

  /**
   * A stream into the file `name`. Nothing is visible before `commit`. If a name is opened twice,
   * the stream that is closed last counts. Only on a checkpoint from `create`, and not while it is
   * being committed. A chunk may be reused once its write has resolved.
   *
   * `abort` ends within a second, whatever the store does. After a stream failed or was aborted,
   * `commit` fails until a stream that was opened later writes the file again. A stream that is
   * dropped fails too, once it is garbage collected: call `abort` instead.
   *
   * `InvalidArgument`: the manager has as many open streams as its memory allows (setting
   * `bufferBytes`), those of other checkpoints included.
   */
  openOutputStream(name: string): WritableStream<Uint8Array>;

  /**
   * A stream of the file's bytes in order, each verified before it is handed out. Default: all
   * bytes. For some of them, the parts of the file in which they begin and end are read whole. Only
   * on a committed checkpoint. `NotFound`: no such file. `InvalidArgument`: bytes outside the file.
   *
   * The stream holds a read lease from the first chunk to the end: the last chunk, an error,
   * `cancel`, or the end of the checkpoint or the manager. `cancel`, and `return` of an iterator,
   * end within a second, whatever the store does; a lease that cannot be deleted then expires.
   * After four lifetimes of the lease (setting `leaseTtlMs`) without a read, the lease is no longer
   * renewed. The next read takes a new one, or is `NotFound` if the checkpoint was removed
   * meanwhile. A dropped stream releases its lease once it is garbage collected. It keeps no
   * process alive.
   */
  openInputStream(name: string, options?: InputStreamOptions): ReadableStream<Uint8Array>;

  /**
   * A file's bytes at any position, for tools that need parts of a large file. Do not trust what
   * `readInto` returns before `assertUnchanged` has resolved: that call verifies everything read
   * until then. The manifest has a checksum for each part, so `assertUnchanged` reads the missing
   * bytes of each part of which something was read. If reads overlapped, it reads those ranges
   * and what adjoins them once more. All other bytes are read only once. `Corrupt` names file,
   * range, expected and found. One request for each gap; adjoining reads are remembered as one.
   *
   * Any number of reads may run at once, within the memory of the manager. The source holds a read
   * lease until `close`, or until `signal` or the end of the manager stops everything with
   * `Aborted`. Without reads, and when it is dropped, it behaves as `openInputStream` does. `close`
   * ends within a second, whatever the store does. Only on a committed checkpoint. `NotFound`: no
   * such file. A range outside the file is `InvalidArgument`.
   */
  openSource(name: string, options?: WaitOptions): Promise<RandomSource>;

  /**
   * Takes one read lease for all that is opened from this object afterwards, and reads the manifest
   * once, until the object is disposed or the manager closed. For many reads of one checkpoint, and
   * so that the rules of retention take nothing away between them. It is renewed, and given up, as
   * that of `openInputStream`. Repeating it does nothing. Only on a committed checkpoint.
   * `NotFound`: the checkpoint was retired or removed meanwhile.
   */
  hold(): Promise<void>;

  /**
   * Names, sizes and checksums of all files. Only on a committed checkpoint. One read; for a very
   * large checkpoint one more, and memory for all names.
   */
  details(options?: WaitOptions): Promise<CheckpointDetails>;

  /**
   * Delivers this writer's files, waits for those of the other writers, and commits. Close all
   * output streams before. An open stream is an `InvalidArgument`, and so is a failed one whose
   * file was not written again; the message names the files. Calling it again after it has
   * succeeded does nothing.
   */
  commit(meta?: CommitMeta & CommitWaitOptions & StaleOptions): Promise<void>;

  /**
   * Discards the checkpoint: open streams fail, and it can no longer be committed. After `commit`
   * it does nothing. Safe to repeat.
   */
  discard(): Promise<void>;
}

export interface CheckpointManager extends AsyncDisposable {
  readonly uri: string;
  /**
   * How fast saves, and copies from other runs, send payload. It can be changed or paused at any
   * time. It is the throttle that was passed when the manager was opened, or else the manager's
   * own, limited by setting `saveBytesPerSecondMax`. Reads, records and copies within a store are
   * not limited.
   */
  readonly throttle: Throttle;

  /**
   * Becomes a writer of the run; `save` and `create` do so by themselves. A job that restores
   * before it trains calls it first. From then on no older attempt can commit, so the checkpoint
   * that `latest` returns stays the latest until this attempt saves. Done once; repeating it is
   * free. `Fenced`: a newer attempt owns the run. `WorldSizeMismatch`: the writers of this attempt
   * disagree on their number.
   */
  join(options?: JoinOptions): Promise<JoinResult>;
  /**
   * Begins a checkpoint. Default version: one above the highest so far, 0 for the first (a lone
   * writer only).
   */
  create(version?: VersionInput, options?: CallOptions): Promise<Checkpoint>;
  /**
   * A committed checkpoint; `null` if there is none, or only a quarantined one. A version alone is
   * looked up on the path to the latest. To get a checkpoint that a rollback left behind, pass
   * lineage and version.
   */
  get(checkpoint: CheckpointReference, options?: CallOptions): Promise<Checkpoint | null>;
  /**
   * What a restart should load. `null` if nothing was ever committed, or if every checkpoint is
   * quarantined, retired or left behind by a rollback. `list` tells these cases apart: it is empty
   * only if nothing was ever committed. At most two requests, whatever the size of the run; three
   * while the catalog has two or three entries, and if there is no catalog. `StoreRegressed`: the
   * catalog is lost.
   */
  latest(options?: CallOptions): Promise<Checkpoint | null>;
  /**
   * All checkpoints in the catalog (retiring and quarantined ones too), or the newest `limit` of
   * them, newest first. Requests as in `latest`. A run of more than about 1,000 checkpoints has a
   * page for every 512 older ones, and each page needed is one more request. `InvalidArgument`: the
   * limit is not a whole number from 1 on.
   */
  list(options?: ListCheckpointsOptions): Promise<CheckpointSummary[]>;

  /**
   * Uploads, delivers, waits for the other writers and commits. Resolves only when the checkpoint
   * is committed with exactly these files (or, with `noWait`, delivered). Errors: `Fenced`,
   * `Incomplete`, `Conflict`, `OutcomeUnknown`, `SourceChanged`, `Stale` (`onStale: 'fail'`),
   * `BaseGone` (a checkpoint it refers to was removed meanwhile), and the store's.
   */
  save(options: SaveOptions): Promise<SaveResult>;
  /**
   * Commits a version whose writers have all delivered; the caller need not be a writer. Default:
   * the highest version that was begun.
   */
  commit(options?: CommitWaitOptions & { version?: VersionInput | undefined }): Promise<CheckpointSummary>;
  /**
   * Writes a checkpoint's files to `to`; every byte is compared with its checksum first.
   * `NotFound`: nothing was committed, or not this version. `Corrupt`: bytes or records are
   * damaged, or the latest is asked for and every checkpoint is quarantined, retired or left
   * behind.
   */
  restore(options: RestoreOptions): Promise<RestoreResult>;
  /** Finds out whether a call that ended in `OutcomeUnknown` took effect. Changes nothing. */
  recover(token: string, options?: WaitOptions): Promise<RecoverResult>;

  /**
   * Stops calls in progress, streams and sources too, and releases their leases, memory and the
   * store. First it waits up to 10 s for retention that a commit has started. Everything else takes
   * less than a second, whatever the store does: it does not wait for requests that the store has
   * not ended by then. Safe to call again.
   */
  close(): Promise<void>;
}
