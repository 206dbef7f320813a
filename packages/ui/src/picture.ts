/** What the pictures of a run show: at most some hundred points, however many checkpoints. Pure. */

import type { RetentionPolicy } from '@holdfast/core/contract';
import type { AttemptSpan, BestOf, Point, VersionRow } from './api.ts';
import { idKey } from './rows.ts';

const POINTS_MAX = 600;
/** So many of these at most because they stand out. */
const MARKED_MAX = 300;
const METRIC_NAMES_MAX = 50;

/** Oldest commit first. A catalog lists the newest first. */
export function byCommit(rows: readonly VersionRow[]): VersionRow[] {
  return rows.toReversed().sort((a, b) => a.committedAtMs - b.committedAtMs);
}

/**
 * Every point that stands out (latest, pinned, best, first and last of an attempt), as far as there
 * is room, and the others at equal distances. `ascending`: as `byCommit` orders them.
 */
export function pointsOf(ascending: readonly VersionRow[], best: readonly BestOf[]): Point[] {
  const bestKeys = new Set(best.flatMap((each) => each.best.map(idKey)));
  const marked = ascending
    .map((_, index) => index)
    .filter((index) => isMarked(ascending, index, bestKeys))
    .slice(-MARKED_MAX);
  const step = Math.max(1, ascending.length / (POINTS_MAX - marked.length));
  const chosen = new Set(marked);
  for (let at = 0; at < ascending.length; at += step) chosen.add(Math.floor(at));
  return [...chosen].sort((a, b) => a - b).map((index) => point(ascending[index] as VersionRow));
}

function isMarked(ascending: readonly VersionRow[], index: number, bestKeys: ReadonlySet<string>): boolean {
  const own = ascending[index] as VersionRow;
  const beside = [ascending[index - 1], ascending[index + 1]];
  return (
    own.isLatest ||
    own.pins.length > 0 ||
    own.state === 'quarantined' ||
    bestKeys.has(idKey(own)) ||
    beside.some((other) => other?.epoch !== own.epoch || other.lineage !== own.lineage)
  );
}

function point(row: VersionRow): Point {
  return {
    version: row.version,
    lineage: row.lineage,
    epoch: row.epoch,
    atMs: row.committedAtMs,
    sizeBytes: row.sizeBytes,
    storedBytes: row.storedBytes,
    state: row.state,
    isLatest: row.isLatest,
    isVerified: row.isVerified,
    isLeftBehind: row.isLeftBehind,
    isPinned: row.pins.length > 0,
    isKept: row.verdict === 'keep',
    metrics: row.metrics,
  };
}

/** One span for each attempt with a checkpoint in the catalog, in the order of their begin. */
export function attemptsOf(ascending: readonly VersionRow[]): AttemptSpan[] {
  const spans = new Map<string, AttemptSpan>();
  for (const { lineage, epoch, version, committedAtMs } of ascending) {
    const key = `${lineage}.${epoch}`;
    const span = spans.get(key);
    spans.set(key, {
      lineage,
      epoch,
      firstCommitMs: span?.firstCommitMs ?? committedAtMs,
      lastCommitMs: committedAtMs,
      firstVersion: span?.firstVersion ?? version,
      lastVersion: version,
      commitCount: (span?.commitCount ?? 0) + 1,
    });
  }
  return [...spans.values()];
}

/** Names of the metrics of all checkpoints, sorted. */
export function metricNamesOf(rows: readonly VersionRow[]): string[] {
  const names = new Set(rows.flatMap(({ metrics }) => Object.keys(metrics)));
  return [...names].sort().slice(0, METRIC_NAMES_MAX);
}

/** The best checkpoints by each rule `keepBest` of the run, best first. */
export function bestOf(rows: readonly VersionRow[], policy: RetentionPolicy | null): BestOf[] {
  return (policy?.keepBest ?? []).map(({ metric, mode, count }) => {
    const sign = mode === 'min' ? 1 : -1;
    const signed = (row: VersionRow) => sign * (row.metrics[metric] as number);
    const best = rows
      .filter(({ metrics, state }) => metrics[metric] !== undefined && state === 'live')
      .sort((a, b) => signed(a) - signed(b))
      .slice(0, count);
    return { metric, mode, best: best.map(({ version, lineage, epoch }) => ({ version, lineage, epoch })) };
  });
}
