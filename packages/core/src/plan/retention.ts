/**
 * Decides which checkpoints to retire, and why. Pure: the result depends only on the catalog, the
 * rules and the store's time. So every process that plans on the same entry gets the same plan.
 *
 * The path is what no rollback has left behind, from the first checkpoint to the latest. A
 * rolled-back checkpoint never displaces one on the path. When rules choose among checkpoints,
 * those on the path compete with each other. A rolled-back one is kept only if it wins against all.
 */

import type { CheckpointStateName } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { RetentionPlan, RetentionVerdict } from '../contract/retention.ts';
import type { CatalogCheckpoint, Policy, State } from '../format/index.ts';
import { retireProblem } from './apply-keeping.ts';
import {
  assertKnownRules,
  hasRules,
  hasTimedRules,
  keptByRules,
  missTexts,
  policyOf,
  policyText,
  rulesText,
} from './retention-policy.ts';
import { allCheckpoints } from './state.ts';
import { durationText, timeText } from './time-text.ts';

/** The decision for one checkpoint. */
type Judgement = Pick<RetentionVerdict, 'verdict' | 'reasons'> & { readonly isBeyondRules?: boolean };
/** Why checkpoints are kept: by checkpoint, the reason of each rule in the order of the rules. */
type Kept = Map<CatalogCheckpoint, string[]>;

/**
 * The verdict on every checkpoint of the catalog. The catalog accepts the retirements, all at
 * once or one by one in any order. `graceMs`: for checkpoints that are already
 * retired, instead of the grace they were retired with. `InvalidArgument`: the rules keep no
 * checkpoint at all, or name a metric that no checkpoint has. `UnsupportedFormat`: a newer Holdfast
 * set a rule that this one does not know. Cost: n log n.
 */
export function planRetention(
  state: State,
  policy: Policy,
  storeNowMs: number,
  graceMs?: number,
): RetentionPlan {
  assertKnownRules(policy);
  const checkpoints = allCheckpoints(state);
  const live = checkpoints.filter((checkpoint) => checkpoint.state === 'LIVE');
  const judged = judgeLive(state, live, policy, storeNowMs);
  const offered = live.filter(({ rolledBack }) => !rolledBack);
  const verdicts = checkpoints
    .map((checkpoint): RetentionVerdict => {
      const { id, sizeBytes, storedBytes, rolledBack: isLeftBehind } = checkpoint;
      const judgement = judged.get(checkpoint) ?? judgeOther(checkpoint, storeNowMs, offered, graceMs);
      const state = stateName(checkpoint);
      const { isBeyondRules = false } = judgement;
      return {
        id,
        version: id.version,
        sizeBytes,
        storedBytes,
        isLeftBehind,
        state,
        ...judgement,
        isBeyondRules,
      };
    })
    .reverse();
  const totalBytes = sumBytes(verdicts);
  const droppedBytes = sumBytes(verdicts.filter(({ verdict }) => verdict !== 'keep'));
  return {
    policy: policyOf(policy),
    rules: policyText(policy),
    verdicts,
    totalBytes,
    droppedBytes,
    needsForce: droppedBytes > totalBytes / 2,
  };
}

/** True if the plan depends on the time, so that a wrong clock could do harm. */
export function dependsOnTime(state: State, policy: Policy, graceMs?: number): boolean {
  if (hasTimedRules(policy) || (hasRules(policy) && policy.graceMs > 0)) return true;
  return allCheckpoints(state).some((each) => each.state === 'RETIRING' && (graceMs ?? each.graceMs) > 0);
}

function judgeLive(
  state: State,
  live: readonly CatalogCheckpoint[],
  policy: Policy,
  storeNowMs: number,
): Map<CatalogCheckpoint, Judgement> {
  if (!hasRules(policy)) {
    const reasons = ['there are no rules: everything is kept'];
    return new Map(live.map((checkpoint) => [checkpoint, { verdict: 'keep', reasons }]));
  }
  const kept: Kept = new Map();
  const path = live.filter((checkpoint) => !checkpoint.rolledBack);
  for (const [checkpoint, reason] of keptByRules(policy, { live, path, storeNowMs })) {
    addReason(kept, checkpoint, reason);
  }
  if (kept.size === 0 && live.length > 0) throw keepsNothing(live, policy, storeNowMs);
  const byRule = new Set(kept.keys());
  // Checkpoints that the catalog never lets go, even if a restart could load another, verified one.
  const [first] = path;
  const beside: State = { ...state, checkpoints: first ? [{ ...first, verified: true }] : [] };
  for (const checkpoint of live) {
    const problem = retireProblem(beside, checkpoint);
    if (problem !== undefined) addReason(kept, checkpoint, problem);
  }
  // The catalog also keeps the only checkpoint left that a restart can load, and the only verified
  // one left. So it is enough that one of each kind is among the kept ones.
  const stays = [...kept.keys()].filter(({ rolledBack }) => !rolledBack);
  const witnesses = [...stays.slice(0, 1), ...stays.filter(({ verified }) => verified).slice(0, 1)];
  const left: State = { ...state, checkpoints: witnesses };
  for (const checkpoint of live.toReversed()) {
    if (kept.has(checkpoint)) continue;
    const problem = retireProblem(left, checkpoint);
    if (problem === undefined) continue;
    addReason(kept, checkpoint, problem);
    witnesses.push(checkpoint);
  }
  const dropped: Judgement = { verdict: 'retire', reasons: [`no rule keeps it: ${rulesText(policy)}`] };
  return new Map(
    live.map((checkpoint) => {
      const reasons = kept.get(checkpoint);
      return [
        checkpoint,
        reasons ? { verdict: 'keep', reasons, isBeyondRules: !byRule.has(checkpoint) } : dropped,
      ];
    }),
  );
}

function addReason(kept: Kept, checkpoint: CatalogCheckpoint, reason: string): void {
  const reasons = kept.get(checkpoint);
  if (reasons) reasons.push(reason);
  else kept.set(checkpoint, [reason]);
}

function judgeOther(
  checkpoint: CatalogCheckpoint,
  storeNowMs: number,
  offered: readonly CatalogCheckpoint[],
  graceMs = checkpoint.graceMs,
): Judgement {
  const { state, reason, retiringAtMs } = checkpoint;
  if (state === 'QUARANTINED') {
    return { verdict: 'keep', reasons: [`quarantined (${reason}): no rule removes it`], isBeyondRules: true };
  }
  const untilMs = retiringAtMs + graceMs;
  if (storeNowMs < untilMs) {
    return {
      verdict: 'wait',
      reasons: [`retired (${reason}); it can be undeleted until ${timeText(untilMs)}`],
    };
  }
  const wait = (why: string): Judgement => ({
    verdict: 'wait',
    reasons: [`retired (${reason}), but ${why}`],
  });
  if (offered.length === 0) return wait('no other checkpoint is live: undelete one first');
  if (checkpoint.verified && !offered.some(({ verified }) => verified))
    return wait('no other live checkpoint is verified: verify one first');
  return {
    verdict: 'remove',
    reasons: [`retired (${reason}), and its grace of ${durationText(graceMs)} is over`],
  };
}

/** The latest would be kept anyway, but rules that keep nothing are a mistake of the caller. */
function keepsNothing(
  live: readonly CatalogCheckpoint[],
  policy: Policy,
  storeNowMs: number,
): CheckpointError {
  const newest = live.at(-1) as CatalogCheckpoint;
  const { version } = newest.id;
  const ageMs = Math.max(0, storeNowMs - newest.committedAtMs);
  const age = durationText(ageMs - (ageMs % 1000));
  return new CheckpointError(
    'InvalidArgument',
    `the rules (${rulesText(policy)}) would keep none of ${live.length} checkpoints: the newest, version ${version}, is ${age} old: ${missTexts(policy).join(', and ')}`,
    { context: { version } },
  );
}

/** A record with none of the three states is rejected when it is read. */
function stateName({ state }: CatalogCheckpoint): CheckpointStateName {
  return state.toLowerCase() as CheckpointStateName;
}

function sumBytes(verdicts: readonly RetentionVerdict[]): number {
  return verdicts.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
}
