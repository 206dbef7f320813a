/** The retention rules of a run: who sets them, where they are stored. */

import { decodeRecord, type Policy, runKey } from '../format/index.ts';
import { hasRules, NO_RULES, rulesText, samePolicy } from '../plan/retention-policy.ts';
import type { Catalog, Head } from './catalog.ts';
import { decide, readRun } from './decide.ts';
import type { Engine } from './engine.ts';
import { getOrNull } from './records.ts';

/** What one manager knows about the rules besides the catalog. */
export class RunRules {
  /** The rules that the manager was opened with, until they are set for the run. */
  brought: Policy | undefined;
  /** The rules in run.json, which never change; `undefined`: not read yet. */
  written: Policy | undefined;

  constructor(brought: Policy | undefined) {
    this.brought = brought;
  }
}

/**
 * The rules of the catalog or, if it has none, those of run.json. Costs one GET in the life of a
 * manager.
 */
export async function rulesInForce(
  engine: Engine,
  { state }: Pick<Head, 'state'>,
  signal: AbortSignal | undefined,
): Promise<Policy> {
  if (state.policy) return state.policy;
  engine.rules.written ??= await readWritten(engine, signal);
  return engine.rules.written;
}

async function readWritten(engine: Engine, signal: AbortSignal | undefined): Promise<Policy> {
  const bytes = await getOrNull(engine.records, runKey, signal);
  // The catalog defines the run. Other checks report that run.json is gone.
  return bytes ? readRunRecord(engine, bytes).policy : NO_RULES;
}

/** Decodes run.json and remembers its rules. */
export function readRunRecord(engine: Engine, bytes: Uint8Array): { runId: string; policy: Policy } {
  const { runId, policy = NO_RULES } = decodeRecord('run', bytes, { key: runKey, store: engine.store.uri });
  engine.rules.written = policy;
  return { runId, policy };
}

/**
 * Sets the rules that the manager was opened with, once in its life: rules that are set later must
 * not be overridden. `false`: nothing was written.
 */
export async function bringRules(
  engine: Engine,
  catalog: Catalog,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { brought } = engine.rules;
  return brought !== undefined && (await setRules(engine, catalog, brought, signal));
}

/**
 * `false`: nothing was written, because the run has these rules already. `NotFound`: there is no
 * run.
 */
export async function setRules(
  engine: Engine,
  catalog: Catalog,
  policy: Policy,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const inForce = await rulesInForce(engine, await readRun(engine, catalog, signal), signal);
  const isNew = !samePolicy(inForce, policy);
  if (isNew) {
    await decide(
      engine,
      catalog,
      ({ state: { lineage, epoch } }) => ({ kind: 'policy', lineage, epoch, policy }),
      { what: `the rules "${hasRules(policy) ? rulesText(policy) : 'keep all'}"`, signal },
    );
  }
  engine.rules.brought = undefined;
  return isNew;
}
