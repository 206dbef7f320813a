/**
 * From delivered receipts to a committed checkpoint. Anybody may do it at any time: every writer tries, and so does a survivor.
 */

import type { CheckpointId, ProgressEvent, WriterPosition } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import {
  bytesEqual,
  type CatalogCheckpoint,
  checkpointPrefix,
  decodeRecord,
  idText,
  parseReceiptKey,
  receiptKey,
  receiptsPrefix,
  sha256,
} from '../format/index.ts';
import { committedCheckpoint, precheckCommit } from '../plan/apply-commit.ts';
import {
  type AssembledManifest,
  assembleManifest,
  chooseReceipts,
  nameClash,
  receiptProblem,
  type StoredReceipt,
} from '../plan/assemble.ts';
import type { Present, Rejected } from '../plan/decision.ts';
import type { Commit, WriterLife } from '../plan/transaction.ts';
import { type Catalog, type Head, rejectionError } from './catalog.ts';
import { type Engine, newId } from './engine.ts';
import { describeMissing } from './missing-writers.ts';
import { createRecord, getByDigest, getOrNull } from './records.ts';
import { writeToken } from './recover.ts';

export interface OwnReceipt extends StoredReceipt {
  readonly position: WriterPosition;
  readonly incarnation: number;
}

export interface FinaliseOptions {
  readonly id: CheckpointId;
  readonly runId: string;
  /** The caller's own receipt: success means that the commit lists it. Absent for a survivor. */
  readonly own?: OwnReceipt | undefined;
  readonly timeoutMs: number;
  readonly signal: AbortSignal | undefined;
  readonly onProgress: ((event: ProgressEvent) => void) | undefined;
}

export type Finalised =
  | { readonly kind: 'committed'; readonly checkpoint: CatalogCheckpoint }
  | { readonly kind: 'waiting'; readonly missing: readonly number[] };

const POLL_MS_MIN = 20;
const POLL_MS_MAX = 2000;
const WAITING_EVENT_EVERY_MS = 1000;

/** Waits until the checkpoint is committed, committing it as soon as all receipts are there. `Incomplete` after `timeoutMs`. */
export async function finalise(
  engine: Engine,
  catalog: Catalog,
  options: FinaliseOptions,
): Promise<CatalogCheckpoint> {
  const { clock } = engine;
  const startMs = clock.monotonicMs();
  let pollMs = POLL_MS_MIN;
  let lastEventMs = Number.NEGATIVE_INFINITY;
  for (let round = 0; ; round++) {
    const result = await finaliseOnce(engine, catalog, options);
    if (result.kind === 'committed') return result.checkpoint;
    const { missing } = result;
    const waitedMs = clock.monotonicMs() - startMs;
    const version = options.id.version;
    if (round === 0 && options.own)
      options.onProgress?.({ type: 'delivered', version, missingWriters: missing });
    if (waitedMs >= options.timeoutMs) throw await incomplete(engine, options, missing);
    if (waitedMs - lastEventMs >= WAITING_EVENT_EVERY_MS) {
      lastEventMs = waitedMs;
      options.onProgress?.({ type: 'waiting', version, missingWriters: missing, waitedMs });
    }
    await clock.sleep(Math.min(pollMs, options.timeoutMs - waitedMs), options.signal);
    pollMs = Math.min(POLL_MS_MAX, pollMs * 1.5);
  }
}

/** One look: commits if everything is there. Throws what can no longer change. */
export async function finaliseOnce(
  engine: Engine,
  catalog: Catalog,
  options: FinaliseOptions,
): Promise<Finalised> {
  const { id, own, signal } = options;
  for (;;) {
    const head = await catalog.read(signal);
    const decided = precheckCommit(head.state, id, life(own));
    if (decided?.kind === 'present-removed')
      throw new Error('without a manifest a removed checkpoint is never the same');
    if (decided) return settle(engine, options, decided, undefined);
    const { receipts, missing } = await readReceipts(engine, head, options);
    if (missing.length > 0) return { kind: 'waiting', missing };
    const clash = nameClash(receipts);
    if (clash)
      throw new CheckpointError('Conflict', `version ${id.version} cannot be committed: ${clash}`, {
        context: context(engine, id),
      });
    await assertPayloads(engine, id, receipts, signal);
    const manifest = assembleManifest(id, receipts);
    await createRecord(engine, manifest.key, manifest.bytes, signal);
    const result = await commit(engine, catalog, { ...options, head, manifest, receipts });
    if (result !== 'again') return result;
  }
}

async function commit(
  engine: Engine,
  catalog: Catalog,
  options: FinaliseOptions & { head: Head; manifest: AssembledManifest; receipts: readonly StoredReceipt[] },
): Promise<Finalised | 'again'> {
  const { id, own, manifest, receipts, head, runId, signal } = options;
  const txn: Commit & { id: string } = {
    id: newId(engine),
    kind: 'commit',
    checkpoint: id,
    own: life(own),
    worldSize: receipts.length,
    writers: receipts.map(({ receipt }) => ({ writer: receipt.writer, incarnation: receipt.incarnation })),
    manifestKey: manifest.key,
    manifestSha256: manifest.sha256,
    sizeBytes: manifest.sizeBytes,
    fileCount: manifest.fileCount,
    metrics: manifest.metrics,
    bases: manifest.bases,
    atMs: Math.round(engine.clock.nowMs()),
  };
  const result = await catalog.append(txn, { runId: head.runId || runId, head, signal });
  if (result.kind === 'committed') {
    const checkpoint = result.head.state.checkpoints.find(
      (each) => each.id && idText(each.id) === idText(id),
    );
    // Ours is in the ring but the checkpoint may have been retired and removed since: then what we wrote is the answer.
    return { kind: 'committed', checkpoint: checkpoint ?? committedCheckpoint(txn) };
  }
  if (result.kind === 'unknown') {
    const present = result.head?.state.checkpoints.find((each) => each.id && idText(each.id) === idText(id));
    if (present) return settle(engine, options, { kind: 'present', checkpoint: present }, manifest);
    throw outcomeUnknown(engine, options, manifest, result.cause);
  }
  const { decision } = result;
  if (decision.kind === 'rejected' && decision.reason === 'receipts-changed') return 'again';
  if (decision.kind === 'already') throw new Error('a commit is never decided "already"');
  // With our own manifest it was committed and then removed: the commit was ours all the same.
  if (decision.kind === 'present-removed') return { kind: 'committed', checkpoint: committedCheckpoint(txn) };
  return settle(engine, options, decision, manifest);
}

/** The id is decided: is it with the caller's files? */
async function settle(
  engine: Engine,
  options: FinaliseOptions,
  answer: Present | Rejected,
  manifest: AssembledManifest | undefined,
): Promise<Finalised> {
  const { id, own, signal } = options;
  if (answer.kind === 'rejected') {
    if (answer.reason === 'unknown')
      throw outcomeUnknown(engine, options, manifest, new Error(answer.message));
    throw rejectionError(answer, context(engine, id));
  }
  const { checkpoint } = answer;
  const isSame = manifest && bytesEqual(manifest.sha256, checkpoint.manifestSha256);
  if (!own || isSame || (await listsReceipt(engine, checkpoint, own, signal)))
    return { kind: 'committed', checkpoint };
  throw new CheckpointError(
    'Fenced',
    `version ${id.version} was committed without the files of this process: another process of writer ${own.position.index} delivered it`,
    { context: context(engine, id) },
  );
}

async function listsReceipt(
  engine: Engine,
  checkpoint: CatalogCheckpoint,
  own: OwnReceipt,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { manifestKey: key, manifestSha256 } = checkpoint;
  const bytes = await getByDigest(engine, key, manifestSha256, signal);
  const manifest = decodeRecord('manifest', bytes, { key, store: engine.store.uri });
  return manifest.writers.some(
    (share) => share.receiptKey === own.key && bytesEqual(share.receiptSha256, own.sha256),
  );
}

async function readReceipts(
  engine: Engine,
  head: Head,
  { id, own, signal }: FinaliseOptions,
): Promise<{ receipts: StoredReceipt[]; missing: number[] }> {
  const listed: WriterLife[] = [];
  for await (const page of engine.records.list(receiptsPrefix(id), { signal })) {
    for (const object of page.objects) {
      const parsed = parseReceiptKey(object.key);
      if (parsed) listed.push(parsed);
    }
  }
  const { chosen, missing } = chooseReceipts(listed, head.state);
  if (missing.length > 0) return { receipts: [], missing };
  const receipts = await Promise.all(
    chosen.map((life) => {
      const key = receiptKey(id, life.writer, life.incarnation);
      return own?.key === key ? own : readReceipt(engine, key, signal);
    }),
  );
  for (const { receipt } of receipts) {
    const problem = receiptProblem(receipt, id, head.state.worldSize);
    if (problem)
      throw new CheckpointError('WorldSizeMismatch', problem, {
        context: { ...context(engine, id), writer: receipt.writer },
      });
  }
  return { receipts, missing };
}

async function readReceipt(
  engine: Engine,
  key: string,
  signal: AbortSignal | undefined,
): Promise<StoredReceipt> {
  const bytes = await getOrNull(engine.records, key, signal);
  if (!bytes) {
    // It was listed, so it had been there: whoever deletes receipts has passed this epoch, and the next look will say so.
    throw new CheckpointError('Unavailable', `${key} was listed but cannot be read`, {
      context: { store: engine.store.uri, key },
    });
  }
  return {
    key,
    sha256: sha256(bytes),
    receipt: decodeRecord('receipt', bytes, { key, store: engine.store.uri }),
  };
}

/** Every payload that the receipts name is there with its size. Looks twice: a listing in pages is no snapshot. */
async function assertPayloads(
  engine: Engine,
  id: CheckpointId,
  receipts: readonly StoredReceipt[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const prefix = checkpointPrefix(id);
  const wanted = receipts
    .flatMap(({ receipt }) => receipt.files)
    .filter((file) => file.key.startsWith(prefix));
  for (let look = 1; ; look++) {
    const sizes = new Map<string, number>();
    for await (const page of engine.records.list(prefix, { signal })) {
      for (const object of page.objects) sizes.set(object.key, object.sizeBytes);
    }
    const wrong = wanted.find((file) => sizes.get(file.key) !== file.sizeBytes);
    if (!wrong) return;
    if (look === 1) continue;
    const found = sizes.get(wrong.key);
    const what = found === undefined ? 'is missing' : `has ${found} bytes`;
    throw new CheckpointError(
      'Corrupt',
      `version ${id.version} cannot be committed: ${wrong.name} (${wrong.key}) was delivered with ${wrong.sizeBytes} bytes but ${what}`,
      { context: { ...context(engine, id), key: wrong.key, name: wrong.name } },
    );
  }
}

async function incomplete(
  engine: Engine,
  options: FinaliseOptions,
  missing: readonly number[],
): Promise<CheckpointError> {
  const { id, timeoutMs, signal } = options;
  const details = await describeMissing(engine, id, missing, signal);
  const writers = missing.length === 1 ? `writer ${missing[0]} has` : `writers ${missing.join(', ')} have`;
  const says = details.map(({ detail }) => detail).join('; ');
  return new CheckpointError(
    'Incomplete',
    `version ${id.version} is not complete: ${writers} not delivered (waited ${Math.round(timeoutMs / 1000)} s); ${says}`,
    { context: { ...context(engine, id), missing: details } },
  );
}

function outcomeUnknown(
  engine: Engine,
  options: FinaliseOptions,
  manifest: AssembledManifest | undefined,
  cause: unknown,
): CheckpointError {
  const { id, own, runId } = options;
  const token = writeToken({ runId, id, manifestSha256: manifest?.sha256, receiptKey: own?.key });
  return new CheckpointError(
    'OutcomeUnknown',
    `whether version ${id.version} was committed cannot be known now; nothing was deleted`,
    { context: { ...context(engine, id), token }, ...(cause instanceof Error && { cause }) },
  );
}

function life(own: OwnReceipt | undefined): WriterLife | undefined {
  return own && { writer: own.position.index, incarnation: own.incarnation };
}

function context(engine: Engine, id: CheckpointId) {
  return { store: engine.store.uri, version: id.version };
}
