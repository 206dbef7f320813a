/** Reads what the writers of a checkpoint have delivered. */

import type { CheckpointId, WriterPosition } from '../../contract/checkpoint-manager.ts';
import { CheckpointError } from '../../contract/errors.ts';
import {
  bytesEqual,
  type CatalogCheckpoint,
  decodeRecord,
  type FileRecord,
  parseReceiptKey,
  type Receipt,
  receiptKey,
  receiptsPrefix,
  type State,
  sha256,
  type WriterIncarnation,
} from '../../format/index.ts';
import { chooseReceipts, type StoredReceipt } from '../../plan/assemble.ts';
import { receiptPlaces } from '../../plan/file-lists.ts';
import { readManifest } from './manifest.ts';
import type { RunParts } from './parts.ts';
import { getOrNull } from './records.ts';

export interface OwnReceipt extends StoredReceipt {
  readonly position: WriterPosition;
  readonly incarnation: number;
  /** The files of its lists, if they are still in memory. */
  readonly files?: readonly FileRecord[] | undefined;
}

/**
 * `chosen`: the lives whose receipts count, in writer order. `missing`: the writers that have not
 * delivered. `storeTimeMs`: by the store's clock.
 */
export async function listReceipts(
  run: RunParts,
  state: State,
  id: CheckpointId,
  signal: AbortSignal | undefined,
): Promise<{ chosen: WriterIncarnation[]; missing: number[]; storeTimeMs: number }> {
  const listed: WriterIncarnation[] = [];
  let storeTimeMs = 0;
  for await (const page of run.records.list(receiptsPrefix(id), { signal })) {
    storeTimeMs ||= page.storeTimeMs;
    for (const object of page.objects) {
      const parsed = parseReceiptKey(object.key);
      if (parsed) listed.push(parsed);
    }
  }
  return { ...chooseReceipts(listed, state), storeTimeMs };
}

export async function readReceipt(
  run: RunParts,
  id: CheckpointId,
  by: WriterIncarnation,
  signal: AbortSignal,
): Promise<StoredReceipt> {
  const found = await findReceipt(run, id, by, signal);
  if (found) return found;
  const key = receiptKey(id, by.writer, by.incarnation);
  // It was listed, so it did exist. Receipts are deleted only after this epoch has passed, and the
  // next look at the catalog will show that.
  throw new CheckpointError('Unavailable', `${key} was listed but cannot be read`, {
    context: { store: run.store.uri, key },
  });
}

/** `undefined`: there is no such receipt. */
export async function findReceipt(
  run: RunParts,
  id: CheckpointId,
  by: WriterIncarnation,
  signal: AbortSignal | undefined,
): Promise<StoredReceipt | undefined> {
  const key = receiptKey(id, by.writer, by.incarnation);
  const bytes = await getOrNull(run.records, key, signal);
  if (!bytes) return undefined;
  return {
    key,
    sha256: sha256(bytes),
    receipt: decodeRecord('receipt', bytes, { key, store: run.store.uri }),
    recordBytes: bytes.byteLength,
  };
}

/** All receipts of a checkpoint, of every life. `Corrupt`: one of them cannot be read. */
export async function readAllReceipts(
  run: RunParts,
  id: CheckpointId,
  signal: AbortSignal | undefined,
): Promise<Receipt[]> {
  const receipts: Receipt[] = [];
  for await (const { objects } of run.records.list(receiptsPrefix(id), { signal })) {
    for (const { key } of objects) {
      const by = parseReceiptKey(key);
      const found = by && (await findReceipt(run, id, by, signal));
      if (found) receipts.push(found.receipt);
    }
  }
  return receipts;
}

interface ListingOptions {
  readonly signal: AbortSignal | undefined;
  readonly onAnswer?: () => void;
  /** Whether to list all objects of a checkpoint (default), or those that one writer sent. */
  readonly of?: 'checkpoint' | 'share';
}

/** Sizes of objects by key. Memory: the keys of the checkpoints that were listed. */
export class ListedSizes {
  readonly #run: RunParts;
  readonly #options: ListingOptions;
  readonly #listed = new Set<string>();
  readonly #sizes = new Map<string, number>();

  constructor(run: RunParts, options: ListingOptions) {
    this.#run = run;
    this.#options = options;
  }

  /**
   * Lists each checkpoint, or each share, that holds objects of these files, once. One list page
   * per 1,000 objects.
   */
  async learn(files: readonly Pick<FileRecord, 'key'>[]): Promise<void> {
    for (const { key } of files) {
      const names = key.split('/', this.#options.of === 'share' ? 3 : 2);
      const prefix = `${names.join('/')}/`;
      if (this.#listed.has(prefix)) continue;
      this.#listed.add(prefix);
      await this.#list(prefix);
    }
  }

  /** `undefined`: the object was not listed. */
  get(key: string): number | undefined {
    return this.#sizes.get(key);
  }

  async #list(prefix: string): Promise<void> {
    const { signal, onAnswer } = this.#options;
    for await (const page of this.#run.records.list(prefix, { signal })) {
      onAnswer?.();
      for (const object of page.objects) this.#sizes.set(object.key, object.sizeBytes);
    }
  }
}

/**
 * Whether a committed checkpoint was made with exactly this receipt. Tokens of older releases have
 * no `sha256`; then only the key is compared.
 */
export async function listsReceipt(
  run: RunParts,
  checkpoint: CatalogCheckpoint,
  own: { readonly key: string; readonly sha256: Uint8Array | undefined },
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const manifest = await readManifest(run, checkpoint, signal);
  const listed = receiptPlaces(manifest).find(({ key }) => key === own.key);
  if (listed === undefined || own.sha256 === undefined) return listed !== undefined;
  return bytesEqual(listed.sha256, own.sha256);
}
