/**
 * Which checkpoints go, and why. Pure: from the catalog, the rules and the store's time alone, so that every process that plans on the same
 * entry plans the same.
 *
 * A rolled-back checkpoint never takes the place of one on the path: where rules choose among checkpoints, those on the path compete with
 * each other, and a rolled-back one is kept if it wins against all.
 */

import type { CheckpointStateName } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { RetentionPlan, RetentionVerdict } from '../contract/retention.ts';
import type { CatalogCheckpoint, KeepBestRecord, Policy, State } from '../format/index.ts';
import { retireProblem } from './apply-keeping.ts';
import {
  bestText,
  durationText,
  lastText,
  policyOf,
  policyText,
  rulesText,
  timeText,
} from './retention-policy.ts';
import { allCheckpoints } from './state.ts';

/** Decided of one checkpoint. */
type Judgement = Pick<RetentionVerdict, 'verdict' | 'reasons'> & { readonly isBeyondRules?: boolean };
/** Why a checkpoint is kept; by checkpoint, each rule's reason in the order of the rules. */
type Kept = Map<CatalogCheckpoint, string[]>;

const METRICS_NAMED_MAX = 10;

/**
 * The verdict on every checkpoint of the catalog. Those to retire, together and in any order, pass the guard of the catalog.
 * `graceMs`: for those that are retired already, in place of what each was retired with.
 * `InvalidArgument`: the rules keep no checkpoint at all, or name a metric that none has. Cost: n log n.
 */
export function planRetention(
  state: State,
  policy: Policy,
  storeNowMs: number,
  graceMs?: number,
): RetentionPlan {
  const checkpoints = allCheckpoints(state);
  const live = checkpoints.filter((checkpoint) => checkpoint.state === 'LIVE');
  const judged = judgeLive(state, live, policy, storeNowMs);
  const verdicts = checkpoints
    .map((checkpoint): RetentionVerdict => {
      const { id, sizeBytes, storedBytes, rolledBack: isLeftBehind } = checkpoint;
      const judgement = judged.get(checkpoint) ?? judgeOther(checkpoint, storeNowMs, live.length, graceMs);
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

/** Whether the plan depends on the time, so that a wrong clock could do harm. */
export function dependsOnTime(state: State, policy: Policy, graceMs?: number): boolean {
  const isTimed = policy.keepForMs > 0 || policy.keepEveryMs > 0 || policy.graceMs > 0;
  if (rulesText(policy) !== '' && isTimed) return true;
  return allCheckpoints(state).some((each) => each.state === 'RETIRING' && (graceMs ?? each.graceMs) > 0);
}

function judgeLive(
  state: State,
  live: readonly CatalogCheckpoint[],
  policy: Policy,
  storeNowMs: number,
): Map<CatalogCheckpoint, Judgement> {
  const rules = rulesText(policy);
  if (rules === '') {
    const reasons = ['there are no rules: everything is kept'];
    return new Map(live.map((checkpoint) => [checkpoint, { verdict: 'keep', reasons }]));
  }
  const kept = keptByRules(live, policy, storeNowMs);
  if (kept.size === 0 && live.length > 0) throw keepsNothing(live, policy, storeNowMs);
  const byRule = new Set(kept.keys());
  // What the catalog guards for its own sake: as if there were another that is live and verified.
  const [first] = live;
  const beside: State = { ...state, checkpoints: first ? [{ ...first, verified: true }] : [] };
  for (const checkpoint of live) {
    const problem = retireProblem(beside, checkpoint);
    if (problem !== undefined) addReason(kept, checkpoint, problem);
  }
  // It also guards the last live and the last verified one: of those that stay, one of each is enough to know.
  const stays = [...kept.keys()];
  const witnesses = [...stays.slice(0, 1), ...stays.filter(({ verified }) => verified).slice(0, 1)];
  const left: State = { ...state, checkpoints: witnesses };
  for (const checkpoint of live.toReversed()) {
    if (kept.has(checkpoint)) continue;
    const problem = retireProblem(left, checkpoint);
    if (problem === undefined) continue;
    addReason(kept, checkpoint, problem);
    witnesses.push(checkpoint);
  }
  const dropped: Judgement = { verdict: 'retire', reasons: [`no rule keeps it: ${rules}`] };
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

function keptByRules(live: readonly CatalogCheckpoint[], policy: Policy, storeNowMs: number): Kept {
  const kept: Kept = new Map();
  const keep = (checkpoint: CatalogCheckpoint, reason: string) => addReason(kept, checkpoint, reason);
  const path = live.filter((checkpoint) => !checkpoint.rolledBack);
  if (policy.keepLast > 0)
    for (const each of path.slice(-policy.keepLast)) keep(each, lastText(policy.keepLast));
  const { keepEvery, keepEveryMs, keepForMs } = policy;
  const multiple = `multiple of ${keepEvery}`;
  const young = `younger than ${durationText(keepForMs)}`;
  for (const each of live) {
    if (keepEvery > 0n && each.id.version % keepEvery === 0n) keep(each, multiple);
    if (keepForMs > 0 && storeNowMs - each.committedAtMs <= keepForMs) keep(each, young);
  }
  if (keepEveryMs > 0) {
    for (const each of chosen(live, (pool) => firstOfSpans(pool, keepEveryMs))) {
      const startMs = each.committedAtMs - (each.committedAtMs % keepEveryMs);
      keep(each, `first of the ${durationText(keepEveryMs)} from ${timeText(startMs)}`);
    }
  }
  for (const rule of policy.keepBest) {
    assertMetric(live, rule);
    for (const each of chosen(live, (pool) => best(pool, rule))) {
      keep(each, `${bestText(rule)} (${each.metrics[rule.metric]})`);
    }
  }
  return kept;
}

/** What `choose` takes of those on the path, and what of the others it takes of all. */
function chosen(
  live: readonly CatalogCheckpoint[],
  choose: (pool: readonly CatalogCheckpoint[]) => CatalogCheckpoint[],
): CatalogCheckpoint[] {
  const path = live.filter((checkpoint) => !checkpoint.rolledBack);
  if (path.length === live.length) return choose(path);
  return [...choose(path), ...choose(live).filter((checkpoint) => checkpoint.rolledBack)];
}

/** By the time of the commit; of several at one time, the one that was committed first. */
function firstOfSpans(pool: readonly CatalogCheckpoint[], spanMs: number): CatalogCheckpoint[] {
  const first = new Map<number, CatalogCheckpoint>();
  for (const checkpoint of pool) {
    const span = Math.floor(checkpoint.committedAtMs / spanMs);
    const before = first.get(span);
    if (!before || checkpoint.committedAtMs < before.committedAtMs) first.set(span, checkpoint);
  }
  return [...first.values()];
}

/** Of equal ones the later is better: it has learnt more. */
function best(
  pool: readonly CatalogCheckpoint[],
  { metric, highest, count }: KeepBestRecord,
): CatalogCheckpoint[] {
  const sign = highest ? -1 : 1;
  return pool
    .filter((checkpoint) => Object.hasOwn(checkpoint.metrics, metric))
    .map((checkpoint, index) => ({ checkpoint, index, rank: sign * (checkpoint.metrics[metric] ?? 0) }))
    .sort((a, b) => a.rank - b.rank || b.index - a.index)
    .slice(0, count)
    .map(({ checkpoint }) => checkpoint);
}

function judgeOther(
  checkpoint: CatalogCheckpoint,
  storeNowMs: number,
  liveCount: number,
  graceMs = checkpoint.graceMs,
): Judgement {
  const { state, reason, retiringAtMs } = checkpoint;
  if (state === 'QUARANTINED') {
    return { verdict: 'keep', reasons: [`quarantined (${reason}): no rule takes it`], isBeyondRules: true };
  }
  const untilMs = retiringAtMs + graceMs;
  if (storeNowMs < untilMs) {
    return {
      verdict: 'wait',
      reasons: [`retired (${reason}); it can be taken back until ${timeText(untilMs)}`],
    };
  }
  if (liveCount === 0) {
    return {
      verdict: 'wait',
      reasons: [`retired (${reason}), but no other checkpoint is live: take one back first`],
    };
  }
  return {
    verdict: 'remove',
    reasons: [`retired (${reason}), and its grace of ${durationText(graceMs)} is over`],
  };
}

function assertMetric(live: readonly CatalogCheckpoint[], rule: KeepBestRecord): void {
  if (live.length === 0 || live.some(({ metrics }) => Object.hasOwn(metrics, rule.metric))) return;
  const names = [...new Set(live.flatMap((checkpoint) => Object.keys(checkpoint.metrics)))].sort();
  const more = names.length > METRICS_NAMED_MAX ? `, … (${names.length} in all)` : '';
  const there =
    names.length === 0
      ? 'no checkpoint has any metric; give them to save, or to annotate afterwards'
      : `there are: ${names.slice(0, METRICS_NAMED_MAX).join(', ')}${more}`;
  throw new CheckpointError(
    'InvalidArgument',
    `the rule "${bestText(rule)}" cannot be used: no checkpoint has the metric "${rule.metric}"; ${there}`,
  );
}

/** The latest would stay all the same, but rules that keep nothing are rules that somebody got wrong. */
function keepsNothing(
  live: readonly CatalogCheckpoint[],
  policy: Policy,
  storeNowMs: number,
): CheckpointError {
  const newest = live.at(-1) as CatalogCheckpoint;
  const { version } = newest.id;
  const ageMs = Math.max(0, storeNowMs - newest.committedAtMs);
  const age = durationText(ageMs - (ageMs % 1000));
  const misses = [
    policy.keepLast > 0 ? `it was rolled back, so that "${lastText(policy.keepLast)}" does not count it` : '',
    policy.keepEvery > 0n ? `it is no multiple of ${policy.keepEvery}` : '',
    policy.keepForMs > 0 ? `it is not younger than ${durationText(policy.keepForMs)}` : '',
  ].filter((text) => text !== '');
  return new CheckpointError(
    'InvalidArgument',
    `the rules (${rulesText(policy)}) would keep none of ${live.length} checkpoints: the newest, version ${version}, is ${age} old: ${misses.join(', and ')}`,
    { context: { version } },
  );
}

/** A record that says none of the three is refused when it is read. */
function stateName({ state }: CatalogCheckpoint): CheckpointStateName {
  return state.toLowerCase() as CheckpointStateName;
}

function sumBytes(verdicts: readonly RetentionVerdict[]): number {
  return verdicts.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
}
