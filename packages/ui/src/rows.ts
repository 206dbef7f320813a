/** Turns results of the manager into the JSON of the page. Pure. */

import {
  type BegunVersion,
  type CheckpointId,
  type CheckpointSummary,
  checkpointName,
  type LogEntry,
  type RetentionVerdict,
  toCheckpointError,
} from '@holdfast/core/contract';
import type { BegunView, CopyOrigin, EventRow, Problem, RowId, VersionRow } from './api.ts';

const EVENT_CHECKPOINTS_MAX = 20;
/** A job may have 65,536 writers. */
export const BEGUN_WRITERS_MAX = 1000;

export function rowId({ version, lineage, epoch }: CheckpointId): RowId {
  return { version: String(version), lineage, epoch };
}

/** Identifies a checkpoint in maps. */
export function idKey({ lineage, epoch, version }: CheckpointId | RowId): string {
  return `${lineage}.${epoch}.${version}`;
}

export function versionRow(summary: CheckpointSummary, verdict: RetentionVerdict | undefined): VersionRow {
  return {
    ...rowId(summary.id),
    name: checkpointName(summary.id, summary.isLeftBehind),
    committedAtMs: summary.committedAtMs,
    sizeBytes: summary.sizeBytes,
    storedBytes: summary.storedBytes,
    fileCount: summary.fileCount,
    metrics: summary.metrics,
    state: summary.state,
    isLatest: summary.isLatest,
    isVerified: summary.isVerified,
    isSuspect: summary.isSuspect,
    isLeftBehind: summary.isLeftBehind,
    pins: summary.pins,
    graceUntilMs: summary.graceUntilMs,
    reason: summary.reason,
    verdict: verdict?.verdict ?? null,
    why: verdict?.reasons ?? [],
  };
}

export function begunView(begun: BegunVersion): BegunView {
  const details = new Map(begun.missing.map(({ writer, detail }) => [writer, detail]));
  const delivered = new Set(begun.deliveredWriters);
  const writers = begun.writerBytes.map((uploadedBytes, writer) => ({
    writer,
    uploadedBytes,
    isDelivered: delivered.has(writer),
    detail: details.get(writer) ?? '',
  }));
  return {
    ...rowId(begun.id),
    worldSize: begun.worldSize,
    deliveredCount: begun.deliveredWriters.length,
    uploadedBytes: begun.uploadedBytes,
    writers: writers
      .sort((a, b) => Number(a.isDelivered) - Number(b.isDelivered) || a.writer - b.writer)
      .slice(0, BEGUN_WRITERS_MAX),
  };
}

export function eventRow(entry: LogEntry): EventRow {
  const { seq, kind, atMs, lineage, epoch, attempt, copyOf, process, reason, checkpoints } = entry;
  return {
    seq,
    kind,
    atMs,
    lineage,
    epoch,
    attempt,
    copiedRunId: copyOf?.runId ?? null,
    process: `${process.host}:${process.pid}`,
    reason,
    checkpoints: checkpoints
      .slice(0, EVENT_CHECKPOINTS_MAX)
      .map((id) => checkpointName(id, id.lineage !== lineage)),
    checkpointCount: checkpoints.length,
  };
}

/** The source of the oldest decision by a fork or a mirror. `events`: newest first. */
export function originOf(events: readonly EventRow[]): CopyOrigin | null {
  const first = events.findLast(({ copiedRunId }) => copiedRunId !== null);
  if (first === undefined) return null;
  const { copiedRunId, lineage, epoch } = first;
  const takeover = events.find((event) => event.kind === 'takeover' && event.attempt === first.attempt);
  const reason = takeover?.reason ?? '';
  return { runId: copiedRunId as string, lineage, epoch, reason, uri: null };
}

export function problemOf(error: unknown): Problem {
  const { code, message } = toCheckpointError(error);
  return { code, message };
}
