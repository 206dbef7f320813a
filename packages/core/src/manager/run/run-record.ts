/** The record run.json, which never changes: one manager reads it once. */

import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { decodeRecord, type Run, runKey } from '../../format/index.ts';
import { NO_RULES } from '../../plan/retention-policy.ts';
import { getOrNull, type RunParts } from '../records/index.ts';
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
  const { runId, policy = NO_RULES } = decodeRunRecord(run, bytes);
  const facts = { runId, policy };
  run.rules.written = facts;
  return facts;
}

const ADVICE = [
  'set the retention rules of the run again: from then on the catalog holds them, and run.json may be removed',
  'if the catalog must be rebuilt, move run.json to another place first: the run then gets a new id',
];

/** `Corrupt`: it is damaged. */
export function decodeRunRecord({ store }: RunParts, bytes: Uint8Array): Run {
  try {
    return decodeRecord('run', bytes, { key: runKey, store: store.uri });
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    const context = { ...error.context, advice: ADVICE };
    throw new CheckpointError('Corrupt', error.message, { context, cause: error });
  }
}
