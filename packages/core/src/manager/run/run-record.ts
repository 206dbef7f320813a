/** The record run.json, which never changes: one manager reads it once. */

import { decodeRecord, runKey } from '../../format/index.ts';
import { NO_RULES } from '../../plan/retention-policy.ts';
import { getOrNull } from '../records/index.ts';
import type { RunContext, RunFacts } from './context.ts';

/** `null`: it is missing. `Corrupt`: it is damaged. */
export async function readRunRecord(
  run: RunContext,
  signal: AbortSignal | undefined,
): Promise<RunFacts | null> {
  if (run.rules.written !== undefined) return run.rules.written;
  const bytes = await getOrNull(run.records, runKey, signal);
  if (bytes) return rememberRunRecord(run, bytes);
  run.rules.written = null;
  return null;
}

/** Decodes run.json and remembers it. */
export function rememberRunRecord(run: RunContext, bytes: Uint8Array): RunFacts {
  const { runId, policy = NO_RULES } = decodeRecord('run', bytes, { key: runKey, store: run.store.uri });
  const facts = { runId, policy };
  run.rules.written = facts;
  return facts;
}
