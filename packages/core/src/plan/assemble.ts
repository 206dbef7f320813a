/** From the receipts of all writers to the one manifest. Pure: whoever builds it writes the same bytes. */

import {
  type CheckpointId,
  checkpointPrefix,
  encodeRecord,
  type FileRecord,
  idEquals,
  idText,
  manifestKey,
  type Receipt,
  receiptKey,
  type State,
} from '../format/index.ts';
import { incarnationOf } from './state.ts';

/** A receipt as it lies in the store. */
export interface StoredReceipt {
  readonly key: string;
  readonly sha256: Uint8Array;
  readonly receipt: Receipt;
}

export interface AssembledManifest {
  readonly key: string;
  readonly bytes: Uint8Array;
  readonly sha256: Uint8Array;
  readonly sizeBytes: number;
  /** Of `sizeBytes`: what lies in objects of this checkpoint, not in those of its bases. */
  readonly storedBytes: number;
  readonly fileCount: number;
  readonly metrics: Readonly<Record<string, number>>;
  readonly bases: readonly CheckpointId[];
  readonly suspicions: readonly string[];
}

/**
 * Of the receipts listed (as writer and incarnation), those that count: the current incarnation of each writer 0 to n - 1.
 * `missing`: writers without one.
 */
export function chooseReceipts<T extends { writer: number; incarnation: number }>(
  listed: readonly T[],
  state: State,
): { chosen: T[]; missing: number[] } {
  const chosen: T[] = [];
  const missing: number[] = [];
  const current = new Map(
    listed
      .filter((life) => life.incarnation === incarnationOf(state, life.writer))
      .map((life) => [life.writer, life]),
  );
  for (let writer = 0; writer < state.worldSize; writer++) {
    const found = current.get(writer);
    if (found) chosen.push(found);
    else missing.push(writer);
  }
  return { chosen, missing };
}

/** Why a receipt does not belong where it lies, in checkpoint `id` of a run with `worldSize` writers; `undefined`: it does. */
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

/** Two writers that delivered a file of one name, or one a file and the other a directory of that name; `undefined`: none. */
export function nameClash(receipts: readonly StoredReceipt[]): string | undefined {
  const owner = new Map<string, number>();
  for (const { receipt } of receipts) {
    for (const file of receipt.files) {
      const other = owner.get(file.name);
      if (other !== undefined) return `writers ${other} and ${receipt.writer} both delivered "${file.name}"`;
      owner.set(file.name, receipt.writer);
    }
  }
  for (const [name, writer] of owner) {
    for (let end = name.lastIndexOf('/'); end > 0; end = name.lastIndexOf('/', end - 1)) {
      const other = owner.get(name.slice(0, end));
      if (other !== undefined) {
        return `writer ${other} delivered "${name.slice(0, end)}" as a file, writer ${writer} as a directory ("${name}")`;
      }
    }
  }
  return undefined;
}

/** `receipts`: one per writer, in writer order, checked by the functions above. */
export function assembleManifest(id: CheckpointId, receipts: readonly StoredReceipt[]): AssembledManifest {
  const files = receipts.flatMap(({ receipt }) => receipt.files);
  const bases = unionOfBases(receipts);
  const suspicions = [...new Set(receipts.flatMap(({ receipt }) => receipt.suspicions))];
  const metrics = unionByLowestWriter(receipts.map(({ receipt }) => receipt.metrics));
  const { bytes, sha256 } = encodeRecord('manifest', {
    format: undefined,
    id,
    worldSize: receipts.length,
    writers: receipts.map(({ key, sha256: receiptSha256, receipt }) => ({
      writer: receipt.writer,
      incarnation: receipt.incarnation,
      receiptKey: key,
      receiptSha256,
      files: receipt.files,
      taken: receipt.taken,
    })),
    bases,
    metrics,
    metadata: unionByLowestWriter(receipts.map(({ receipt }) => receipt.metadata)),
    suspicions,
    receipts: [],
  });
  return {
    key: manifestKey(id, sha256),
    bytes,
    sha256,
    sizeBytes: totalBytes(files),
    storedBytes: totalBytes(files.filter(({ key }) => key.startsWith(checkpointPrefix(id)))),
    fileCount: files.length,
    metrics,
    bases,
    suspicions,
  };
}

export function totalBytes(files: readonly Pick<FileRecord, 'sizeBytes'>[]): number {
  return files.reduce((sum, file) => sum + file.sizeBytes, 0);
}

function unionOfBases(receipts: readonly StoredReceipt[]): CheckpointId[] {
  const all = new Map<string, CheckpointId>();
  for (const { receipt } of receipts) for (const base of receipt.bases) all.set(idText(base), base);
  return [...all.values()].sort(
    (a, b) => a.lineage - b.lineage || a.epoch - b.epoch || (a.version < b.version ? -1 : 1),
  );
}

function unionByLowestWriter<T>(maps: readonly Readonly<Record<string, T>>[]): Record<string, T> {
  return Object.assign(Object.create(null), ...[...maps].reverse());
}
