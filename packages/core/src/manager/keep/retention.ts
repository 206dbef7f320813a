/** Plans retention by the rules in force, the catalog and the store's clock. */

import type { WaitOptions } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import type { RetentionOptions, RetentionPlan, RetentionPolicy } from '../../contract/retention.ts';
import { catalogKey, catalogPrefix, type Policy } from '../../format/index.ts';
import { dependsOnTime, planRetention } from '../../plan/retention.ts';
import { policyOf, policyRecord, toPolicyRecord } from '../../plan/retention-policy.ts';
import { timeText } from '../../plan/time-text.ts';
import type { Head } from '../catalog/index.ts';
import { withDeadline } from '../records/index.ts';
import { type RunContext, readRun, rulesInForce, setRules } from '../run/index.ts';

/**
 * A larger difference is no drift: one of the two clocks is wrong. If it is the store's, every age
 * is wrong.
 */
const CLOCKS_APART_MS_MAX = 24 * 60 * 60_000;

export interface PlannedRetention {
  readonly head: Head;
  readonly policy: Policy;
  /** The grace that the caller gave. It also applies to checkpoints retired with another grace. */
  readonly graceMs: number | undefined;
  readonly storeNowMs: number;
  readonly plan: RetentionPlan;
}

/** Uses `given`, else the rules that the manager was opened with, else those of the run. */
export async function planNow(
  run: RunContext,
  given: RetentionPolicy | undefined,
  signal: AbortSignal | undefined,
): Promise<PlannedRetention> {
  const wanted = given === undefined ? undefined : policyRecord(given);
  const graceMs = given?.graceMs;
  const { clock, settings } = run;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'planning retention', signal };
  return withDeadline(bounds, async (until) => {
    const first = await readRun(run, until);
    const policy = wanted ?? run.rules.brought ?? (await rulesInForce(run, first, until));
    const storeNowMs = await storeTimeMs(run, first, until);
    const planOn = ({ state }: Head) => {
      if (dependsOnTime(state, policy, graceMs)) assertClocksAgree(run, storeNowMs);
      return planRetention(state, policy, storeNowMs, graceMs);
    };
    const { answer: plan, head } = await run.catalog.ask(planOn, until, first);
    return { head, policy, graceMs, storeNowMs, plan };
  });
}

export async function planOnly(
  run: RunContext,
  { policy, signal }: RetentionOptions,
): Promise<RetentionPlan> {
  return (await planNow(run, policy, signal)).plan;
}

export async function setRetention(
  run: RunContext,
  policy: RetentionPolicy | null,
  { signal }: WaitOptions,
): Promise<void> {
  await setRules(run, toPolicyRecord(policy), signal);
}

export async function retention(run: RunContext, { signal }: WaitOptions): Promise<RetentionPolicy | null> {
  return policyOf(await rulesInForce(run, await readRun(run, signal), signal));
}

/**
 * The store's clock, from one list request that shows little more than the newest catalog entry.
 */
async function storeTimeMs(run: RunContext, { seq }: Head, signal: AbortSignal): Promise<number> {
  const startAfter = seq > 1 ? catalogKey(seq - 1) : undefined;
  for await (const page of run.records.list(catalogPrefix, { startAfter, signal }))
    return Math.floor(page.storeTimeMs); // records hold whole milliseconds
  throw new CheckpointError('StoreRegressed', `${catalogKey(seq)} was read and is not listed any more`, {
    context: { store: run.store.uri, key: catalogKey(seq) },
  });
}

function assertClocksAgree(run: RunContext, storeNowMs: number): void {
  const nowMs = run.clock.nowMs();
  if (Math.abs(nowMs - storeNowMs) <= CLOCKS_APART_MS_MAX) return;
  throw new CheckpointError(
    'InvalidConfig',
    `this machine's clock says ${timeText(nowMs)} and the store's says ${timeText(storeNowMs)}: one of them is wrong, so nothing is retired or removed by age`,
    { context: { store: run.store.uri } },
  );
}
