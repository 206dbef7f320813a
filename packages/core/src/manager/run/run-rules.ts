/** The retention rules of a run: who sets them, where they are stored. */

import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { type Policy, runKey } from '../../format/index.ts';
import { hasRules, NO_RULES, rulesText, samePolicy } from '../../plan/retention-policy.ts';
import type { Head } from '../catalog/index.ts';
import type { RunContext } from './context.ts';
import { decide, readRun } from './decide.ts';
import { readRunRecord } from './run-record.ts';

/**
 * The rules of the catalog or, if it has none, those of run.json. Costs one GET in the life of a
 * manager. `Corrupt`: run.json is of another run, so its rules are not applied here. The ids also
 * differ after a rebuild. That is no error: the rebuild has put the rules into the catalog.
 */
export async function rulesInForce(
  run: RunContext,
  head: Pick<Head, 'state' | 'runId'>,
  signal: AbortSignal | undefined,
): Promise<Policy> {
  const rules = await findRules(run, head, signal);
  if (rules !== null) return rules;
  const { uri } = run.store;
  const advice = ['set the retention rules of this run again; a save with rules does that, too'];
  throw new CheckpointError(
    'Corrupt',
    `${runKey} is of run ${run.rules.written?.runId}, and the catalog is of run ${head.runId}: its retention rules are not applied`,
    { context: { store: uri, key: runKey, advice } },
  );
}

/** `null`: there are rules in run.json, and it is of another run. */
async function findRules(
  run: RunContext,
  { state, runId }: Pick<Head, 'state' | 'runId'>,
  signal: AbortSignal | undefined,
): Promise<Policy | null> {
  if (state.policy) return state.policy;
  const written = await readRunRecord(run, signal);
  // The catalog defines the run. Other checks report that run.json is gone.
  if (written === null) return NO_RULES;
  return written.runId === runId || !hasRules(written.policy) ? written.policy : null;
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
  const inForce = await findRules(run, await readRun(run, signal), signal).catch((error: unknown) => {
    // The rules in a damaged run.json are unknown, so they cannot be compared. The new rules go
    // into the catalog.
    if (isCheckpointError(error, 'Corrupt')) return null;
    throw error;
  });
  const isNew = inForce === null || !samePolicy(inForce, policy);
  if (isNew) {
    await decide(run, ({ state: { lineage, epoch } }) => ({ kind: 'policy', lineage, epoch, policy }), {
      what: `the rules "${hasRules(policy) ? rulesText(policy) : 'keep all'}"`,
      signal,
    });
  }
  run.rules.brought = undefined;
  return isNew;
}
