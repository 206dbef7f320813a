/**
 * Assembles the one manifest from the receipts of all writers. Pure: every process that builds it
 * gets the same bytes.
 */

import { isCheckpointError } from '../contract/errors.ts';
import { METRIC_COUNT_MAX } from '../contract/ranges.ts';
import {
  type CheckpointId,
  checkpointPrefix,
  type EncodedRecord,
  encodeRecord,
  type FileRecord,
  idEquals,
  idText,
  type Manifest,
  manifestKey,
  type Receipt,
  type ReceiptRef,
  receiptKey,
  type State,
  type WriterIncarnation,
  type WriterShare,
} from '../format/index.ts';
import { type RecordLimits, receiptRef } from './file-lists.ts';
import { incarnationOf } from './state.ts';
import { totalBytes } from './stored-file.ts';

/** A receipt in the store. */
export interface StoredReceipt {
  readonly key: string;
  readonly sha256: Uint8Array;
  readonly receipt: Receipt;
  /** Size of the record. */
  readonly recordBytes: number;
}

export interface AssembledManifest {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly sha256: Uint8Array;
  readonly sizeBytes: number;
  /** The part of `sizeBytes` in objects of this checkpoint, not in those of its bases. */
  readonly storedBytes: number;
  readonly fileCount: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly bases: readonly CheckpointId[];
  /** As many as the catalog accepts. */
  readonly suspicions: readonly string[];
  /** Writers whose receipts it consists of, in writer order. */
  readonly writers: readonly WriterIncarnation[];
}

/**
 * Selects the receipts that count from a listing (of writer and incarnation): those of the current
 * incarnation of each writer 0 to n - 1. `missing`: writers without one.
 */
export function chooseReceipts<T extends { writer: number; incarnation: number }>(
  listed: readonly T[],
  state: State,
): { chosen: T[]; missing: number[] } {
  const chosen: T[] = [];
  const missing: number[] = [];
  const current = new Map(
    listed
      .filter(({ writer, incarnation }) => incarnation === incarnationOf(state, writer))
      .map((each) => [each.writer, each]),
  );
  for (let writer = 0; writer < state.worldSize; writer++) {
    const found = current.get(writer);
    if (found) chosen.push(found);
    else missing.push(writer);
  }
  return { chosen, missing };
}

/**
 * Why a receipt does not belong under its key, in checkpoint `id` of a run with `worldSize`
 * writers; `undefined`: it does.
 */
export function receiptProblem(
  { key, receipt }: StoredReceipt,
  id: CheckpointId,
  worldSize: number,
): string | undefined {
  const of = `the receipt of writer ${receipt.writer}`;
  if (key !== receiptKey(id, receipt.writer, receipt.incarnation) || !idEquals(receipt.id, id)) {
    return `${of}.${receipt.incarnation} of ${idText(receipt.id)} lies under ${key}`;
  }
  if (receipt.worldSize !== worldSize) {
    return `${of} says ${receipt.worldSize} writers, the run has ${worldSize}`;
  }
  return undefined;
}

/**
 * Assembles a manifest while receipts arrive, in writer order; the functions above have checked
 * each. It holds their files only while the manifest may repeat them.
 */
export class Assembly {
  readonly #id: CheckpointId;
  readonly #worldSize: number;
  readonly #limits: RecordLimits;
  readonly #refs: ReceiptRef[] = [];
  readonly #union = new Union();
  /** `undefined`: there are too many. */
  #shares: WriterShare[] | undefined = [];
  #recordBytes = 0;
  #storedBytes = 0;

  constructor(id: CheckpointId, worldSize: number, limits: RecordLimits) {
    this.#id = id;
    this.#worldSize = worldSize;
    this.#limits = limits;
  }

  add(stored: StoredReceipt): void {
    const { key, sha256: receiptSha256, receipt } = stored;
    const { writer, incarnation, files, taken, directories } = receipt;
    this.#recordBytes += stored.recordBytes;
    this.#refs.push(receiptRef(stored, this.#worldSize));
    const isSmall = this.#recordBytes <= this.#limits.repeatedBytesMax && receipt.fileLists.length === 0;
    const life = { writer, incarnation, receiptKey: key, receiptSha256 };
    const share: Required<WriterShare> = { ...life, files, taken, directories };
    if (isSmall) this.#shares?.push(share);
    else this.#shares = undefined;
    // Metadata that the manifest does not repeat need not be held.
    this.#union.add(this.#shares ? receipt : { ...receipt, metadata: {} });
  }

  /** Adds files of all receipts, in any order. */
  addFiles(files: readonly FileRecord[]): void {
    const prefix = checkpointPrefix(this.#id);
    this.#storedBytes += totalBytes(files.filter(({ key }) => key.startsWith(prefix)));
  }

  finish(): AssembledManifest {
    const { bases, metrics, metadata, suspicions } = this.#union;
    const head = { format: undefined, id: this.#id, worldSize: this.#worldSize };
    const said = { bases, metrics, metadata, suspicions };
    const { bytes, sha256 } =
      (this.#shares && encodedIfItFits({ ...head, ...said, writers: this.#shares, receipts: [] })) ??
      encodeRecord('manifest', { ...head, ...NOTHING_REPEATED, receipts: this.#refs });
    return {
      key: manifestKey(this.#id, sha256),
      bytes,
      sha256,
      sizeBytes: totalBytes(this.#refs),
      storedBytes: this.#storedBytes,
      fileCount: this.#refs.reduce((sum, { fileCount }) => sum + fileCount, 0),
      metrics,
      bases,
      suspicions: this.#union.fewSuspicions,
      writers: this.#refs.map(({ incarnation }, writer) => ({ writer, incarnation })),
    };
  }
}

/**
 * `undefined`: readers would refuse it. Many small entries of metadata take more memory than their
 * bytes show.
 */
function encodedIfItFits(manifest: Manifest): EncodedRecord | undefined {
  try {
    return encodeRecord('manifest', manifest);
  } catch (error) {
    if (isCheckpointError(error, 'InvalidArgument')) return undefined;
    throw error;
  }
}

const NOTHING_REPEATED = { writers: [], bases: [], metrics: {}, metadata: {}, suspicions: [] };

/**
 * Maximum characters of suspicions in the catalog. One writer has at most two, of at most three
 * names each.
 */
const SUSPICIONS_LENGTH_MAX = 8000;

/** The combined content of a checkpoint's receipts, apart from their files. */
export class Union {
  readonly #bases = new Map<string, CheckpointId>();
  readonly #suspicions = new Set<string>();
  readonly metrics: Record<string, number> = Object.create(null);
  readonly metadata: Record<string, string> = Object.create(null);

  /** Call it in writer order: if names clash, the lowest writer's value counts. */
  add(said: Pick<Receipt, 'bases' | 'suspicions' | 'metrics' | 'metadata'>): void {
    for (const base of said.bases) this.#bases.set(idText(base), base);
    for (const suspicion of said.suspicions) this.#suspicions.add(suspicion);
    addMissing(this.metadata, said.metadata);
    const room = METRIC_COUNT_MAX - Object.keys(this.metrics).length;
    const added = Object.entries(said.metrics).filter(([name]) => !(name in this.metrics));
    addMissing(this.metrics, Object.fromEntries(added.slice(0, room)));
  }

  get bases(): CheckpointId[] {
    return [...this.#bases.values()].sort(compareIds);
  }

  get suspicions(): string[] {
    return [...this.#suspicions];
  }

  /** As many as the catalog repeats: it holds them for the life of the checkpoint. */
  get fewSuspicions(): string[] {
    const few: string[] = [];
    let length = 0;
    for (const suspicion of this.#suspicions) {
      length += suspicion.length;
      if (length > SUSPICIONS_LENGTH_MAX) break;
      few.push(suspicion);
    }
    const left = this.#suspicions.size - few.length;
    return left === 0 ? few : [...few, few.length === 0 ? `${left} suspicions` : `and ${left} more`];
  }
}

function addMissing<T>(all: Record<string, T>, more: Readonly<Record<string, T>>): void {
  for (const [name, value] of Object.entries(more)) if (!(name in all)) all[name] = value;
}

/** By lineage, epoch, version. */
export function compareIds(a: CheckpointId, b: CheckpointId): number {
  return a.lineage - b.lineage || a.epoch - b.epoch || (a.version < b.version ? -1 : 1);
}
