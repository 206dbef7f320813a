/** What one look at the store tells of a run: its versions, what retention does, pictures. Pure. */

import { createHash } from 'node:crypto';
import type { RetentionPlan } from '@holdfast/core/contract';
import type { RetentionView, RunView, VersionRow } from './api.ts';
import { attemptsOf, bestOf, byCommit, metricNamesOf, pointsOf } from './picture.ts';
import { idKey, problemOf } from './rows.ts';

/** The plan of retention, or why it could not be made. */
export type PlanOrError = RetentionPlan | Error;

/** The part of a view that follows from the versions and the plan. */
type FromRows = Omit<
  RunView,
  'problem' | 'readAtMs' | 'begun' | 'worldSize' | 'attempt' | 'referencedBytes' | 'clockDifferenceMs'
>;

export interface KnownRun {
  /** Newest first, each with its verdict. */
  readonly rows: readonly VersionRow[];
  readonly view: FromRows;
}

/**
 * Whether the same catalog may give another plan later: a rule by age, a grace that ends, or an
 * error that may be over.
 */
export function dependsOnTime(plan: PlanOrError): boolean {
  if (plan instanceof Error) return true;
  return plan.policy?.keepForMs !== undefined || plan.verdicts.some(({ verdict }) => verdict === 'wait');
}

/** `versions`: newest first; their verdicts are replaced by those of the plan. */
export function knownRun(
  uri: string,
  seq: number,
  versions: readonly VersionRow[],
  plan: PlanOrError,
): KnownRun {
  const isPlanned = !(plan instanceof Error);
  const rows = judged(versions, plan);
  const count = (test: (row: VersionRow) => boolean) => rows.filter(test).length;
  const best = bestOf(rows, isPlanned ? plan.policy : null);
  const ascending = byCommit(rows);
  const retention = isPlanned ? retentionView(plan) : problemOf(plan);
  const view = {
    uri,
    seq,
    revision: revisionOf(seq, rows, retention),
    latest: rows.find(({ isLatest }) => isLatest) ?? null,
    versionCount: rows.length,
    counts: {
      live: count(({ state }) => state === 'live'),
      retiring: count(({ state }) => state === 'retiring'),
      quarantined: count(({ state }) => state === 'quarantined'),
      pinned: count(({ pins }) => pins.length > 0),
      leftBehind: count(({ isLeftBehind }) => isLeftBehind),
    },
    storedBytes: rows.reduce((sum, { storedBytes }) => sum + storedBytes, 0),
    verified: rows.find(({ isVerified }) => isVerified) ?? null,
    points: pointsOf(ascending, best),
    attempts: attemptsOf(ascending),
    metricNames: metricNamesOf(rows),
    best,
    retention,
  };
  return { rows, view };
}

function judged(versions: readonly VersionRow[], plan: PlanOrError): VersionRow[] {
  const verdicts = new Map(plan instanceof Error ? [] : plan.verdicts.map((each) => [idKey(each.id), each]));
  return versions.map((row) => {
    const own = verdicts.get(idKey(row));
    return { ...row, verdict: own?.verdict ?? null, why: own?.reasons ?? [] };
  });
}

/** Processes that see the same catalog and the same verdicts get the same text. */
function revisionOf(seq: number, rows: readonly VersionRow[], retention: RunView['retention']): string {
  const hash = createHash('sha256');
  // The message of an error may name the present age of a version.
  hash.update('code' in retention ? retention.code : JSON.stringify(retention));
  for (const { verdict, why } of rows) hash.update(`${verdict} ${why.join('; ')}\n`);
  return `${seq}-${hash.digest('base64url').slice(0, 16)}`;
}

function retentionView(plan: RetentionPlan): RetentionView {
  const { policy, rules, verdicts, totalBytes, droppedBytes, needsForce } = plan;
  const counts = { keep: 0, retire: 0, remove: 0, wait: 0 };
  for (const { verdict } of verdicts) counts[verdict] += 1;
  const isWithoutGrace = policy?.graceMs === 0;
  return { rules, hasRules: policy !== null, isWithoutGrace, totalBytes, droppedBytes, needsForce, counts };
}
