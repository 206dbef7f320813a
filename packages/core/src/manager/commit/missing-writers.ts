/**
 * What the store shows of an uncommitted version, and what that says about each writer. For people:
 * no commit depends on it.
 */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import type { ObjectInfo } from '../../contract/object-store.ts';
import type { MissingWriter } from '../../contract/upkeep.ts';
import {
  checkpointPrefix,
  idEquals,
  parsePayloadKey,
  parseReceiptKey,
  parseUploadId,
  parseUploadKey,
  uploadsPrefix,
  type WriterIncarnation,
} from '../../format/index.ts';
import { type ListedClaim, listClaims } from '../records/index.ts';
import type { RunContext } from '../run/index.ts';

/** Ages are by the store's clock. */
export class Traces {
  /** Receipts of all lives of the writers, including lives that no longer count. */
  readonly receipts: WriterIncarnation[] = [];
  /** Total size of the payload objects present, of all lives. */
  uploadedBytes = 0;
  /** The same, by writer. */
  readonly #writerBytes = new Map<number, number>();
  /** By writer: age of its newest payload object. */
  readonly #payloadAgesMs = new Map<number, number>();
  /** By writer: age of its newest upload in parts that has not ended. */
  readonly #uploadAgesMs = new Map<number, number>();

  /** The store holds nothing of any writer. */
  get isEmpty(): boolean {
    return this.receipts.length + this.#payloadAgesMs.size + this.#uploadAgesMs.size === 0;
  }

  /** Takes any object below the version's prefix. */
  addObject({ key, sizeBytes, createdAtMs }: ObjectInfo, storeTimeMs: number): void {
    const payload = parsePayloadKey(key);
    const receipt = payload === null ? parseReceiptKey(key) : null;
    if (receipt) this.receipts.push(receipt);
    if (payload === null) return;
    this.uploadedBytes += sizeBytes;
    this.#writerBytes.set(payload.writer, this.bytesOf(payload.writer) + sizeBytes);
    keepLower(this.#payloadAgesMs, payload.writer, storeTimeMs - createdAtMs);
  }

  addUpload({ writer, ageMs }: Pick<ListedUpload, 'writer' | 'ageMs'>): void {
    keepLower(this.#uploadAgesMs, writer, ageMs);
  }

  /** Total size of the payload objects of one writer. */
  bytesOf(writer: number): number {
    return this.#writerBytes.get(writer) ?? 0;
  }

  /** `null`: the store holds nothing of this writer. */
  describe(writer: number): string | null {
    const payloadAgeMs = this.#payloadAgesMs.get(writer);
    const uploadAgeMs = this.#uploadAgesMs.get(writer);
    if (uploadAgeMs !== undefined && uploadAgeMs <= (payloadAgeMs ?? Number.POSITIVE_INFINITY))
      return `writer ${writer} began to send a large file ${ageText(uploadAgeMs)} ago`;
    return payloadAgeMs === undefined ? null : `writer ${writer} last uploaded ${ageText(payloadAgeMs)} ago`;
  }
}

function keepLower(lowest: Map<number, number>, key: number, value: number): void {
  lowest.set(key, Math.min(value, lowest.get(key) ?? Number.POSITIVE_INFINITY));
}

export interface ListedUpload {
  readonly id: CheckpointId;
  readonly writer: number;
  readonly ageMs: number;
}

/**
 * Uploads in parts that have a record, whether in progress or left behind. One list page per 1,000.
 */
export async function listRecordedUploads(
  run: RunContext,
  signal: AbortSignal | undefined,
): Promise<ListedUpload[]> {
  const uploads: ListedUpload[] = [];
  for await (const { objects, storeTimeMs } of run.records.list(uploadsPrefix, { signal })) {
    for (const { key, createdAtMs } of objects) {
      const whose = parseUploadId(parseUploadKey(key) ?? '');
      if (whose) uploads.push({ ...whose, ageMs: storeTimeMs - createdAtMs });
    }
  }
  return uploads;
}

/**
 * Cost: one list page per 1,000 objects of the version, per 1,000 claims of its epoch, and per
 * 1,000 uploads of the run.
 */
export async function describeMissing(
  run: RunContext,
  id: CheckpointId,
  missing: readonly number[],
  signal: AbortSignal,
): Promise<MissingWriter[]> {
  const [claims, traces] = await Promise.all([
    listClaims(run, { lineage: id.lineage, epoch: id.epoch, signal }),
    tracesOf(run, id, signal),
  ]);
  return describeEach(missing, { version: id.version, traces, claims });
}

async function tracesOf(run: RunContext, id: CheckpointId, signal: AbortSignal): Promise<Traces> {
  const traces = new Traces();
  for await (const { objects, storeTimeMs } of run.records.list(checkpointPrefix(id), { signal })) {
    for (const object of objects) traces.addObject(object, storeTimeMs);
  }
  for (const upload of await listRecordedUploads(run, signal)) {
    if (idEquals(upload.id, id)) traces.addUpload(upload);
  }
  return traces;
}

/** `claims`: those of the epoch in which the version was begun. */
export function describeEach(
  missing: readonly number[],
  { version, traces, claims }: { version: bigint; traces: Traces; claims: readonly ListedClaim[] },
): MissingWriter[] {
  const claimsOf = Map.groupBy(claims, ({ writer }) => writer);
  return missing.map((writer) => {
    const trace = traces.describe(writer);
    if (trace !== null) return { writer, detail: trace };
    const joined = claimsOf.get(writer) ?? [];
    if (joined.length === 0) return { writer, detail: `writer ${writer} never joined` };
    const ageMs = Math.min(...joined.map((claim) => claim.storeTimeMs - claim.createdAtMs));
    return {
      writer,
      detail: `writer ${writer} joined the run ${ageText(ageMs)} ago and has finished no file of version ${version}`,
    };
  });
}

function ageText(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 90) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.round(minutes / 60)} h`;
}
