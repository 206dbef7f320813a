/** What the catalog says of a run as a whole. */

import { isCheckpointError } from '../../contract/errors.ts';
import type { OverviewOptions, RecentHistory, RunOverview } from '../../contract/overview.ts';
import { type CatalogEntry, type CheckpointId, idEquals } from '../../format/index.ts';
import { FIRST_SEQ } from '../../plan/rebuild.ts';
import { checkpointsAtHand, latestOf } from '../../plan/state.ts';
import { newestVerified, totalsOf } from '../../plan/totals.ts';
import type { Head, ListedEntry } from '../catalog/index.ts';
import { summaryOf } from '../records/index.ts';
import { askRun, assertOwnEntries, type RunContext } from '../run/index.ts';
import { begun } from './begun.ts';

const DAY_MS = 24 * 60 * 60_000;

/** See `RunAdmin.overview`. */
export async function overview(run: RunContext, options: OverviewOptions): Promise<RunOverview> {
  const { historyMs = DAY_MS, findVerification = false, findRollback = false } = options;
  const { listBegun = false, signal } = options;
  const { answer, head } = await askRun(
    run,
    ({ state }) => {
      const { storeTimeMs } = run.catalog;
      const [latest, verified] = [latestOf(state), newestVerified(state)];
      return {
        ...totalsOf(state),
        storeTimeMs,
        latest: latest ? summaryOf(state, latest, storeTimeMs) : null,
        verified: verified ? summaryOf(state, verified, storeTimeMs) : null,
      };
    },
    signal,
  );
  if (answer.latest === null) await assertOwnEntries(run, head, signal);
  const { seq, runId, state } = head;
  const { worldSize, lineage, epoch, attempt } = state;
  const listed = (await run.catalog.listAll(signal)).filter((entry) => entry.seq <= seq);
  const { verified, storeTimeMs } = answer;
  return {
    ...answer,
    ...{ seq, runId, worldSize, lineage, epoch, attempt },
    history: await historyOf(run, head, { listed, fromMs: storeTimeMs - historyMs, signal }),
    verifiedAtMs:
      verified !== null && findVerification ? await verifiedAt(run, verified.id, listed, signal) : null,
    rolledBackByMs: findRollback && lineage > 1 ? await rolledBackBy(run, lineage, signal) : null,
    begun: listBegun ? await begun(run, { signal }) : null,
  };
}

/**
 * Compares the newest entry with the last one before `fromMs`, or with the oldest that is left.
 * `null`: that entry cannot be read.
 */
async function historyOf(
  run: RunContext,
  { state }: Head,
  from: {
    readonly listed: readonly ListedEntry[];
    readonly fromMs: number;
    readonly signal: AbortSignal | undefined;
  },
): Promise<RecentHistory | null> {
  const { listed, fromMs, signal } = from;
  const before = listed.findLast(({ createdAtMs }) => createdAtMs <= fromMs);
  if (before !== undefined && before === listed.at(-1))
    return { sinceMs: fromMs, attemptCount: 0, fenceCount: 0 };
  const oldest = before ?? listed[0];
  if (oldest === undefined) return null;
  const isWhole = before !== undefined;
  const sinceMs = isWhole ? fromMs : oldest.createdAtMs;
  // The first entry of a run is the takeover of its first attempt, which fences none.
  if (!isWhole && oldest.seq === FIRST_SEQ)
    return { sinceMs, attemptCount: state.epoch, fenceCount: state.epoch - 1 + state.lineage - 1 };
  const then = await entryOrNull(run, oldest.seq, signal);
  if (then === null) return null;
  const attemptCount = state.epoch - then.state.epoch;
  return { sinceMs, attemptCount, fenceCount: attemptCount + state.lineage - then.state.lineage };
}

/**
 * When a checkpoint was first recorded as verified: the creation of that entry. The record stays,
 * so the entry is found by bisection. `null`: it is older than the entries that are left, or one of
 * them cannot be read.
 */
async function verifiedAt(
  run: RunContext,
  id: CheckpointId,
  listed: readonly ListedEntry[],
  signal: AbortSignal | undefined,
): Promise<number | null> {
  let isReadable = true;
  const since = await firstWith(listed, async (seq) => {
    const entry = await entryOrNull(run, seq, signal);
    isReadable &&= entry !== null;
    return entry !== null && isVerifiedIn(entry, id);
  });
  const first = listed[since];
  const isKnown = isReadable && first !== undefined && (since > 0 || first.seq === FIRST_SEQ);
  return isKnown ? first.createdAtMs : null;
}

/** See `RunOverview.rolledBackByMs`. Every rollback begins a lineage. */
async function rolledBackBy(
  run: RunContext,
  lineage: number,
  signal: AbortSignal | undefined,
): Promise<number | null> {
  const listed = await run.catalog.listAll(signal);
  const since = await firstWith(
    listed,
    async (seq) => (await entryOrNull(run, seq, signal))?.state.lineage === lineage,
  );
  return listed[since]?.createdAtMs ?? null;
}

/** Position of the first entry with something that the newest has, and no entry loses. Bisects. */
async function firstWith(
  listed: readonly ListedEntry[],
  hasIt: (seq: number) => Promise<boolean>,
): Promise<number> {
  let [before, since] = [-1, listed.length - 1];
  while (since - before > 1) {
    const middle = Math.floor((before + since) / 2);
    if (await hasIt(listed[middle]?.seq ?? 0)) since = middle;
    else before = middle;
  }
  return since;
}

function isVerifiedIn({ state }: CatalogEntry, id: CheckpointId): boolean {
  return checkpointsAtHand(state).some((each) => each.verified && idEquals(each.id, id));
}

/** `null`: it was pruned, or it is damaged. */
async function entryOrNull(
  run: RunContext,
  seq: number,
  signal: AbortSignal | undefined,
): Promise<CatalogEntry | null> {
  try {
    return await run.catalog.entry(seq, signal);
  } catch (error) {
    if (isCheckpointError(error, 'Corrupt')) return null;
    throw error;
  }
}
