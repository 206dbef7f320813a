/** Decisions for a person or an upkeep job, unlike those of a writer in its epoch. */

import { CheckpointError, type ErrorContext, isCheckpointError } from '../../contract/errors.ts';
import type { Decided } from '../../plan/transaction.ts';
import { type AppendResult, type CatalogAnswer, type Head, rejectionError } from '../catalog/index.ts';
import { newId } from '../records/index.ts';
import type { RunContext } from './context.ts';
import { assertNotLost, assertOnceNotOutlived, NOTHING_TOLD } from './lost-catalog.ts';
import { assertOwnEntries } from './own-entries.ts';

/** Turns before a decision is given up because the catalog changes each time. */
const TURNS_MAX = 16;

export interface DecideOptions {
  /** For messages: `the rollback`. */
  readonly what: string;
  /** Added to the context of an `OutcomeUnknown`. */
  readonly about?: ErrorContext;
  readonly signal: AbortSignal | undefined;
}

export interface MadeDecision {
  /** The state on which the decision was planned. */
  readonly before: Head;
  readonly after: Head;
}

/**
 * Plans a decision on the newest state and writes it. If the catalog has changed meanwhile and
 * the decision is rejected, it is planned again. `plan` is called each time, like any question
 * (`Catalog.ask`), and throws if it finds a problem.
 *
 * `NotFound`: there is no run. `Corrupt`: its newest entry is of another run. `StoreRegressed`:
 * the catalog is older than its claims. `Conflict`, `Fenced`: rejected on the very state on which
 * it was planned, or in each of 16 turns. `OutcomeUnknown`: it was sent, and `recover` can tell
 * its outcome later. Any other error: it had no effect and never will.
 */
export async function decide(
  run: RunContext,
  plan: (head: Head) => Decided,
  { what, about, signal }: DecideOptions,
): Promise<MadeDecision> {
  const { uri } = run.store;
  for (let turn = 1; ; turn++) {
    const { answer, head: before } = await askRun(run, plan, signal);
    await assertOwnEntries(run, before, signal);
    await assertOnceNotOutlived(run, before, signal);
    const txn = { ...answer, id: newId(run) };
    const result = await run.catalog.append(txn, { runId: before.runId, head: before, signal });
    if (result.kind === 'unknown') throw unknownDecision(run, what, result, about);
    const { head: after } = result;
    if (result.kind === 'committed' || result.decision.kind === 'already') return { before, after };
    if (result.decision.kind !== 'rejected') throw new Error('only a commit is decided "present"');
    const hasMovedOn = after.seq > before.seq;
    if (!hasMovedOn || turn === TURNS_MAX) throw rejectionError(result.decision, { store: uri });
  }
}

/** As `Catalog.ask`, for a run that must exist. `NotFound`: there is no run. */
export function askRun<T>(
  run: RunContext,
  question: (head: Head) => T,
  signal: AbortSignal | undefined,
): Promise<CatalogAnswer<T>> {
  return orLost(run, signal, () => run.catalog.ask((head) => question(requireRun(run, head)), signal));
}

/** The newest state of a run that must exist. `NotFound`: there is no run. */
export async function readRun(run: RunContext, signal: AbortSignal | undefined): Promise<Head> {
  return orLost(run, signal, async () => requireRun(run, await run.catalog.read(signal)));
}

/**
 * If there is no run, checks whether its catalog was lost, which is not a first start.
 * `StoreRegressed`: it was lost.
 */
async function orLost<T>(
  run: RunContext,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isMissing = isCheckpointError(error, 'NotFound') && error.context['run'] === 'missing';
    if (isMissing) await assertNotLost(run, signal, NOTHING_TOLD);
    throw error;
  }
}

function requireRun(run: RunContext, head: Head): Head {
  if (head.seq > 0) return head;
  const { uri } = run.store;
  throw new CheckpointError('NotFound', `there is no run at ${uri}`, {
    context: { store: uri, run: 'missing' },
  });
}

export function unknownDecision(
  { store }: RunContext,
  what: string,
  { token, cause }: Extract<AppendResult, { kind: 'unknown' }>,
  about?: ErrorContext,
): CheckpointError {
  const context = { ...about, store: store.uri, token };
  const message = `it is not known whether ${what} took effect`;
  return new CheckpointError('OutcomeUnknown', message, { context, cause });
}

/**
 * For a call that makes several decisions. `work` adds a text to `done` for each decision that took
 * effect. If the call fails later, the context of its error lists these decisions: they stand.
 */
export async function withDoneInErrors<T>(work: (done: string[]) => Promise<T>): Promise<T> {
  const done: string[] = [];
  try {
    return await work(done);
  } catch (error) {
    if (!isCheckpointError(error) || done.length === 0) throw error;
    const { code, message, status, cause, retryAfterMs } = error;
    const context = { ...error.context, done };
    throw new CheckpointError(code, message, { context, status, cause, retryAfterMs });
  }
}
