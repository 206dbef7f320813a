/**
 * The JSON that the server and the page exchange, as types only. Versions are decimal strings,
 * because JavaScript numbers would round large ones. Times are milliseconds since 1970, and sizes
 * are in bytes.
 */

import type { StatusView } from '@holdfast/agent';
import type { RunSummary } from '@holdfast/fleet';

export interface Session {
  readonly programVersion: string;
  /** The operands of the command: runs, or places above runs. */
  readonly uris: readonly string[];
  /** The first page: that of the only run, or of the runs below the operands. */
  readonly home: 'run' | 'fleet' | 'agent';
  /** Pin, annotate, retire and roll back are offered. */
  readonly mayChange: boolean;
  /** The page of an agent is offered. */
  readonly hasAgent: boolean;
}

/** An error of Holdfast: `code` is one of docs/errors.md. */
export interface Problem {
  readonly code: string;
  readonly message: string;
}

/** Names one checkpoint. */
export interface RowId {
  readonly version: string;
  readonly lineage: number;
  readonly epoch: number;
}

export type RowState = 'live' | 'retiring' | 'quarantined';

/** One checkpoint of the catalog. */
export interface VersionRow extends RowId {
  /** `1200`, and `1200@2`, with its lineage, if a rollback left it behind. */
  readonly name: string;
  readonly committedAtMs: number;
  readonly sizeBytes: number;
  /** The part of `sizeBytes` that was sent for this checkpoint. */
  readonly storedBytes: number;
  readonly fileCount: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly state: RowState;
  readonly isLatest: boolean;
  readonly isVerified: boolean;
  readonly isSuspect: boolean;
  readonly isLeftBehind: boolean;
  readonly pins: readonly string[];
  readonly graceUntilMs: number | null;
  /** Why it is quarantined or suspect; empty otherwise. */
  readonly reason: string;
  /** What retention would do now; `null`: the plan could not be made. */
  readonly verdict: 'keep' | 'retire' | 'remove' | 'wait' | null;
  /** Why, in words. Empty if `verdict` is `null`. */
  readonly why: readonly string[];
}

/** Names of the states that the list of versions can be filtered by. */
export type VersionFilter =
  | 'all'
  | 'pinned'
  | 'left-behind'
  | 'retiring'
  | 'quarantined'
  | 'verified'
  | 'next';

export interface VersionsPage {
  /** Rows that match, of all pages. */
  readonly total: number;
  readonly offset: number;
  readonly rows: readonly VersionRow[];
}

/** A point of the pictures. If there are very many checkpoints, only some are points. */
export interface Point extends RowId {
  readonly atMs: number;
  readonly sizeBytes: number;
  readonly storedBytes: number;
  readonly state: RowState;
  readonly isLatest: boolean;
  readonly isVerified: boolean;
  readonly isLeftBehind: boolean;
  readonly isPinned: boolean;
  readonly isKept: boolean;
  readonly metrics: Readonly<Record<string, number>>;
}

/** Commits of one attempt, as far as the catalog still lists them. */
export interface AttemptSpan {
  readonly lineage: number;
  readonly epoch: number;
  readonly firstCommitMs: number;
  readonly lastCommitMs: number;
  readonly firstVersion: string;
  readonly lastVersion: string;
  readonly commitCount: number;
}

/** The best values of a metric by the rules of retention. */
export interface BestOf {
  readonly metric: string;
  readonly mode: 'min' | 'max';
  readonly best: readonly RowId[];
}

export interface RetentionView {
  /** The rules in words. */
  readonly rules: string;
  readonly hasRules: boolean;
  /** A version that is retired now is removed at once. */
  readonly isWithoutGrace: boolean;
  readonly totalBytes: number;
  readonly droppedBytes: number;
  readonly needsForce: boolean;
  /** Counts by verdict. */
  readonly counts: Readonly<Record<'keep' | 'retire' | 'remove' | 'wait', number>>;
}

export interface WriterProgress {
  readonly writer: number;
  readonly uploadedBytes: number;
  readonly isDelivered: boolean;
  /** What the store knows about a writer that has not delivered; empty otherwise. */
  readonly detail: string;
}

export interface BegunView {
  readonly version: string;
  readonly lineage: number;
  readonly epoch: number;
  readonly worldSize: number;
  readonly deliveredCount: number;
  readonly uploadedBytes: number;
  /** Those that have not delivered first. At most `BEGUN_WRITERS_MAX`. */
  readonly writers: readonly WriterProgress[];
}

/** A decision on the run. */
export interface EventRow {
  readonly seq: number;
  readonly kind: string;
  /** By the clock of the process that decided. */
  readonly atMs: number;
  readonly lineage: number;
  readonly epoch: number;
  readonly attempt: string;
  /** Id of the run that a fork or a mirror copied; `null`: the attempt copies none. */
  readonly copiedRunId: string | null;
  readonly process: string;
  readonly reason: string;
  /** Names of checkpoints that it changed, at most 20. */
  readonly checkpoints: readonly string[];
  readonly checkpointCount: number;
}

/** The run whose versions a fork or a mirror has copied to this one. */
export interface CopyOrigin {
  readonly runId: string;
  /** The attempt that copied. */
  readonly lineage: number;
  readonly epoch: number;
  /** The source in words, as the log has them; empty: they are not among the decisions read. */
  readonly reason: string;
  /** `null`: it is not among the runs that this page lists. */
  readonly uri: string | null;
}

export interface EventsView {
  /** Newest first. */
  readonly events: readonly EventRow[];
  /** The source of the oldest copy among `events`; `null`: there is none. */
  readonly origin: CopyOrigin | null;
  /**
   * Decisions before `events`. `none`: there are none. `unread`: the catalog may have them, but
   * only the newest were read. `deleted`: the catalog no longer has them.
   */
  readonly older: 'none' | 'unread' | 'deleted';
}

export interface RunView {
  readonly uri: string;
  /** When the store was last read with success, by the clock of the server. */
  readonly readAtMs: number;
  /** The last read failed; the view is of `readAtMs`. */
  readonly problem: Problem | null;
  /** Changes if the catalog changes. */
  readonly seq: number;
  /** Changes also if retention would do something else now, because time has passed. */
  readonly revision: string;
  readonly latest: VersionRow | null;
  readonly versionCount: number;
  readonly counts: Readonly<Record<'live' | 'retiring' | 'quarantined' | 'pinned' | 'leftBehind', number>>;
  /** Stored bytes of all checkpoints in the catalog. */
  readonly storedBytes: number;
  /** Bytes that they share with older checkpoints instead of sending them again. */
  readonly referencedBytes: number;
  /** The newest that is verified. */
  readonly verified: VersionRow | null;
  /** Number of writers of the present attempt. */
  readonly worldSize: number;
  readonly attempt: string;
  /** The store's clock minus this machine's, with the time of a request in it. */
  readonly clockDifferenceMs: number;
  readonly points: readonly Point[];
  readonly attempts: readonly AttemptSpan[];
  readonly metricNames: readonly string[];
  readonly best: readonly BestOf[];
  readonly retention: RetentionView | Problem;
  readonly begun: readonly BegunView[] | Problem;
}

/** The answer to a poll: the whole view, or that nothing has changed. */
export type RunAnswer = RunView | { readonly isUnchanged: true; readonly readAtMs: number };

export interface WriterRow {
  readonly writer: number;
  readonly fileCount: number;
  readonly sizeBytes: number;
  /** `null`: the writer reported no state. */
  readonly consistency: 'paused' | 'polluted' | null;
  readonly takenAtMs: number | null;
}

export interface FileRow {
  readonly name: string;
  readonly sizeBytes: number;
  readonly writer: number;
  /** Eight hex digits. */
  readonly crc32c: string;
  /** Key of its object in the store, relative to the run. */
  readonly key: string;
}

export interface VersionView {
  /** Its `verdict` is not known here. */
  readonly row: VersionRow;
  readonly metadata: Readonly<Record<string, string>>;
  readonly manifestKey: string;
  /** At most 20. */
  readonly bases: readonly RowId[];
  readonly writers: readonly WriterRow[];
  /** The first of `fileCount`. */
  readonly files: readonly FileRow[];
  readonly fileCount: number;
  /** The decision that committed it; `null`: the catalog no longer has it, or it is damaged. */
  readonly commit: EventRow | null;
  /** As in `RunView`. */
  readonly clockDifferenceMs: number;
}

export interface TensorRow {
  readonly file: string;
  readonly name: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly sizeBytes: number;
}

export interface TensorsView {
  readonly tensorCount: number;
  readonly sizeBytes: number;
  /** Bytes of headers that were read and verified. */
  readonly bytesRead: number;
  readonly dtypes: readonly { readonly dtype: string; readonly count: number; readonly sizeBytes: number }[];
  /** Ascending. `fromBytes` belongs to the bin, and `toBytes` to the next. */
  readonly histogram: readonly {
    readonly fromBytes: number;
    readonly toBytes: number;
    readonly count: number;
  }[];
  /** The largest first, at most 2,000. */
  readonly largest: readonly TensorRow[];
  /** Why some files could not be read. */
  readonly notes: readonly string[];
}

export interface DiffView {
  readonly before: RowId;
  readonly after: RowId;
  readonly counts: Readonly<Record<'same' | 'changed' | 'added' | 'removed', number>>;
  readonly bytesRead: number;
  /** Files that differ, at most 2,000. */
  readonly files: readonly {
    readonly name: string;
    readonly change: 'changed' | 'added' | 'removed' | 'same';
    readonly beforeBytes: number | null;
    readonly afterBytes: number | null;
    /** Tensors that were added, removed or reshaped. */
    readonly tensors: readonly string[];
    readonly note: string;
  }[];
}

/** A change from one attempt with commits to the next. */
export interface Interruption {
  readonly kind: 'takeover' | 'rollback';
  /** Lineage and epoch: `1.2`. */
  readonly from: string;
  readonly to: string;
  readonly lastVersion: string;
  readonly nextVersion: string;
  readonly lastCommitMs: number;
  /** When the next attempt took over; `null`: not known. */
  readonly startMs: number | null;
  readonly nextCommitMs: number;
  /** From the last commit to `startMs`, or to the next commit if that is unknown. */
  readonly lostAtMostMs: number;
}

/** `null`: not known. */
export interface GoodputView {
  readonly commitCount: number;
  readonly firstCommitMs: number | null;
  /** From the first commit in the catalog to the last. */
  readonly spanMs: number;
  /** Median between commits of one attempt. */
  readonly intervalMs: number | null;
  readonly longestIntervalMs: number | null;
  readonly interruptionCount: number;
  /** Newest first, at most 200. */
  readonly interruptions: readonly Interruption[];
  readonly lostAtMostMs: number;
  /** What new attempts did not have to repeat, because they began with a checkpoint. */
  readonly savedAtLeastMs: number;
  /** Time between commits that rollbacks left behind. */
  readonly rolledBackMs: number;
  /** Median from the state's time, by the writers' clocks, to the commit, by the store's clock. */
  readonly timeToCommitMs: number | null;
  readonly timeToCommitCount: number;
  /** Most saves gave no attempt id, so each counts as an attempt of its own. */
  readonly isWithoutAttempts: boolean;
}

export interface FleetView {
  /** Changes with the runs. */
  readonly version: number;
  /** When the last look at all runs ended; `null`: no look has succeeded yet. */
  readonly doneAtMs: number | null;
  readonly isLooking: boolean;
  /** Why the last look at a place failed as a whole. */
  readonly problem: Problem | null;
  readonly runs: readonly RunSummary[];
}

export type FleetAnswer = FleetView | { readonly isUnchanged: true };

/** Times of the newest commits of a run, newest first. */
export interface Spark {
  readonly uri: string;
  readonly commitsMs: readonly number[];
}

/** What an agent answers to `GET /v1/status`. */
export type AgentView = StatusView;

/** The data inside a report. */
export interface ReportData {
  readonly session: Session;
  readonly madeAtMs: number;
  readonly run: RunView;
  readonly events: EventsView;
  /** The newest 20,000. */
  readonly rows: readonly VersionRow[];
  readonly goodput: GoodputView;
}

/** The body of `POST /api/change`. */
export interface ChangeRequest {
  readonly uri: string;
  readonly action: 'pin' | 'annotate' | 'retire' | 'rollback';
  /** Not for `retire`. */
  readonly version?: string;
  readonly lineage?: number;
  readonly reason?: string;
  /** Only for `annotate`. */
  readonly name?: string;
  readonly text?: string;
  /** `digest` of the plan that was shown; absent: only plan. */
  readonly confirm?: string;
}

export interface ChangePlan {
  /** In words. */
  readonly lines: readonly string[];
  readonly digest: string;
}

export interface ChangeResult {
  readonly done: string;
}
