/** The retention rules of a run: who sets them, where they are stored. */

import { decodeRecord, type Policy, runKey } from '../../format/index.ts';
import { hasRules, NO_RULES, rulesText, samePolicy } from '../../plan/retention-policy.ts';
import type { Head } from '../catalog/index.ts';
import { getOrNull } from '../records/index.ts';
import type { RunContext } from './context.ts';
import { decide, readRun } from './decide.ts';

/**
 * The rules of the catalog or, if it has none, those of run.json. Costs one GET in the life of a
 * manager.
 */
export async function rulesInForce(
  run: RunContext,
  { state }: Pick<Head, 'state'>,
  signal: AbortSignal | undefined,
): Promise<Policy> {
  if (state.policy) return state.policy;
  run.rules.written ??= await readWritten(run, signal);
  return run.rules.written;
}

async function readWritten(run: RunContext, signal: AbortSignal | undefined): Promise<Policy> {
  const bytes = await getOrNull(run.records, runKey, signal);
  // The catalog defines the run. Other checks report that run.json is gone.
  return bytes ? readRunRecord(run, bytes).policy : NO_RULES;
}

/** Decodes run.json and remembers its rules. */
export function readRunRecord(run: RunContext, bytes: Uint8Array): { runId: string; policy: Policy } {
  const { runId, policy = NO_RULES } = decodeRecord('run', bytes, { key: runKey, store: run.store.uri });
  run.rules.written = policy;
  return { runId, policy };
}

/**
 * Sets the rules that the manager was opened with, once in its life: rules that are set later must
 * not be overridden. `false`: nothing was written.
 */
export async function bringRules(run: RunContext, signal: AbortSignal | undefined): Promise<boolean> {
  const { brought } = run.rules;
  return brought !== undefined && (await setRules(run, brought, signal));
}

/**
 * `false`: nothing was written, because the run has these rules already. `NotFound`: there is no
 * run.
 */
export async function setRules(
  run: RunContext,
  policy: Policy,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const inForce = await rulesInForce(run, await readRun(run, signal), signal);
  const isNew = !samePolicy(inForce, policy);
  if (isNew) {
    await decide(run, ({ state: { lineage, epoch } }) => ({ kind: 'policy', lineage, epoch, policy }), {
      what: `the rules "${hasRules(policy) ? rulesText(policy) : 'keep all'}"`,
      signal,
    });
  }
  run.rules.brought = undefined;
  return isNew;
}
