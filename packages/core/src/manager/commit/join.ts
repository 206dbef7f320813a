/**
 * Makes a process a writer of the run: the attempt gets its epoch, the process its incarnation.
 * Done once per writer and process. From then on the process keeps its lineage and epoch, and any
 * newer attempt fences it.
 */

import type { WriterPosition } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../../contract/errors.ts';
import { encodeRecord, runKey, type State, type WriterIncarnation } from '../../format/index.ts';
import { inEpochProblem, supersededProblem } from '../../plan/epoch.ts';
import { incarnationOf, isPastAttempt, TXN_RING_LENGTH } from '../../plan/state.ts';
import { type AppendResult, type Head, rejectionError, type SendMemory } from '../catalog/index.ts';
import {
  backOff,
  type ClaimPlace,
  claim,
  createRecord,
  getOrNull,
  highestOfEach,
  listClaims,
  machineTimeMs,
  newId,
  withDeadline,
} from '../records/index.ts';
import {
  assertNotLost,
  assertNotOutlived,
  assertOwnEntries,
  type RunContext,
  rememberRunRecord,
  unknownDecision,
  withDoneInErrors,
} from '../run/index.ts';
import { type OnVoided, tellVoided } from './voided.ts';

export interface Attempt {
  readonly id: string;
  /** Drawn by this process because the caller gave no id. */
  readonly isDrawn: boolean;
  readonly takeover: TakeoverMemory;
}

/**
 * The one takeover of an attempt, however often it is sent. Kept as long as the process lives,
 * across calls and errors. The catalog does not remember a drawn attempt, so only this process can
 * know whether the attempt has taken over already.
 */
export interface TakeoverMemory extends SendMemory {
  readonly id: string;
  /**
   * The takeover was seen in the catalog. From then on the attempt owns the run, or a newer attempt
   * has taken it over.
   */
  isDone: boolean;
}

/** An attempt that has sent nothing yet. */
export function newAttempt(run: RunContext, id: string, isDrawn: boolean): Attempt {
  return { id, isDrawn, takeover: { id: newId(run), openOn: undefined, isDone: false } };
}

/** One life of one writer in one epoch. */
export interface Membership {
  readonly runId: string;
  readonly lineage: number;
  readonly epoch: number;
  readonly attempt: Attempt;
  readonly writer: WriterPosition;
  readonly incarnation: number;
  /** Other processes of the same life (the same trainer) may share the incarnation. */
  readonly life: string | undefined;
  /** This join began a new epoch, which fenced the previous one. */
  readonly tookOver: boolean;
}

/** A drawn attempt serves one process only: several writers could not know each other's id. */
export function chooseAttempt(run: RunContext, given: string | undefined, writer: WriterPosition): Attempt {
  if (given !== undefined) return newAttempt(run, given, false);
  if (writer.count > 1) {
    throw new CheckpointError(
      'InvalidArgument',
      `${writer.count} writers need an attempt id: the same for all processes of this start of the job, and never used again (for example the job's id and its restart count)`,
    );
  }
  return newAttempt(run, `drawn-${newId(run)}`, true);
}

interface Joining {
  readonly attempt: Attempt;
  readonly writer: WriterPosition;
  readonly life?: string | undefined;
  /** Recorded with the takeover. */
  readonly reason?: string | undefined;
  /** Throws if there is no reason to join. Called before the run is taken over. */
  readonly check?: ((state: State) => void) | undefined;
  readonly signal: AbortSignal | undefined;
  /**
   * Receives what earlier lives of this writer delivered and no commit will have. Finding that
   * costs requests. Without this callback they are not sent.
   */
  readonly onVoided?: OnVoided | undefined;
}

export function join(run: RunContext, joining: Joining): Promise<Membership> {
  return withDoneInErrors((done) => joinAs(run, joining, done));
}

async function joinAs(
  run: RunContext,
  { attempt, writer, life, reason = '', check, signal, onVoided }: Joining,
  done: string[],
): Promise<Membership> {
  const { clock, settings } = run;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'joining the run', signal };
  const { membership, state, isNew } = await withDeadline(bounds, async (until) => {
    let tookOver = false;
    for (;;) {
      const head = await run.catalog.read(until);
      check?.(head.state);
      if (head.state.attempt !== attempt.id) {
        if (attempt.takeover.isDone) throw fencedAttempt(run, head, attempt);
        if (head.seq === 0) {
          await assertNotLost(run, until);
          await run.beforeFirstSave?.(run.records, until);
        } else {
          await assertOwnEntries(run, head, until);
          await assertNotOutlived(run, head, until);
        }
        tookOver = await takeOver(run, { head, attempt, writer, reason, signal: until });
        if (tookOver) done.push(`attempt "${attempt.id}" took the run over`);
        continue; // whatever the outcome: only a fresh read shows which attempt owns the epoch
      }
      const { lineage, epoch } = head.state;
      checkWorldSize(head, attempt, writer);
      const place = { lineage, epoch, writer: writer.index };
      const { incarnation, isNew } = await claim(run, place, life, until);
      const own = { ...place, incarnation };
      // The first process counts without being registered. If a later one has registered, each
      // decision of the first finds that out.
      const isFirst = incarnation === 0 && life === undefined;
      const joined = isFirst ? head : await registerOwn(run, own, until);
      const { runId } = head;
      const membership = { runId, lineage, epoch, attempt, writer, incarnation, life, tookOver };
      return { membership, state: joined.state, isNew };
    }
  });
  if (isNew && onVoided) {
    const { lineage, epoch, incarnation } = membership;
    const own = { lineage, epoch, writer: writer.index, incarnation };
    await tellVoided(run, state, { ...own, onVoided, signal });
  }
  return membership;
}

function checkWorldSize(head: Head, attempt: Attempt, writer: WriterPosition): void {
  const { worldSize } = head.state;
  if (worldSize === writer.count) return;
  throw new CheckpointError(
    'WorldSizeMismatch',
    `writer ${writer.index} says that there are ${writer.count} writers, but attempt "${attempt.id}" began with ${worldSize}`,
    {
      context: {
        attempt: attempt.id,
        writer: writer.index,
        expected: `${worldSize}`,
        found: `${writer.count}`,
      },
    },
  );
}

async function takeOver(
  run: RunContext,
  options: { head: Head; attempt: Attempt; writer: WriterPosition; reason: string; signal: AbortSignal },
): Promise<boolean> {
  const { head, attempt, writer, reason, signal } = options;
  const { takeover } = attempt;
  if (isPastAttempt(head.state, attempt.id)) throw fencedAttempt(run, head, attempt);
  const runId = head.runId || (await ensureRun(run, signal));
  const result = await run.catalog.append(
    {
      id: takeover.id,
      kind: 'takeover',
      attempt: attempt.id,
      attemptDrawn: attempt.isDrawn,
      worldSize: writer.count,
      reason,
    },
    // The catalog remembers an attempt that was given, so each append may start anew.
    { runId, head, signal, ...(attempt.isDrawn && { memory: takeover }) },
  );
  if (result.kind === 'decided' && result.decision.kind === 'rejected') {
    const { decision } = result;
    if (decision.reason === 'fenced') throw fencedAttempt(run, result.head, attempt);
    throw rejectionError(decision, { store: run.store.uri, attempt: attempt.id });
  }
  if (result.kind === 'committed') takeover.isDone = true;
  const isOver = result.kind === 'unknown' && result.head && result.head.state.attempt !== attempt.id;
  if (isOver && attempt.isDrawn) throw unknownTakeover(run, result.head, attempt);
  if (result.kind === 'unknown' && (signal.aborted || isLoss(result))) {
    throw unknownDecision(run, `the takeover by attempt "${attempt.id}"`, result);
  }
  return result.kind === 'committed';
}

/** The store has lost what it acknowledged. It would lose the next attempt to decide, too. */
function isLoss({ cause }: Extract<AppendResult, { kind: 'unknown' }>): boolean {
  return isCheckpointError(cause, 'StoreRegressed');
}

/**
 * For a call that joins in order to save. The call's outcome is that of the version, and nothing
 * was sent of the version. So the call fails with the error that ended the join, if that is known.
 * The takeover's token is in the context as `takeoverToken`: named `token`, it would look like the
 * version's.
 */
export async function joinToSave<T>(joining: Promise<T>): Promise<T> {
  try {
    return await joining;
  } catch (error) {
    if (!isCheckpointError(error, 'OutcomeUnknown')) throw error;
    const { cause, context } = error;
    const { token: takeoverToken, ...rest } = context;
    const ended = isCheckpointError(cause) ? cause : error;
    throw new CheckpointError(ended.code, `${ended.message}; nothing was saved, and ${error.message}`, {
      context: { ...ended.context, ...rest, takeoverToken },
      cause,
    });
  }
}

/** An attempt that has passed never owns the run again. */
export function fencedAttempt(run: RunContext, head: Head, attempt: Attempt): CheckpointError {
  return new CheckpointError(
    'Fenced',
    `attempt "${attempt.id}" is no longer current: attempt "${head.state.attempt}" has taken the run over (epoch ${head.state.epoch})`,
    { context: { store: run.store.uri, attempt: attempt.id, overtakenBy: 'attempt' } },
  );
}

/**
 * The takeover may have taken effect and passed. A second takeover would fence the attempt that
 * owns the run now.
 */
function unknownTakeover(run: RunContext, { state }: Head, attempt: Attempt): CheckpointError {
  const others = `more than ${TXN_RING_LENGTH} decisions came between, and attempt "${state.attempt}" owns the run`;
  return new CheckpointError(
    'Fenced',
    `it cannot be known whether attempt "${attempt.id}" has owned the run: ${others}; start the process again`,
    { context: { store: run.store.uri, attempt: attempt.id, overtakenBy: 'attempt' } },
  );
}

/** Creates run.json, or reads the existing one. Resolves to the id of the run. */
async function ensureRun(run: RunContext, signal: AbortSignal): Promise<string> {
  const runId = newId(run);
  const { bytes } = encodeRecord('run', {
    format: undefined,
    runId,
    policy: run.rules.brought,
    createdAtMs: machineTimeMs(run),
  });
  const there = await getOrNull(run.records, runKey, signal);
  const created = there
    ? { isOurs: false as const, bytes: there }
    : await createRecord(run, runKey, bytes, signal);
  return rememberRunRecord(run, created.isOurs ? bytes : created.bytes).runId;
}

/**
 * Makes sure that the claim `own` counts, whichever process made it. Resolves to the state in which
 * it counts. `Fenced`: a later claim counts already, or lineage or epoch has passed.
 */
export async function registerOwn(
  run: RunContext,
  own: ClaimPlace & WriterIncarnation,
  signal: AbortSignal,
): Promise<Head> {
  let head = await run.catalog.read(signal);
  for (let round = 0; ; round++) {
    assertNotOvertaken(run, head, own);
    if (incarnationOf(head.state, own.writer) === own.incarnation) return head;
    const registered = await register(run, { head, own, signal });
    if (registered === null) await backOff(run, round, signal);
    head = registered ?? (await run.catalog.read(signal));
  }
}

/** `Fenced`: a later process of this writer is registered, or lineage or epoch has passed. */
export function assertNotOvertaken(
  run: RunContext,
  { state }: Head,
  own: ClaimPlace & WriterIncarnation,
): void {
  const rejected = inEpochProblem(state, own) ?? supersededProblem(state, own);
  const context = { store: run.store.uri, attempt: state.attempt, writer: own.writer };
  if (rejected) throw rejectionError(rejected, context);
}

/**
 * Makes every claim of this epoch count. Resolves to the newest state. `null`: only a fresh read
 * shows what counts.
 *
 * It is also `null` if there was nothing to register. A sweep may have deleted the claim `own` once
 * its epoch had passed, and `head` may be older than that.
 */
async function register(
  run: RunContext,
  { head, own, signal }: { head: Head; own: ClaimPlace; signal: AbortSignal },
): Promise<Head | null> {
  const { lineage, epoch } = own;
  const claims = highestOfEach(await listClaims(run, { lineage, epoch, signal }));
  const result = await run.catalog.append(
    { id: newId(run), kind: 'register', lineage, epoch, claims },
    { runId: head.runId, head, signal },
  );
  if (result.kind === 'committed') return result.head;
  if (result.kind === 'unknown' && (signal.aborted || isLoss(result))) {
    throw unknownDecision(run, `the registration of the writers of attempt "${head.state.attempt}"`, result);
  }
  if (result.kind === 'unknown') return null;
  if (result.decision.kind === 'rejected') {
    const context = { store: run.store.uri, attempt: head.state.attempt, writer: own.writer };
    throw rejectionError(result.decision, context);
  }
  return null;
}
