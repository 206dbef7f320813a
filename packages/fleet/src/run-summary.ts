/**
 * What a list of many runs shows of each. Plain JSON data: versions are decimal strings, times are
 * milliseconds since 1970, and `null` means unknown, never a guess.
 */

import type { BegunVersion, CheckpointError, ErrorCode, RunOverview } from '@holdfast/core/contract';

/**
 * - `ok`: a restart finds a checkpoint.
 * - `empty`: nothing was committed yet.
 * - `damaged`: the catalog is lost or cannot be read, or nothing that was committed can be loaded.
 * - `denied`: the credentials may not read it.
 * - `unreachable`: the store did not answer in time, or could not be asked.
 */
export type RunState = 'ok' | 'empty' | 'damaged' | 'denied' | 'unreachable';

/** Why the state is not `ok` or `empty`. */
export interface RunProblem {
  readonly code: ErrorCode;
  /** For people. */
  readonly message: string;
}

export interface LatestSummary {
  readonly version: string;
  readonly lineage: number;
  readonly epoch: number;
  /** By the store's clock. A copy has the time of its original. */
  readonly committedAtMs: number;
  /**
   * Time since the commit when the catalog was read, both by the store's clock; not below 0. A
   * wrong clock of this machine does not affect it. The present age is this plus the time since
   * `asOfMs`.
   */
  readonly ageMs: number;
  readonly sizeBytes: number;
  readonly fileCount: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly isVerified: boolean;
  readonly isSuspect: boolean;
}

/** A version that writers have begun and that is not committed. */
export interface SaveInProgress {
  readonly version: string;
  readonly writerCount: number;
  /** Numbers of the writers that have delivered all their files. */
  readonly deliveredWriters: readonly number[];
  readonly missingWriters: readonly { readonly writer: number; readonly detail: string }[];
  /** Bytes of the files that have arrived whole. */
  readonly uploadedBytes: number;
}

export interface RunSummary {
  /** Opens the run; it has the settings of the URI that was given. */
  readonly uri: string;
  /** The URI that was given. */
  readonly place: string;
  /** Path of the run below `place`; empty: the place itself is the run. */
  readonly name: string;
  readonly state: RunState;
  /** `null` with `ok` and `empty`. */
  readonly problem: RunProblem | null;
  /** When the store was asked, by this machine's clock. */
  readonly checkedAtMs: number;
  /**
   * When the facts below were read, by this machine's clock. `null`: they were never read, and all
   * of them are `null`.
   */
  readonly asOfMs: number | null;
  /** The store's clock at that moment. */
  readonly storeTimeMs: number | null;
  readonly runId: string | null;
  /** Number of decisions so far: it changes with every commit. */
  readonly seq: number | null;
  /** `null`: unknown, or there is none (`state` tells). */
  readonly latest: LatestSummary | null;
  /** Number of writers of the present attempt. */
  readonly writerCount: number | null;
  readonly attempt: string | null;
  readonly lineage: number | null;
  /** Number of attempts so far. */
  readonly epoch: number | null;
  /** Checkpoints that are live, those that a rollback left behind included. */
  readonly retainedCount: number | null;
  /** Checkpoints that retention has retired and not removed yet. */
  readonly retiringCount: number | null;
  readonly quarantinedCount: number | null;
  /** Bytes sent for the checkpoints of the catalog. */
  readonly storedBytes: number | null;
  /** Bytes that checkpoints share with older ones instead of sending them again. */
  readonly referencedBytes: number | null;
  /** Attempts that began since `historySinceMs`. */
  readonly recentAttemptCount: number | null;
  /** Takeovers that fenced an older attempt, and rollbacks, since `historySinceMs`. */
  readonly recentFenceCount: number | null;
  /** By the store's clock: a day ago, unless other options say so or the run keeps less. */
  readonly historySinceMs: number | null;
  /** The newest checkpoint of which every byte was verified. */
  readonly verifiedVersion: string | null;
  /** When it was committed, by the store's clock. */
  readonly verifiedCommittedAtMs: number | null;
  /** By the store's clock. `null`: not asked for, never, or longer ago than the catalog tells. */
  readonly verifiedAtMs: number | null;
  /** Lowest version first. `null`: not asked for. */
  readonly savesInProgress: readonly SaveInProgress[] | null;
}

/** The place of a run. */
export interface RunPlace {
  readonly uri: string;
  readonly place: string;
  readonly name: string;
}

export function knownSummary(run: RunPlace, overview: RunOverview, nowMs: number): RunSummary {
  const { latest, storeTimeMs, verified, history, begun } = overview;
  const count = overview.liveCount + overview.retiringCount + overview.quarantinedCount;
  const isUnusable = latest === null && count > 0;
  return {
    ...run,
    state: isUnusable ? 'damaged' : latest === null ? 'empty' : 'ok',
    problem: isUnusable ? { code: 'Corrupt', message: unusableText(overview) } : null,
    checkedAtMs: nowMs,
    asOfMs: nowMs,
    storeTimeMs,
    runId: overview.runId,
    seq: overview.seq,
    latest: latest && latestSummary(latest, storeTimeMs),
    writerCount: overview.worldSize,
    attempt: overview.attempt,
    lineage: overview.lineage,
    epoch: overview.epoch,
    retainedCount: overview.liveCount,
    retiringCount: overview.retiringCount,
    quarantinedCount: overview.quarantinedCount,
    storedBytes: overview.storedBytes,
    referencedBytes: overview.referencedBytes,
    recentAttemptCount: history?.attemptCount ?? null,
    recentFenceCount: history?.fenceCount ?? null,
    historySinceMs: history?.sinceMs ?? null,
    verifiedVersion: verified === null ? null : String(verified.version),
    verifiedCommittedAtMs: verified?.committedAtMs ?? null,
    verifiedAtMs: overview.verifiedAtMs,
    savesInProgress: begun?.map(saveInProgress) ?? null,
  };
}

function latestSummary(latest: NonNullable<RunOverview['latest']>, storeTimeMs: number): LatestSummary {
  const { id, committedAtMs, sizeBytes, fileCount, metrics, isVerified, isSuspect } = latest;
  return {
    version: String(id.version),
    lineage: id.lineage,
    epoch: id.epoch,
    committedAtMs,
    ageMs: Math.max(0, storeTimeMs - committedAtMs),
    ...{ sizeBytes, fileCount, metrics, isVerified, isSuspect },
  };
}

function saveInProgress(begun: BegunVersion): SaveInProgress {
  const { version, worldSize, deliveredWriters, missing, uploadedBytes } = begun;
  return {
    version: String(version),
    writerCount: worldSize,
    deliveredWriters,
    missingWriters: missing.map(({ writer, detail }) => ({ writer, detail })),
    uploadedBytes,
  };
}

function unusableText({ liveCount, retiringCount, quarantinedCount }: RunOverview): string {
  return `nothing can be loaded: ${liveCount} left behind, ${retiringCount} retiring, ${quarantinedCount} quarantined`;
}

/** A run of which nothing is known but the error. */
export function failedSummary(run: RunPlace, error: CheckpointError, nowMs: number): RunSummary {
  const { code, message } = error;
  return {
    ...run,
    state: stateOf(error),
    problem: { code, message },
    checkedAtMs: nowMs,
    asOfMs: null,
    storeTimeMs: null,
    runId: null,
    seq: null,
    latest: null,
    writerCount: null,
    attempt: null,
    lineage: null,
    epoch: null,
    retainedCount: null,
    retiringCount: null,
    quarantinedCount: null,
    storedBytes: null,
    referencedBytes: null,
    recentAttemptCount: null,
    recentFenceCount: null,
    historySinceMs: null,
    verifiedVersion: null,
    verifiedCommittedAtMs: null,
    verifiedAtMs: null,
    savesInProgress: null,
  };
}

/** Errors of records that were found: there is a run. */
const OF_RECORDS: ReadonlySet<ErrorCode> = new Set(['Corrupt', 'StoreRegressed', 'UnsupportedFormat']);

/** False: it could not be read, and may be a directory without a run. */
export function isCertainlyRun({ asOfMs, problem }: Pick<RunSummary, 'asOfMs' | 'problem'>): boolean {
  return asOfMs !== null || problem === null || OF_RECORDS.has(problem.code);
}

function stateOf({ code }: CheckpointError): RunState {
  if (code === 'Denied') return 'denied';
  return OF_RECORDS.has(code) ? 'damaged' : 'unreachable';
}
