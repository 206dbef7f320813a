/** Reading what the writers of a checkpoint have delivered. */

import type { CheckpointId, WriterPosition } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import {
  type CatalogCheckpoint,
  checkpointPrefix,
  decodeRecord,
  type FileRecord,
  parsePayloadKey,
  parseReceiptKey,
  receiptKey,
  receiptsPrefix,
  type State,
  sha256,
} from '../format/index.ts';
import { chooseReceipts, receiptProblem, type StoredReceipt } from '../plan/assemble.ts';
import type { WriterLife } from '../plan/transaction.ts';
import type { Engine } from './engine.ts';
import { getByDigest, getOrNull } from './records.ts';

export interface OwnReceipt extends StoredReceipt {
  readonly position: WriterPosition;
  readonly incarnation: number;
}

/** The lives whose receipts count, in writer order; `missing` names the writers that have not delivered. `storeTimeMs`: the store's clock. */
export async function listReceipts(
  engine: Engine,
  state: State,
  id: CheckpointId,
  signal: AbortSignal | undefined,
): Promise<{ chosen: WriterLife[]; missing: number[]; storeTimeMs: number }> {
  const listed: WriterLife[] = [];
  let storeTimeMs = 0;
  for await (const page of engine.records.list(receiptsPrefix(id), { signal })) {
    storeTimeMs ||= page.storeTimeMs;
    for (const object of page.objects) {
      const parsed = parseReceiptKey(object.key);
      if (parsed) listed.push(parsed);
    }
  }
  return { ...chooseReceipts(listed, state), storeTimeMs };
}

/** Reads those that are not the caller's own, all at once, and checks that each belongs there. */
export async function readReceipts(
  engine: Engine,
  chosen: readonly WriterLife[],
  options: {
    id: CheckpointId;
    own: OwnReceipt | undefined;
    worldSize: number;
    signal: AbortSignal | undefined;
  },
): Promise<StoredReceipt[]> {
  const { id, own, worldSize, signal } = options;
  const receipts = await Promise.all(
    chosen.map((life) => {
      const key = receiptKey(id, life.writer, life.incarnation);
      return own?.key === key ? own : readReceipt(engine, key, signal);
    }),
  );
  for (const stored of receipts) {
    const problem = receiptProblem(stored, id, worldSize);
    if (problem) {
      throw new CheckpointError('WorldSizeMismatch', problem, {
        context: { store: engine.store.uri, version: id.version, writer: stored.receipt.writer },
      });
    }
  }
  return receipts;
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

/** Every payload that the receipts name is there with its size, wherever it lies. Looks twice: a listing in pages is no snapshot. */
export async function assertPayloads(
  engine: Engine,
  id: CheckpointId,
  receipts: readonly StoredReceipt[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const wanted = receipts.flatMap(({ receipt }) => receipt.files);
  for (let look = 1; ; look++) {
    const sizes = await listSizes(engine, wanted, signal);
    const wrong = wanted.find((file) => sizes.get(file.key) !== file.sizeBytes);
    if (!wrong) return;
    if (look === 1) continue;
    const found = sizes.get(wrong.key);
    const what = found === undefined ? 'is missing' : `has ${found} bytes`;
    throw new CheckpointError(
      'Corrupt',
      `version ${id.version} cannot be committed: ${wrong.name} (${wrong.key}) was delivered with ${wrong.sizeBytes} bytes but ${what}`,
      { context: { store: engine.store.uri, version: id.version, key: wrong.key, name: wrong.name } },
    );
  }
}

/** Sizes of the objects of files by key, as far as they are there. One list page per 1,000 objects of each checkpoint under which they lie. */
export async function listSizes(
  engine: Engine,
  files: readonly Pick<FileRecord, 'key'>[],
  signal: AbortSignal | undefined,
): Promise<Map<string, number>> {
  const prefixes = new Set<string>();
  for (const file of files) {
    const key = parsePayloadKey(file.key);
    if (key) prefixes.add(checkpointPrefix(key.id));
  }
  const sizes = new Map<string, number>();
  for (const prefix of prefixes) {
    for await (const page of engine.records.list(prefix, { signal })) {
      for (const object of page.objects) sizes.set(object.key, object.sizeBytes);
    }
  }
  return sizes;
}

/** Whether a committed checkpoint was made with this very receipt. */
export async function listsReceipt(
  engine: Engine,
  checkpoint: CatalogCheckpoint,
  own: Pick<OwnReceipt, 'key'>,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { manifestKey: key, manifestSha256 } = checkpoint;
  const bytes = await getByDigest(engine, key, manifestSha256, signal);
  const manifest = decodeRecord('manifest', bytes, { key, store: engine.store.uri });
  return manifest.writers.some((share) => share.receiptKey === own.key);
}
