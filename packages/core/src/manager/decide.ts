/** Decisions that a person or an upkeep job asks for, as opposed to those of a writer in its epoch. */

import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import type { Decided } from '../plan/transaction.ts';
import { type Asked, type Catalog, type Head, rejectionError } from './catalog.ts';
import { type Engine, newId } from './engine.ts';
import { assertNotLost, NOTHING_TOLD } from './lost-catalog.ts';
import type { AppendResult } from './sending.ts';

/** A run whose catalog moves on between every look and decision is busy beyond reason. */
const TURNS_MAX = 16;

export interface DecideOptions {
  /** For messages: `the rollback`. */
  readonly what: string;
  readonly signal: AbortSignal | undefined;
}

export interface MadeDecision {
  /** On which it was planned. */
  readonly before: Head;
  readonly after: Head;
}

/**
 * Plans a decision on the newest state and writes it. Where the state has moved on meanwhile so that it is refused, it is planned again:
 * `plan` is called each time, as any question (`Catalog.ask`), and throws what it finds wrong.
 *
 * `NotFound`: there is no run. `Conflict`, `Fenced`: refused on the very state it was planned on. `OutcomeUnknown`: it was sent, and
 * `recover` tells later. Any other error: it did not take effect, and never will.
 */
export async function decide(
  engine: Engine,
  catalog: Catalog,
  plan: (head: Head) => Decided,
  { what, signal }: DecideOptions,
): Promise<MadeDecision> {
  const { uri } = engine.store;
  for (let turn = 1; ; turn++) {
    const { answer, head: before } = await askRun(engine, catalog, plan, signal);
    const txn = { ...answer, id: newId(engine) };
    const result = await catalog.append(txn, { runId: before.runId, head: before, signal });
    if (result.kind === 'unknown') throw unknownDecision(engine, what, result);
    const { head: after } = result;
    if (result.kind === 'committed' || result.decision.kind === 'already') return { before, after };
    if (result.decision.kind !== 'rejected') throw new Error('only a commit is decided "present"');
    const hasMovedOn = after.seq > before.seq;
    if (!hasMovedOn || turn === TURNS_MAX) throw rejectionError(result.decision, { store: uri });
  }
}

/** As `Catalog.ask`, of a run that is there. `NotFound`: there is none. */
export function askRun<T>(
  engine: Engine,
  catalog: Catalog,
  question: (head: Head) => T,
  signal: AbortSignal | undefined,
): Promise<Asked<T>> {
  return orLost(engine, catalog, signal, () =>
    catalog.ask((head) => question(requireRun(engine, head)), signal),
  );
}

/** The newest state of a run that is there. */
export async function readRun(
  engine: Engine,
  catalog: Catalog,
  signal: AbortSignal | undefined,
): Promise<Head> {
  return orLost(engine, catalog, signal, async () => requireRun(engine, await catalog.read(signal)));
}

/** Where there is no run it may be that its catalog is lost: that is no first start. `StoreRegressed`. */
async function orLost<T>(
  engine: Engine,
  catalog: Catalog,
  signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const isMissing = isCheckpointError(error, 'NotFound') && error.context['run'] === 'missing';
    if (isMissing) await assertNotLost(engine, catalog, signal, NOTHING_TOLD);
    throw error;
  }
}

function requireRun(engine: Engine, head: Head): Head {
  if (head.seq > 0) return head;
  const { uri } = engine.store;
  throw new CheckpointError('NotFound', `there is no run at ${uri}`, {
    context: { store: uri, run: 'missing' },
  });
}

export function unknownDecision(
  { store }: Engine,
  what: string,
  { token, cause }: Extract<AppendResult, { kind: 'unknown' }>,
): CheckpointError {
  const context = { store: store.uri, token };
  const message = `whether ${what} took effect cannot be known now`;
  return new CheckpointError('OutcomeUnknown', message, { context, cause });
}

/**
 * For a call of several decisions. `work` adds to `done`, in words, each that has taken effect: an error that ends the call
 * later says in its context that they stand.
 */
export async function tellingWhatStands<T>(work: (done: string[]) => Promise<T>): Promise<T> {
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
