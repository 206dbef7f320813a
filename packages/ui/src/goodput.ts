/**
 * What checkpoints cost a run and what they saved, from its commits and decisions. Pure. The page
 * uses it too.
 *
 * The store does not record when an attempt stopped. So the work that an interruption lost has an
 * upper bound only: the time from the last commit to the takeover.
 */

import type { EventsView, GoodputView, Interruption, VersionRow } from './api.ts';

const INTERRUPTIONS_MAX = 200;
const DRAWN = 'drawn-';

/** `ascending`: oldest commit first. `events`: newest first. */
export function goodputOf(
  ascending: readonly VersionRow[],
  { events }: Pick<EventsView, 'events'>,
  timeToCommitMs: readonly number[],
): GoodputView {
  const starts = new Map(
    events
      .filter(({ kind }) => kind === 'takeover' || kind === 'rollback')
      .map((event) => [`${event.lineage}.${event.epoch}`, event]),
  );
  const interruptions: Interruption[] = [];
  const intervals: number[] = [];
  for (const [index, row] of ascending.entries()) {
    const before = ascending[index - 1];
    if (before === undefined) continue;
    const isSame = before.lineage === row.lineage && before.epoch === row.epoch;
    if (isSame) intervals.push(row.committedAtMs - before.committedAtMs);
    else interruptions.push(interruptionOf(before, row, starts.get(`${row.lineage}.${row.epoch}`)?.atMs));
  }
  const spanMs = (ascending.at(-1)?.committedAtMs ?? 0) - (ascending[0]?.committedAtMs ?? 0);
  const drawn = events.filter(({ kind, attempt }) => kind === 'takeover' && attempt.startsWith(DRAWN));
  return {
    commitCount: ascending.length,
    firstCommitMs: ascending[0]?.committedAtMs ?? null,
    spanMs,
    intervalMs: median(intervals),
    longestIntervalMs: intervals.length === 0 ? null : Math.max(...intervals.slice(-100_000)),
    interruptionCount: interruptions.length,
    interruptions: interruptions.slice(-INTERRUPTIONS_MAX).reverse(),
    lostAtMostMs: interruptions.reduce((sum, { lostAtMostMs }) => sum + lostAtMostMs, 0),
    savedAtLeastMs: savedAtLeastMs(interruptions, ascending[0]?.committedAtMs ?? 0),
    rolledBackMs: rolledBackMs(ascending),
    timeToCommitMs: median(timeToCommitMs),
    timeToCommitCount: timeToCommitMs.length,
    isWithoutAttempts: drawn.length > 1 && drawn.length * 2 > starts.size,
  };
}

function interruptionOf(before: VersionRow, after: VersionRow, startMs: number | undefined): Interruption {
  const [lastMs, nextMs] = [before.committedAtMs, after.committedAtMs];
  // The start has the clock of a writer; the commits have that of the store.
  const isStartKnown = startMs !== undefined && startMs >= lastMs && startMs <= nextMs;
  return {
    kind: before.lineage === after.lineage ? 'takeover' : 'rollback',
    from: `${before.lineage}.${before.epoch}`,
    to: `${after.lineage}.${after.epoch}`,
    lastVersion: before.version,
    nextVersion: after.version,
    lastCommitMs: lastMs,
    startMs: isStartKnown ? startMs : null,
    nextCommitMs: nextMs,
    lostAtMostMs: (isStartKnown ? startMs : nextMs) - lastMs,
  };
}

/**
 * Without checkpoints, each new attempt would begin anew. It has instead the time from the first
 * commit to the last one before it. The work before the first commit is not known.
 */
function savedAtLeastMs(interruptions: readonly Interruption[], firstCommitMs: number): number {
  return interruptions
    .filter(({ kind }) => kind === 'takeover')
    .reduce((sum, { lastCommitMs }) => sum + lastCommitMs - firstCommitMs, 0);
}

/** Work that rollbacks left behind: between the commits of each attempt's versions on that path. */
function rolledBackMs(ascending: readonly VersionRow[]): number {
  let sum = 0;
  for (const [index, row] of ascending.entries()) {
    const before = ascending[index - 1];
    const isSame = before?.lineage === row.lineage && before.epoch === row.epoch;
    if (row.isLeftBehind && before !== undefined && isSame) sum += row.committedAtMs - before.committedAtMs;
  }
  return sum;
}

function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length === 0) return null;
  const [low = 0, high = 0] = [sorted[middle - 1], sorted[middle]];
  return sorted.length % 2 === 1 ? high : (low + high) / 2;
}

/** Figures for the model of Young and Daly. All in milliseconds. */
export interface CostModel {
  /** Time that a save blocks training. */
  readonly blockedMs: number;
  readonly spanMs: number;
  readonly interruptionCount: number;
}

/** The interval with the least cost: √(2 · blocked time · time between interruptions). */
export function bestIntervalMs({ blockedMs, spanMs, interruptionCount }: CostModel): number {
  return Math.sqrt((2 * blockedMs * spanMs) / interruptionCount);
}

/**
 * Time that the model expects to be lost over the span with this interval: each save blocks, and
 * each interruption loses half an interval.
 */
export function expectedCostMs(
  { blockedMs, spanMs, interruptionCount }: CostModel,
  intervalMs: number,
): number {
  return (spanMs / intervalMs) * blockedMs + (interruptionCount * intervalMs) / 2;
}
