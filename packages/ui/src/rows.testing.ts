/** For the tests of the page: versions, decisions, runs and plans as the server gives them. */

import type { RetentionPlan, RetentionVerdict } from '@holdfast/core/contract';
import type { RunSummary } from '@holdfast/fleet';
import type { EventRow, VersionRow } from './api.ts';

const MINUTE_MS = 60_000;

/** Committed so many minutes after 1970. */
export function commit(version: number, minutes: number, more: Partial<VersionRow> = {}): VersionRow {
  return {
    version: String(version),
    lineage: 1,
    epoch: 1,
    name: String(version),
    committedAtMs: minutes * MINUTE_MS,
    sizeBytes: 1000,
    storedBytes: 1000,
    fileCount: 1,
    metrics: {},
    state: 'live',
    isLatest: false,
    isVerified: false,
    isSuspect: false,
    isLeftBehind: false,
    pins: [],
    graceUntilMs: null,
    reason: '',
    verdict: null,
    why: [],
    ...more,
  };
}

/** Made so many minutes after 1970. */
export function decision(kind: string, minutes: number, more: Partial<EventRow> = {}): EventRow {
  return {
    seq: minutes + 1,
    kind,
    atMs: minutes * MINUTE_MS,
    lineage: 1,
    epoch: 1,
    attempt: 'job-1',
    copiedRunId: null,
    process: 'node:1',
    reason: '',
    checkpoints: [],
    checkpointCount: 0,
    ...more,
  };
}

export type Verdict = Pick<RetentionVerdict, 'verdict' | 'reasons'>;

/** The plan with these verdicts, in the order of the rows. */
export function planFor(
  rows: readonly VersionRow[],
  verdicts: readonly Verdict[],
  more: Partial<RetentionPlan> = {},
): RetentionPlan {
  return {
    policy: { keepLast: 2, graceMs: 3_600_000 },
    rules: 'newest 2; grace 1 h',
    verdicts: rows.map((row, index) => {
      const version = BigInt(row.version);
      const { sizeBytes, storedBytes, isLeftBehind, state } = row;
      return {
        id: { version, lineage: row.lineage, epoch: row.epoch },
        ...{ version, sizeBytes, storedBytes, isLeftBehind, state },
        isBeyondRules: false,
        ...(verdicts[index] as Verdict),
      };
    }),
    totalBytes: rows.reduce((sum, { storedBytes }) => sum + storedBytes, 0),
    droppedBytes: 0,
    needsForce: false,
    ...more,
  };
}

/** A run with one version, which was committed so many minutes after 1970. */
export function runSummary(name: string, minutes: number | null, more: Partial<RunSummary> = {}): RunSummary {
  const nowMs = 100 * MINUTE_MS;
  const latest =
    minutes === null
      ? null
      : {
          version: '1',
          lineage: 1,
          epoch: 1,
          committedAtMs: minutes * MINUTE_MS,
          ageMs: nowMs - minutes * MINUTE_MS,
          sizeBytes: 1000,
          fileCount: 1,
          metrics: {},
          isVerified: false,
          isSuspect: false,
        };
  return {
    uri: `s3://bucket/${name}`,
    place: 's3://bucket',
    name,
    state: minutes === null ? 'empty' : 'ok',
    problem: null,
    checkedAtMs: nowMs,
    asOfMs: nowMs,
    storeTimeMs: nowMs,
    runId: name,
    seq: 1,
    latest,
    writerCount: 1,
    attempt: `job-of-${name}`,
    lineage: 1,
    epoch: 1,
    retainedCount: 1,
    retiringCount: 0,
    quarantinedCount: 0,
    storedBytes: 1000,
    referencedBytes: 0,
    recentAttemptCount: 1,
    recentFenceCount: 0,
    historySinceMs: 0,
    verifiedVersion: null,
    verifiedCommittedAtMs: null,
    verifiedAtMs: null,
    savesInProgress: null,
    ...more,
  };
}
