/**
 * Becoming a writer of the run: the attempt gets its epoch, the process its incarnation.
 * Done once per writer and process; from then on lineage and epoch are kept for life, and any newer attempt fences it.
 */

import type { WriterPosition } from '../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError } from '../contract/errors.ts';
import { claimKey, claimPrefix, encodeRecord, parseClaimKey, runKey, type State } from '../format/index.ts';
import { isPastAttempt, TXN_RING_LENGTH } from '../plan/state.ts';
import type { WriterLife } from '../plan/transaction.ts';
import { type Catalog, type Head, rejectionError } from './catalog.ts';
import { withDeadline } from './deadline.ts';
import { tellingWhatStands, unknownDecision } from './decide.ts';
import { type Engine, newId } from './engine.ts';
import { assertNotLost } from './lost-catalog.ts';
import { backOff, createRecord, getOrNull } from './records.ts';
import { readRunRecord } from './run-rules.ts';
import type { SendMemory } from './sending.ts';

export interface Attempt {
  readonly id: string;
  /** Drawn by this process because none was given. */
  readonly isDrawn: boolean;
  readonly takeover: TakeoverMemory;
}

/**
 * The one takeover of an attempt, however often it is sent. Kept as long as the process lives, across calls and errors: the catalog does
 * not remember a drawn attempt, so only its process can know that it has had its turn.
 */
export interface TakeoverMemory extends SendMemory {
  readonly id: string;
  /** It was seen in the catalog. From then on the attempt owns the run, or has passed. */
  isDone: boolean;
}

/** An attempt that has sent nothing yet. */
export function newAttempt(engine: Engine, id: string, isDrawn: boolean): Attempt {
  return { id, isDrawn, takeover: { id: newId(engine), openOn: undefined, isDone: false } };
}

/** One life of one writer in one epoch. */
export interface Membership {
  readonly runId: string;
  readonly lineage: number;
  readonly epoch: number;
  readonly attempt: Attempt;
  readonly writer: WriterPosition;
  readonly incarnation: number;
  /** It began a new epoch, which fenced the one before. */
  readonly tookOver: boolean;
}

/** A drawn attempt serves one process only: more writers could not know of each other. */
export function chooseAttempt(engine: Engine, given: string | undefined, writer: WriterPosition): Attempt {
  if (given !== undefined) return newAttempt(engine, given, false);
  if (writer.count > 1) {
    throw new CheckpointError(
      'InvalidArgument',
      `${writer.count} writers need an attempt id: the same for all processes of this incarnation of the job, and never used again (for example the job's id and its restart count)`,
    );
  }
  return newAttempt(engine, `drawn-${newId(engine)}`, true);
}

interface Joining {
  readonly attempt: Attempt;
  readonly writer: WriterPosition;
  /** Throws if there is nothing to join for. Called before the run is taken over. */
  readonly check?: ((state: State) => void) | undefined;
  readonly signal: AbortSignal | undefined;
}

export function join(engine: Engine, catalog: Catalog, joining: Joining): Promise<Membership> {
  return tellingWhatStands((done) => joinAs(engine, catalog, joining, done));
}

async function joinAs(
  engine: Engine,
  catalog: Catalog,
  { attempt, writer, check, signal }: Joining,
  done: string[],
): Promise<Membership> {
  const { clock, settings } = engine;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'joining the run', signal };
  return withDeadline(bounds, async (until) => {
    let tookOver = false;
    for (let round = 0; ; round++) {
      const head = await catalog.read(until);
      check?.(head.state);
      if (head.state.attempt !== attempt.id) {
        if (attempt.takeover.isDone) throw fencedAttempt(engine, head, attempt);
        if (head.seq === 0) await assertNotLost(engine, catalog, until);
        tookOver = await takeOver(engine, catalog, { head, attempt, writer, signal: until });
        if (tookOver) done.push(`attempt "${attempt.id}" took the run over`);
        continue; // whatever the outcome: only a fresh read says whose epoch it is
      }
      const { lineage, epoch } = head.state;
      checkWorldSize(head, attempt, writer);
      const incarnation = await claim(engine, { lineage, epoch, writer: writer.index, signal: until });
      const isRegistered = incarnation === 0 || (await register(engine, catalog, { head, signal: until }));
      if (isRegistered) return { runId: head.runId, lineage, epoch, attempt, writer, incarnation, tookOver };
      await backOff(engine, round, until);
    }
  });
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
  engine: Engine,
  catalog: Catalog,
  options: { head: Head; attempt: Attempt; writer: WriterPosition; signal: AbortSignal },
): Promise<boolean> {
  const { head, attempt, writer, signal } = options;
  const { takeover } = attempt;
  if (isPastAttempt(head.state, attempt.id)) throw fencedAttempt(engine, head, attempt);
  const runId = head.runId || (await ensureRun(engine, signal));
  const result = await catalog.append(
    {
      id: takeover.id,
      kind: 'takeover',
      attempt: attempt.id,
      attemptDrawn: attempt.isDrawn,
      worldSize: writer.count,
    },
    // The catalog remembers an attempt that was given: each append may begin anew.
    { runId, head, signal, ...(attempt.isDrawn && { memory: takeover }) },
  );
  if (result.kind === 'decided' && result.decision.kind === 'rejected') {
    throw fencedAttempt(engine, result.head, attempt);
  }
  if (result.kind === 'committed') takeover.isDone = true;
  const isOver = result.kind === 'unknown' && result.head && result.head.state.attempt !== attempt.id;
  if (isOver && attempt.isDrawn) throw unknownTurn(engine, result.head, attempt);
  if (result.kind === 'unknown' && signal.aborted) {
    throw unknownDecision(engine, `the takeover by attempt "${attempt.id}"`, result);
  }
  return result.kind === 'committed';
}

/**
 * For a call that joins in order to save: its outcome is that of the version, and of that nothing was sent. So the error
 * is what ended the join. Its context has the token of the takeover under a name of its own: told of as the version's, it would mislead.
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
export function fencedAttempt(engine: Engine, head: Head, attempt: Attempt): CheckpointError {
  return new CheckpointError(
    'Fenced',
    `attempt "${attempt.id}" has passed: attempt "${head.state.attempt}" has taken the run over (epoch ${head.state.epoch})`,
    { context: { store: engine.store.uri, attempt: attempt.id } },
  );
}

/** The takeover may have taken effect and passed. A second turn would fence the attempt that owns the run now. */
function unknownTurn(engine: Engine, { state }: Head, attempt: Attempt): CheckpointError {
  const others = `more than ${TXN_RING_LENGTH} decisions came between, and attempt "${state.attempt}" owns the run`;
  return new CheckpointError(
    'Fenced',
    `whether attempt "${attempt.id}" has had its turn cannot be known: ${others}; start the process again`,
    { context: { store: engine.store.uri, attempt: attempt.id } },
  );
}

/** Creates run.json, or reads the one that is there. Resolves to the run's id. */
async function ensureRun(engine: Engine, signal: AbortSignal): Promise<string> {
  const runId = newId(engine);
  const { bytes } = encodeRecord('run', {
    format: undefined,
    runId,
    policy: engine.rules.brought,
    createdAtMs: Math.round(engine.clock.nowMs()),
  });
  const there = await getOrNull(engine.records, runKey, signal);
  const created = there
    ? { isOurs: false as const, bytes: there }
    : await createRecord(engine, runKey, bytes, signal);
  return readRunRecord(engine, created.isOurs ? bytes : created.bytes).runId;
}

/** Claims the next incarnation of a writer in this epoch: the highest claimed so far plus one. */
async function claim(
  engine: Engine,
  at: { lineage: number; epoch: number; writer: number; signal: AbortSignal },
): Promise<number> {
  const { lineage, epoch, writer, signal } = at;
  const lives = await listClaims(engine, { lineage, epoch, signal });
  let incarnation =
    1 + Math.max(-1, ...lives.filter((life) => life.writer === writer).map((life) => life.incarnation));
  for (;;) {
    const { bytes } = encodeRecord('claim', {
      format: undefined,
      writer,
      incarnation,
      nonce: newId(engine),
      host: engine.process.host,
      pid: engine.process.pid,
    });
    const key = claimKey({ lineage, epoch, writer, incarnation });
    const created = await createRecord(engine, key, bytes, signal);
    if (created.isOurs) return incarnation;
    incarnation++;
  }
}

export interface ListedClaim extends WriterLife {
  readonly createdAtMs: number;
  readonly storeTimeMs: number;
}

/** Every life of every writer in an epoch. */
export async function listClaims(
  engine: Engine,
  at: { lineage: number; epoch: number; signal: AbortSignal | undefined },
): Promise<ListedClaim[]> {
  const lives: ListedClaim[] = [];
  for await (const page of engine.records.list(claimPrefix(at.lineage, at.epoch), { signal: at.signal })) {
    for (const object of page.objects) {
      const life = parseClaimKey(object.key);
      if (life) lives.push({ ...life, createdAtMs: object.createdAtMs, storeTimeMs: page.storeTimeMs });
    }
  }
  return lives;
}

/** Makes every claim of this epoch count. `false`: start again with a fresh read. */
async function register(
  engine: Engine,
  catalog: Catalog,
  { head, signal }: { head: Head; signal: AbortSignal },
): Promise<boolean> {
  const { lineage, epoch } = head.state;
  const lives = await listClaims(engine, { lineage, epoch, signal });
  const claims = highestOfEach(lives);
  const result = await catalog.append(
    { id: newId(engine), kind: 'register', lineage, epoch, claims },
    { runId: head.runId, signal },
  );
  if (result.kind === 'committed') return true;
  if (result.kind === 'unknown' && signal.aborted) {
    throw unknownDecision(
      engine,
      `the registration of the writers of attempt "${head.state.attempt}"`,
      result,
    );
  }
  if (result.kind === 'unknown') return false;
  if (result.decision.kind === 'already') return true;
  if (result.decision.kind === 'rejected') {
    throw rejectionError(result.decision, { store: engine.store.uri, attempt: head.state.attempt });
  }
  return false;
}

function highestOfEach(lives: readonly WriterLife[]): WriterLife[] {
  const highest = new Map<number, number>();
  for (const { writer, incarnation } of lives) {
    highest.set(writer, Math.max(incarnation, highest.get(writer) ?? 0));
  }
  return [...highest].map(([writer, incarnation]) => ({ writer, incarnation }));
}
