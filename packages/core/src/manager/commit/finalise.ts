/**
 * Turns delivered receipts into a committed checkpoint. Any process may do it at any time: every
 * writer tries, and so does a survivor (a process without a receipt of its own).
 */

import type { CheckpointId, ProgressEvent } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, isCheckpointError, isStopOf } from '../../contract/errors.ts';
import {
  bytesEqual,
  type CatalogCheckpoint,
  idEquals,
  type Receipt,
  type WriterIncarnation,
} from '../../format/index.ts';
import { committedCheckpoint, precheckCommit } from '../../plan/apply-commit.ts';
import type { AssembledManifest } from '../../plan/assemble.ts';
import type { Present, Rejected } from '../../plan/decision.ts';
import { countOf } from '../../plan/file-lists.ts';
import { checkpointsAtHand, findById } from '../../plan/state.ts';
import { clockTimeMs } from '../../plan/times.ts';
import type { Commit } from '../../plan/transaction.ts';
import { type Catalog, type Head, rejectionError } from '../catalog/index.ts';
import {
  createRecord,
  isUnanswered,
  listReceipts,
  listsReceipt,
  newId,
  type OwnReceipt,
  withDeadline,
  writeToken,
} from '../records/index.ts';
import { type RunContext, unlessRemoved } from '../run/index.ts';
import { type GatherOptions, gather } from './gather.ts';
import { describeMissing } from './missing-writers.ts';

export interface FinaliseOptions {
  readonly id: CheckpointId;
  readonly runId: string;
  /** The caller's own receipt: success means that the commit lists it. Absent for a survivor. */
  readonly own?: OwnReceipt | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((event: ProgressEvent) => void) | undefined;
  /** Commit time in the run that it was copied from; default: now, by the store's clock. */
  readonly committedAtMs?: number | undefined;
  /**
   * Default `commit`. `receipts` only looks: if all receipts are there, another process is about to
   * commit, and the answer is `waiting` without missing writers. `catalog` does not look at the
   * receipts either.
   */
  readonly look?: 'commit' | 'receipts' | 'catalog' | undefined;
}

export type Finalised =
  | { readonly kind: 'committed'; readonly checkpoint: CatalogCheckpoint }
  /** `null`: it did not look at the receipts. */
  | { readonly kind: 'waiting'; readonly missing: readonly number[] | null };

const POLL_MS_MIN = 20;
const POLL_MS_MAX = 2000;
/**
 * Looks at the catalog by all waiting writers of a job. S3 takes 5,500 reads and listings a second
 * below one prefix, and others need some of them.
 */
const LOOKS_PER_SECOND_MAX = 500;
const WAITING_EVENT_EVERY_MS = 1000;
const PATIENCE_MS_PER_WRITER = 10;
/** A process that commits goes through the names of all files. */
const PATIENCE_MS_PER_FILE = 0.1;
const PATIENCE_MS_MAX = 10_000;
const PATIENCE_MS_OF_FILES_MAX = 2 * 60_000;

/**
 * Waits until the checkpoint is committed, and commits it as soon as all receipts are there.
 * `Incomplete` after `timeoutMs`.
 */
export function finalise(run: RunContext, options: FinaliseOptions): Promise<CatalogCheckpoint> {
  const { version } = options.id;
  const known = { uri: run.store.uri, version, writer: options.own?.position };
  return run.meter.measure('commit', known, async (span) => {
    const checkpoint = await awaitCommit(run, options);
    span.set({ sizeBytes: checkpoint.sizeBytes, fileCount: checkpoint.fileCount });
    return checkpoint;
  });
}

async function awaitCommit(run: RunContext, options: FinaliseOptions): Promise<CatalogCheckpoint> {
  const { clock } = run;
  const startMs = clock.monotonicMs();
  const patienceMs = drawPatienceMs(run, options.own?.receipt);
  const worldSize = options.own?.receipt.worldSize ?? 1;
  const pollMsMax = Math.max(POLL_MS_MAX, (1000 * worldSize) / LOOKS_PER_SECOND_MAX);
  let completeAtMs = Number.POSITIVE_INFINITY;
  let pollMs = POLL_MS_MIN;
  let lastEventMs = Number.NEGATIVE_INFINITY;
  let missing: readonly number[] = [];
  for (let round = 0; ; round++) {
    const waitedMs = clock.monotonicMs() - startMs;
    const isOwnTurn = round === 0 || waitedMs >= Math.min(completeAtMs + patienceMs, options.timeoutMs);
    const look = isOwnTurn ? 'commit' : drawLook(run, worldSize);
    const result = await finaliseOnce(run, { ...options, look });
    if (result.kind === 'committed') return result.checkpoint;
    missing = result.missing ?? missing;
    if (missing.length === 0 && completeAtMs > waitedMs) {
      completeAtMs = waitedMs;
      pollMs = POLL_MS_MIN;
    }
    const version = options.id.version;
    if (round === 0 && options.own) {
      options.onProgress?.({ type: 'delivered', version, missingWriters: missing });
    }
    if (waitedMs >= options.timeoutMs && missing.length > 0) throw await incomplete(run, options, missing);
    if (waitedMs - lastEventMs >= WAITING_EVENT_EVERY_MS) {
      lastEventMs = waitedMs;
      options.onProgress?.({ type: 'waiting', version, missingWriters: missing, waitedMs });
    }
    await clock
      .sleep(Math.max(0, Math.min(pollMs, options.timeoutMs - waitedMs)), options.signal)
      .catch((error: unknown) => {
        throw afterDelivery(run, options, error);
      });
    pollMs = Math.min(pollMsMax, pollMs * 1.5);
  }
}

/**
 * The receipts of a large job fill many list pages. With p pages, one look in p lists them: so all
 * writers together list as many pages of receipts as of the catalog.
 */
function drawLook({ random, store }: RunContext, worldSize: number): 'receipts' | 'catalog' {
  const pages = Math.ceil(worldSize / store.capabilities.maxListKeys);
  return random.fraction() * pages < 1 ? 'receipts' : 'catalog';
}

/**
 * How long a waiting writer leaves the commit to the last writer. The last writer to deliver sees
 * all receipts at its first look, and commits. If each of n writers read n receipts at once, a job
 * of a thousand would send a million requests. If the last writer dies, the waiting writer that
 * drew the shortest time commits.
 */
function drawPatienceMs({ random }: RunContext, own: Receipt | undefined): number {
  const worldSize = own?.worldSize ?? 1;
  // Assumes that all writers have as many files as this one.
  const fileCount = own ? countOf(own).fileCount * worldSize : 0;
  const longestMs =
    Math.min(PATIENCE_MS_MAX, PATIENCE_MS_PER_WRITER * worldSize) +
    Math.min(PATIENCE_MS_OF_FILES_MAX, PATIENCE_MS_PER_FILE * fileCount);
  return (0.5 + random.fraction() / 2) * longestMs;
}

/**
 * Looks once, and commits if everything is there. Throws if the outcome can no longer change. Once
 * a writer has delivered, others may commit its files at any time. If the caller then stops, or the
 * store no longer answers, the error is `OutcomeUnknown`.
 */
export async function finaliseOnce(run: RunContext, options: FinaliseOptions): Promise<Finalised> {
  const { clock, settings } = run;
  const { id, signal } = options;
  const bounds = {
    clock,
    timeoutMs: settings.recordTimeoutMs,
    what: `deciding version ${id.version}`,
    signal,
  };
  try {
    return await withDeadline(bounds, (until, renew) =>
      decideOnce(run, { ...options, signal: until, renew }),
    );
  } catch (error) {
    throw afterDelivery(run, options, error);
  }
}

/**
 * The error for the end of a wait. A survivor gets it as it is. For a writer that has delivered,
 * the outcome is open: `OutcomeUnknown`.
 */
function afterDelivery(run: RunContext, options: FinaliseOptions, error: unknown): unknown {
  if (!options.own || isCheckpointError(error, 'OutcomeUnknown')) return error;
  const isOpen = isUnanswered(error) || isStopOf(error, options.signal);
  return isOpen ? outcomeUnknown(run, options, undefined, error) : error;
}

async function decideOnce(
  run: RunContext,
  options: FinaliseOptions & { readonly renew: () => void },
): Promise<Finalised> {
  const { id, own, signal, renew: onAnswer } = options;
  for (;;) {
    const asked = await run.catalog.ask(
      ({ state }) => precheckCommit(state, id, ownIncarnation(own)),
      signal,
    );
    const { answer: decided, head } = asked;
    if (decided?.kind === 'present-removed') {
      throw new Error('without a manifest a removed checkpoint is never the same');
    }
    if (decided) return settle(run, options, decided, undefined);
    if (options.look === 'catalog') return { kind: 'waiting', missing: null };
    const { chosen, missing, storeTimeMs } = await listReceipts(run, head.state, id, signal);
    if (missing.length > 0 || options.look === 'receipts') return { kind: 'waiting', missing };
    const manifest = await gatherOn(run, head, { id, chosen, own, signal, onAnswer });
    if (!manifest) continue;
    await createRecord(run, manifest.key, manifest.bytes, signal);
    const result = await commit(run, { ...options, head, manifest, storeTimeMs });
    if (result !== 'again') return result;
  }
}

/**
 * `null`: something is missing, and the catalog has changed. A collection may have deleted files
 * that can no longer be committed.
 */
async function gatherOn(
  run: RunContext,
  head: Head,
  options: GatherOptions,
): Promise<AssembledManifest | null> {
  try {
    return await gather(run, options);
  } catch (error) {
    if (!isCheckpointError(error, 'Corrupt')) throw error;
    const { seq } = await run.catalog.read(options.signal);
    if (seq === head.seq) throw error;
    return null;
  }
}

async function commit(
  run: RunContext,
  options: FinaliseOptions & {
    head: Head;
    manifest: AssembledManifest;
    storeTimeMs: number;
  },
): Promise<Finalised | 'again'> {
  const { id, own, manifest, head, runId, signal } = options;
  const txn: Commit & { id: string } = {
    id: newId(run),
    kind: 'commit',
    checkpoint: id,
    own: ownIncarnation(own),
    worldSize: manifest.writers.length,
    writers: manifest.writers,
    manifestKey: manifest.key,
    manifestSha256: manifest.sha256,
    sizeBytes: manifest.sizeBytes,
    storedBytes: manifest.storedBytes,
    fileCount: manifest.fileCount,
    metrics: manifest.metrics,
    bases: manifest.bases,
    suspicions: manifest.suspicions,
    atMs: options.committedAtMs ?? clockTimeMs(options.storeTimeMs),
  };
  const result = await run.catalog.append(txn, { runId: head.runId || runId, head, signal });
  if (result.kind === 'committed') {
    run.retention.note(run, result.head);
    const checkpoint = checkpointsAtHand(result.head.state).find((each) => idEquals(each.id, id));
    // The transaction is in the ring. If the checkpoint is not at hand, it was moved into a page or
    // removed since. Then return what was written.
    return { kind: 'committed', checkpoint: checkpoint ?? committedCheckpoint(txn) };
  }
  if (result.kind === 'unknown') {
    const asked =
      result.head && (await run.catalog.ask(({ state }) => findById(state, id), signal, result.head));
    const present = asked?.answer;
    if (present) return settle(run, options, { kind: 'present', checkpoint: present }, manifest);
    throw outcomeUnknown(run, options, manifest, result.cause);
  }
  const { decision } = result;
  if (decision.kind === 'rejected' && (await mayChange(run.catalog, decision, result.head, signal)))
    return 'again';
  if (decision.kind === 'already') throw new Error('a commit is never decided "already"');
  // It was committed with this manifest and then removed: this commit succeeded all the same.
  if (decision.kind === 'present-removed') return { kind: 'committed', checkpoint: committedCheckpoint(txn) };
  return settle(run, options, decision, manifest);
}

/**
 * Whether another look may decide otherwise. `head` can be older than the receipts, which may refer
 * to a checkpoint committed after it.
 */
async function mayChange(
  catalog: Catalog,
  { reason }: Rejected,
  head: Head,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  if (reason !== 'base-gone') return reason === 'receipts-changed';
  const { seq } = await catalog.read(signal);
  return seq > head.seq;
}

/** The id is decided. Checks that the commit has the caller's files. */
async function settle(
  run: RunContext,
  options: FinaliseOptions,
  answer: Present | Rejected,
  manifest: AssembledManifest | undefined,
): Promise<Finalised> {
  const { id, own, signal } = options;
  if (answer.kind === 'rejected') {
    if (answer.reason === 'unknown') throw outcomeUnknown(run, options, manifest, new Error(answer.message));
    throw rejectionError(answer, context(run, id));
  }
  const { checkpoint } = answer;
  const isSame = manifest && bytesEqual(manifest.sha256, checkpoint.manifestSha256);
  if (!own || isSame) return { kind: 'committed', checkpoint };
  const isOurs = await unlessRemoved(run.catalog, id, signal, () =>
    listsReceipt(run, checkpoint, own, signal),
  );
  if (isOurs === null) throw outcomeUnknown(run, options, manifest, new Error('it was removed meanwhile'));
  if (isOurs) return { kind: 'committed', checkpoint };
  throw new CheckpointError(
    'Fenced',
    `version ${id.version} was committed without the files of this process: another process of writer ${own.position.index} delivered it`,
    { context: { ...context(run, id), writer: own.position.index, overtakenBy: 'process' } },
  );
}

/** Missing writers that a message names; the error's context has all of them. */
const SHOWN_MAX = 16;

async function incomplete(
  run: RunContext,
  options: FinaliseOptions,
  missing: readonly number[],
): Promise<CheckpointError> {
  const { id, timeoutMs, signal } = options;
  const { clock, settings } = run;
  const bounds = {
    clock,
    timeoutMs: settings.recordTimeoutMs,
    what: 'looking up the missing writers',
    signal,
  };
  // The details are optional: if the store does not answer here, the outcome stays the same.
  const details = await withDeadline(bounds, (until) => describeMissing(run, id, missing, until)).catch(() =>
    missing.map((writer) => ({ writer, detail: `writer ${writer} could not be looked up` })),
  );
  const shown = missing.slice(0, SHOWN_MAX).join(', ');
  const more = missing.length > SHOWN_MAX ? ` and ${missing.length - SHOWN_MAX} more` : '';
  const writers = missing.length === 1 ? `writer ${shown} has` : `writers ${shown}${more} have`;
  const says = details
    .slice(0, SHOWN_MAX)
    .map(({ detail }) => detail)
    .join('; ');
  return new CheckpointError(
    'Incomplete',
    `version ${id.version} is not complete: ${writers} not delivered (waited ${Math.round(timeoutMs / 1000)} s); ${says}`,
    { context: { ...context(run, id), missing: details } },
  );
}

export function outcomeUnknown(
  run: RunContext,
  options: Pick<FinaliseOptions, 'id' | 'runId'> & { own?: Pick<OwnReceipt, 'key' | 'sha256'> | undefined },
  manifest: AssembledManifest | undefined,
  cause: unknown,
): CheckpointError {
  const { id, own, runId } = options;
  const receipt = { receiptKey: own?.key, receiptSha256: own?.sha256 };
  const token = writeToken({ of: 'commit', runId, id, manifestSha256: manifest?.sha256, ...receipt });
  const unknown = `it is not known whether version ${id.version} was committed; nothing was deleted`;
  return new CheckpointError('OutcomeUnknown', unknown, {
    context: { ...context(run, id), token },
    cause,
  });
}

function ownIncarnation(own: OwnReceipt | undefined): WriterIncarnation | undefined {
  return own && { writer: own.position.index, incarnation: own.incarnation };
}

function context(run: RunContext, id: CheckpointId) {
  return { store: run.store.uri, version: id.version };
}
