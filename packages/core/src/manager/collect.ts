/**
 * Retire what no rule keeps, remove what was retired and has neither grace nor lease left, sweep. Each step is a decision of the catalog, or
 * deletes what one has made deletable for good: stopped anywhere, the next call goes on.
 *
 * The order is the safety: leases are listed after the retirement is in the catalog, and a reader that took one before sees the retirement
 * when it reads the catalog again. A removal carries the retirement under which they were listed.
 */

import { CheckpointError } from '../contract/errors.ts';
import type {
  CollectOptions,
  CollectResult,
  Postponed,
  RetentionPlan,
  SweepResult,
} from '../contract/retention.ts';
import { type CheckpointId, leasePrefix } from '../format/index.ts';
import { planRetention } from '../plan/retention.ts';
import { timeText } from '../plan/retention-policy.ts';
import { findById } from '../plan/state.ts';
import type { Catalog, Head } from './catalog.ts';
import { withDeadline } from './deadline.ts';
import { decide, readRun, tellingWhatStands } from './decide.ts';
import type { Engine } from './engine.ts';
import { inBatches } from './in-batches.ts';
import { listLeases } from './leases.ts';
import { type PlannedRetention, planNow } from './retention.ts';
import { bringRules } from './run-rules.ts';
import { sweep } from './sweep.ts';

/** Ids in one decision: an entry of the catalog then grows by some 10 KB at most. */
const DECIDED_AT_ONCE = 256;
/** Stores give times in whole seconds, and their machines' clocks differ a little. Waiting longer costs nothing. */
const LEASE_SLACK_MS = 60_000;

export async function collect(
  engine: Engine,
  catalog: Catalog,
  options: CollectOptions,
): Promise<CollectResult> {
  const { policy, force = false, signal } = options;
  return tellingWhatStands(async (done) => {
    if (await bringRules(engine, catalog, signal))
      done.push('the rules of the run are those that were given');
    const planned = await planNow(engine, catalog, policy, signal);
    const collected = await retireAndRemove(engine, catalog, { planned, force, signal, done });
    return { plan: planned.plan, ...collected, swept: await sweep(engine, catalog, options) };
  });
}

/** By the run's own rules, which nobody has to force. Sweeps only after a removal: what else there may be waits for the next. */
export async function collectAfterCommit(
  engine: Engine,
  catalog: Catalog,
  signal: AbortSignal,
): Promise<SweepResult | null> {
  const planned = await planNow(engine, catalog, undefined, signal);
  const { removed } = await retireAndRemove(engine, catalog, { planned, force: true, signal, done: [] });
  return removed.length > 0 ? sweep(engine, catalog, { signal }) : null;
}

interface Collecting {
  readonly planned: PlannedRetention;
  readonly force: boolean;
  readonly signal: AbortSignal | undefined;
  /** See `tellingWhatStands`. */
  readonly done: string[];
}

type Collected = Pick<CollectResult, 'retired' | 'removed' | 'postponed'>;

async function retireAndRemove(engine: Engine, catalog: Catalog, collecting: Collecting): Promise<Collected> {
  const { planned, force, signal, done } = collecting;
  assertMayDrop(planned.plan, force);
  const retired = await retireAll(engine, catalog, collecting);
  // Planned again: what was retired without any grace is to be removed now.
  const { state } = await readRun(engine, catalog, signal);
  const { policy, storeNowMs, graceMs } = planned;
  const { verdicts } = planRetention(state, policy, storeNowMs, graceMs);
  const due = verdicts.filter(({ verdict }) => verdict === 'remove').reverse();
  const waiting = verdicts
    .filter(({ verdict }) => verdict === 'wait')
    .map(({ version, reasons }): Postponed => ({ version, reason: reasons.join('; ') }));
  const free: Retired[] = [];
  const leased: Postponed[] = [];
  const { preferredConcurrency } = engine.store.capabilities;
  const reasons = await inBatches(due, preferredConcurrency, ({ id }) => leaseProblem(engine, id, signal));
  for (const [index, { id, version }] of due.entries()) {
    const reason = reasons[index];
    if (reason === undefined) free.push({ id, retiringSeq: findById(state, id)?.retiringSeq ?? 0 });
    else leased.push({ version, reason });
  }
  const removed = await removeAll(engine, catalog, free, { signal, done });
  return { retired, removed, postponed: [...leased, ...waiting] };
}

async function retireAll(
  engine: Engine,
  catalog: Catalog,
  { planned, force, signal, done }: Collecting,
): Promise<bigint[]> {
  const { policy, storeNowMs, graceMs } = planned;
  const retired: bigint[] = [];
  for (let isLast = false; !isLast; ) {
    let batch: RetentionPlan['verdicts'] = [];
    const retire = ({ state }: Head) => {
      const plan = planRetention(state, policy, storeNowMs, graceMs);
      assertMayDrop(plan, force);
      batch = plan.verdicts.filter(({ verdict }) => verdict === 'retire').slice(-DECIDED_AT_ONCE);
      const { lineage, epoch } = state;
      const checkpoints = batch.map(({ id }) => id).reverse();
      const reason = batch[0]?.reasons.join('; ') ?? '';
      const times = { atMs: storeNowMs, graceMs: policy.graceMs };
      return { kind: 'retire' as const, lineage, epoch, checkpoints, reason, ...times };
    };
    await decide(engine, catalog, retire, {
      what: 'the retirement',
      signal,
    });
    const versions = batch.map(({ version }) => version).reverse();
    retired.push(...versions);
    if (versions.length > 0) done.push(`retired: version ${versions.join(', ')}`);
    isLast = batch.length < DECIDED_AT_ONCE;
  }
  return retired;
}

/** A checkpoint whose leases were listed while it was retired by entry `retiringSeq`, and found to have ended. */
interface Retired {
  readonly id: CheckpointId;
  readonly retiringSeq: number;
}

/** Those that were taken back meanwhile, or retired anew, are left out. */
async function removeAll(
  engine: Engine,
  catalog: Catalog,
  free: readonly Retired[],
  { signal, done }: Pick<Collecting, 'signal' | 'done'>,
): Promise<bigint[]> {
  const removed: bigint[] = [];
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
        reason: 'its grace is over',
      };
    };
    await decide(engine, catalog, remove, { what: 'the removal', signal });
    const versions = batch.map(({ id }) => id.version);
    removed.push(...versions);
    if (versions.length > 0) done.push(`removed: version ${versions.join(', ')}`);
  }
  return removed;
}

/** Why the checkpoint is left for later; `undefined`: no reader holds it. A lease that cannot be read counts as one that holds. */
async function leaseProblem(
  engine: Engine,
  id: CheckpointId,
  signal: AbortSignal | undefined,
): Promise<string | undefined> {
  const { clock, settings } = engine;
  const what = `listing the leases of version ${id.version}`;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
  const leases = await withDeadline(bounds, (until) => listLeases(engine, leasePrefix(id), until));
  const valid = leases.find(
    ({ createdAtMs, ageMs, expiresAtMs }) =>
      expiresAtMs === null || createdAtMs + ageMs < expiresAtMs + LEASE_SLACK_MS,
  );
  if (!valid) return undefined;
  const { reader, expiresAtMs } = valid;
  const until = expiresAtMs === null ? 'cannot be read' : `ends at ${timeText(expiresAtMs)}`;
  return `reader ${reader} holds a lease that ${until}`;
}

function assertMayDrop({ needsForce, droppedBytes, totalBytes }: RetentionPlan, force: boolean): void {
  if (!needsForce || force) return;
  throw new CheckpointError(
    'Conflict',
    `the plan drops ${droppedBytes} of the run's ${totalBytes} bytes, more than half: nothing was changed; look at the plan, then collect with force`,
  );
}
