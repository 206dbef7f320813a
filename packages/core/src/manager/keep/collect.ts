/**
 * Retire what no rule keeps, remove what was retired and has neither grace nor lease left, sweep.
 * Each step is a decision of the catalog, or deletes what a decision has made deletable for good.
 * If a call stops anywhere, the next call continues.
 *
 * The order makes this safe. Leases are listed after the retirement is in the catalog. A lease that
 * was taken before the listing is in it. A reader that takes a lease later sees the retirement when
 * it reads the catalog again. A removal names the retirement under which the leases were listed.
 */

import { CheckpointError } from '../../contract/errors.ts';
import type { Lease } from '../../contract/history.ts';
import type {
  CollectOptions,
  CollectResult,
  Postponed,
  RetentionPlan,
  SweepResult,
} from '../../contract/retention.ts';
import { type CheckpointId, idText, leasesPrefix } from '../../format/index.ts';
import { loggedReason } from '../../plan/reason.ts';
import { planRetention } from '../../plan/retention.ts';
import { allCheckpoints, findById } from '../../plan/state.ts';
import { timeText } from '../../plan/time-text.ts';
import { clockTimeMs } from '../../plan/times.ts';
import type { Head } from '../catalog/index.ts';
import { listLeases, objectTimeMs } from '../read/index.ts';
import { withDeadline } from '../records/index.ts';
import { askRun, bringRules, decide, type RunContext, withDoneInErrors } from '../run/index.ts';
import { type PlannedRetention, planNow } from './retention.ts';
import { RoomMaker } from './room-maker.ts';
import { sweep } from './sweep.ts';

/** Ids in one decision. An entry of the catalog then grows by about 10 KB at most. */
const DECIDED_AT_ONCE = 256;
/**
 * Stores give times in whole seconds, and the clocks of their machines differ a little. Waiting
 * longer costs nothing.
 */
const LEASE_SLACK_MS = 60_000;

export async function collect(run: RunContext, options: CollectOptions): Promise<CollectResult> {
  const { policy, force = false, reason, signal } = options;
  return withDoneInErrors(async (done) => {
    const room = new RoomMaker(run, signal);
    if (await room.during(() => bringRules(run, signal)))
      done.push('the rules of the run are those that were given');
    const planned = await planNow(run, policy, signal);
    const collecting = { planned, force, reason, signal, done, retired: [], removed: [] };
    const postponed = await room.during(() => retireAndRemove(run, collecting));
    const { retired, removed } = collecting;
    const swept = room.withEarlier(await sweep(run, options));
    return { plan: planned.plan, retired, removed, postponed, swept };
  });
}

/**
 * Collects by the run's own rules; these need no `force`. Sweeps only after a removal. Other
 * garbage waits for a later sweep.
 */
export async function collectAfterCommit(run: RunContext, signal: AbortSignal): Promise<SweepResult | null> {
  const planned = await planNow(run, undefined, signal);
  const collecting = {
    ...{ planned, force: true, reason: undefined, signal },
    ...{ done: [], retired: [], removed: [] as bigint[] },
  };
  await retireAndRemove(run, collecting);
  return collecting.removed.length > 0 ? sweep(run, { signal }) : null;
}

interface Collecting {
  readonly planned: PlannedRetention;
  readonly force: boolean;
  /** A person's. */
  readonly reason: string | undefined;
  readonly signal: AbortSignal | undefined;
  /** See `withDoneInErrors`. */
  readonly done: string[];
  /** Versions decided so far. On a full store this takes several turns. */
  readonly retired: bigint[];
  readonly removed: bigint[];
}

async function retireAndRemove(run: RunContext, collecting: Collecting): Promise<Postponed[]> {
  const { planned, force, signal } = collecting;
  assertMayDrop(planned.plan, force);
  await retireAll(run, collecting);
  // Plan again: what was retired without grace can be removed now.
  const { answer: due } = await askRun(run, (head) => planRemoval(head, planned), signal);
  const problems = await leaseProblems(run, due.free, signal);
  const free = due.free.filter(({ id }) => !problems.has(idText(id)));
  const leased = due.free.flatMap(({ id, isLeftBehind }): Postponed[] => {
    const reason = problems.get(idText(id));
    return reason === undefined ? [] : [{ id, version: id.version, isLeftBehind, reason }];
  });
  await removeAll(run, free, collecting);
  return [...leased, ...due.waiting];
}

/**
 * `free`: checkpoints that may be removed if no reader holds them, in commit order. `waiting`:
 * checkpoints that must wait in any case.
 */
function planRemoval(
  { state }: Head,
  { policy, storeNowMs, graceMs }: PlannedRetention,
): { free: Retired[]; waiting: Postponed[] } {
  const { verdicts } = planRetention(state, policy, storeNowMs, graceMs);
  const due = new Set(verdicts.filter(({ verdict }) => verdict === 'remove').map(({ id }) => idText(id)));
  const free = allCheckpoints(state).filter(({ id }) => due.has(idText(id)));
  const waiting = verdicts
    .filter(({ verdict }) => verdict === 'wait')
    .map(({ id, version, isLeftBehind, reasons }): Postponed => {
      return { id, version, isLeftBehind, reason: reasons.join('; ') };
    });
  const retired = free.map(({ id, retiringSeq, rolledBack }) => {
    return { id, retiringSeq, isLeftBehind: rolledBack };
  });
  return { free: retired, waiting };
}

/**
 * Retires in batches, oldest first. The first plan holds for all batches as long as no other
 * process decides anything in between.
 */
async function retireAll(
  run: RunContext,
  { planned, force, reason: why, signal, done, retired }: Collecting,
): Promise<void> {
  const { policy, storeNowMs, graceMs } = planned;
  let { plan } = planned;
  let plannedOn = planned.head.seq;
  for (let isLast = false; !isLast; ) {
    let batch: RetentionPlan['verdicts'] = [];
    const retire = ({ seq, state }: Head) => {
      if (seq !== plannedOn) plan = planRetention(state, policy, storeNowMs, graceMs);
      plannedOn = seq;
      assertMayDrop(plan, force);
      batch = plan.verdicts.filter(({ verdict }) => verdict === 'retire').slice(-DECIDED_AT_ONCE);
      const { lineage, epoch } = state;
      const checkpoints = batch.map(({ id }) => id).reverse();
      const reason = loggedReason(why, batch[0]?.reasons.join('; ') ?? '');
      const times = { atMs: clockTimeMs(storeNowMs), graceMs: policy.graceMs };
      return { kind: 'retire' as const, lineage, epoch, checkpoints, reason, ...times };
    };
    const { before, after } = await decide(run, retire, {
      what: 'the retirement',
      signal,
    });
    const versions = batch.map(({ version }) => version).reverse();
    retired.push(...versions);
    if (versions.length > 0) done.push(`retired: version ${versions.join(', ')}`);
    isLast = batch.length < DECIDED_AT_ONCE;
    if (after.seq !== before.seq + 1) continue;
    const decided = new Set(batch);
    plan = { ...plan, verdicts: plan.verdicts.filter((each) => !decided.has(each)), needsForce: false };
    plannedOn = after.seq;
  }
}

/**
 * A checkpoint to remove, retired by entry `retiringSeq`. Its leases are listed under that
 * retirement. If it is retired again, its leases must be listed again.
 */
interface Retired {
  readonly id: CheckpointId;
  readonly retiringSeq: number;
  readonly isLeftBehind: boolean;
}

/** Leaves out checkpoints that were taken back or retired again meanwhile. */
async function removeAll(
  run: RunContext,
  free: readonly Retired[],
  { reason, signal, done, removed }: Collecting,
): Promise<void> {
  for (let at = 0; at < free.length; at += DECIDED_AT_ONCE) {
    let batch: Retired[] = [];
    const remove = ({ state }: Head) => {
      batch = free
        .slice(at, at + DECIDED_AT_ONCE)
        .filter(({ id, retiringSeq }) => findById(state, id)?.retiringSeq === retiringSeq);
      const { lineage, epoch } = state;
      const checkpoints = batch.map(({ id }) => id);
      const retiringSeqs = batch.map(({ retiringSeq }) => retiringSeq);
      return {
        kind: 'remove' as const,
        lineage,
        epoch,
        checkpoints,
        retiringSeqs,
        reason: loggedReason(reason, 'its grace is over'),
      };
    };
    await decide(run, remove, { what: 'the removal', signal });
    const versions = batch.map(({ id }) => id.version);
    removed.push(...versions);
    if (versions.length > 0) done.push(`removed: version ${versions.join(', ')}`);
  }
}

/**
 * By checkpoint id, why the removal is postponed: a reader holds the checkpoint. A lease that
 * cannot be read counts as valid. Cost: one list page per 1,000 leases of the run, and one GET for
 * each lease on one of these checkpoints. Twice that, and four requests, if one of them is over.
 */
async function leaseProblems(
  run: RunContext,
  retired: readonly Retired[],
  signal: AbortSignal | undefined,
): Promise<Map<string, string>> {
  if (retired.length === 0) return new Map();
  const { clock, settings } = run;
  const what = 'listing the leases of retired versions';
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
  const valid = await withDeadline(bounds, (until) => validLeases(run, retired, until));
  return new Map(
    valid.reverse().map(({ checkpoint, reader, expiresAtMs }) => {
      const until = expiresAtMs === null ? 'cannot be read' : `ends at ${timeText(expiresAtMs)}`;
      return [idText(checkpoint), `reader ${reader} holds a lease that ${until}`];
    }),
  );
}

/**
 * A lease is over only if it is so by the clock that stamped it. Looks at that clock before the
 * listing: a lease that was renewed by then has its successor in it.
 */
async function validLeases(
  run: RunContext,
  retired: readonly Retired[],
  signal: AbortSignal,
): Promise<Lease[]> {
  const wanted = new Set(retired.map(({ id }) => idText(id)));
  const isWanted = (id: CheckpointId) => wanted.has(idText(id));
  const list = () => listLeases(run, leasesPrefix, signal, isWanted);
  const isValid = ({ expiresAtMs }: Lease, nowMs: number) =>
    expiresAtMs === null || nowMs < expiresAtMs + LEASE_SLACK_MS;
  const first = await list();
  const over = first.find((lease) => !isValid(lease, lease.createdAtMs + lease.ageMs));
  if (over === undefined) return first;
  const nowMs = await objectTimeMs(run, over.checkpoint, signal);
  return (await list()).filter((lease) => isValid(lease, nowMs));
}

function assertMayDrop({ needsForce, droppedBytes, totalBytes }: RetentionPlan, force: boolean): void {
  if (!needsForce || force) return;
  throw new CheckpointError(
    'Conflict',
    `the plan drops ${droppedBytes} of the run's ${totalBytes} bytes, more than half: nothing was changed; check the plan, then collect with force`,
  );
}
