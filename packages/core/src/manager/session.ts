/** One writer's part in one checkpoint: upload, deliver, finalise. `save()` and `create()` both go through here. */

import type {
  CheckpointId,
  CommitMeta,
  CommitWaitOptions,
  ProgressEvent,
  WaitOptions,
} from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import { compareUtf8 } from '../contract/object-key.ts';
import {
  type CatalogCheckpoint,
  decodeRecord,
  encodeRecord,
  type FileRecord,
  payloadKey,
  type Receipt,
  receiptKey,
  sha256,
} from '../format/index.ts';
import { totalBytes } from '../plan/assemble.ts';
import { sameContent } from '../plan/same-content.ts';
import type { TransferOptions, UploadedFile } from '../transfer/index.ts';
import type { Catalog } from './catalog.ts';
import { withDeadline } from './deadline.ts';
import type { Engine } from './engine.ts';
import { type FinaliseOptions, finalise, finaliseOnce, outcomeUnknown } from './finalise.ts';
import type { Membership } from './join.ts';
import { recorderOf } from './left-uploads.ts';
import type { OwnReceipt } from './receipts.ts';
import { createRecord, isUnanswered } from './records.ts';
import type { NamedSource } from './sources.ts';

const NONCE_DIGITS = 16;

export class SaveSession {
  readonly id: CheckpointId;
  readonly membership: Membership;
  readonly #engine: Engine;
  readonly #catalog: Catalog;
  #receipt: OwnReceipt | undefined;

  constructor(engine: Engine, catalog: Catalog, membership: Membership, version: bigint) {
    this.#engine = engine;
    this.#catalog = catalog;
    this.membership = membership;
    this.id = { lineage: membership.lineage, epoch: membership.epoch, version };
  }

  /** Sends the sources; nothing of it is visible to readers. Every call, and every repeat of an object, has names of its own. */
  async upload(sources: readonly NamedSource[], options: WaitOptions): Promise<UploadedFile[]> {
    const { writer, incarnation } = this.membership;
    const nonce = this.#engine.random.hex(NONCE_DIGITS);
    const life = { id: this.id, writer: writer.index, incarnation };
    const recorderFor = recorderOf(this.#engine, life, options.onProgress);
    const items = sources.map(({ name, source }) => {
      let sends = 0;
      const key = () =>
        payloadKey({
          id: this.id,
          writer: writer.index,
          incarnation,
          nonce: sends++ === 0 ? nonce : this.#engine.random.hex(NONCE_DIGITS),
          name,
        });
      return { name, key, source, ...recorderFor(name) };
    });
    return this.#engine.transfer.upload(items, transferOptions(options));
  }

  /** Writes the receipt: from now on the files of this writer count, whatever becomes of this process. */
  async deliver(
    files: readonly UploadedFile[],
    meta: Required<CommitMeta>,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const share = {
      files: files.map(fileRecord),
      metrics: meta.metrics ?? {},
      metadata: meta.metadata ?? {},
    };
    this.#receipt = await deliver(this.#engine, { ...this.membership, id: this.id, ...share }, signal);
  }

  /** Waits for the commit that lists this writer's receipt, or makes it. */
  async finalise(options: CommitWaitOptions): Promise<CatalogCheckpoint> {
    const checkpoint = await finalise(this.#engine, this.#catalog, this.#finaliseOptions(options));
    options.onProgress?.({ type: 'committed', id: this.id });
    return checkpoint;
  }

  /** One look instead of waiting: commits if this writer was the last. */
  async finaliseOnce(
    options: WaitOptions,
  ): Promise<{ isCommitted: boolean; missingWriters: readonly number[] }> {
    const result = await finaliseOnce(
      this.#engine,
      this.#catalog,
      this.#finaliseOptions({ ...options, timeoutMs: 0 }),
    );
    const isCommitted = result.kind === 'committed';
    const missingWriters = result.kind === 'waiting' ? result.missing : [];
    options.onProgress?.(
      isCommitted
        ? { type: 'committed', id: this.id }
        : { type: 'delivered', version: this.id.version, missingWriters },
    );
    return { isCommitted, missingWriters };
  }

  #finaliseOptions(options: CommitWaitOptions): FinaliseOptions {
    return {
      id: this.id,
      runId: this.membership.runId,
      own: this.#receipt,
      timeoutMs: options.timeoutMs ?? this.#engine.settings.commitTimeoutMs,
      signal: options.signal,
      onProgress: options.onProgress,
    };
  }
}

/** What one writer has to say of its files. */
export interface Delivery extends Pick<Membership, 'runId' | 'writer' | 'incarnation'> {
  readonly id: CheckpointId;
  readonly files: readonly FileRecord[];
  readonly metrics: Record<string, number>;
  readonly metadata: Record<string, string>;
}

/** Writes the receipt, or takes one of this writer's life that says the same. `Conflict` if it says something else. */
export async function deliver(
  engine: Engine,
  { id, runId, writer, incarnation, files, metrics, metadata }: Delivery,
  signal: AbortSignal | undefined,
): Promise<OwnReceipt> {
  const key = receiptKey(id, writer.index, incarnation);
  const receipt: Receipt = {
    format: undefined,
    id,
    writer: writer.index,
    incarnation,
    worldSize: writer.count,
    files: [...files].sort((a, b) => compareUtf8(a.name, b.name)),
    bases: [],
    metrics,
    metadata,
    suspicions: [],
  };
  const { bytes } = encodeRecord('receipt', receipt);
  const { clock, settings } = engine;
  const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what: 'writing the receipt', signal };
  const created = await withDeadline(bounds, (until) => createRecord(engine, key, bytes, until)).catch(
    (error: unknown) => {
      // It may be there, and then the peers may commit it.
      if (!isUnanswered(error)) throw error;
      throw outcomeUnknown(engine, { id, runId, signal, own: { key } }, undefined, error);
    },
  );
  const life = { key, position: writer, incarnation };
  if (created.isOurs) return { ...life, sha256: sha256(bytes), receipt };
  const found = decodeRecord('receipt', created.bytes, { key, store: engine.store.uri });
  // This process delivered this version before: the same content stands, other content cannot replace it.
  if (sameContent(found.files, files)) return { ...life, sha256: sha256(created.bytes), receipt: found };
  throw new CheckpointError(
    'Conflict',
    `writer ${writer.index} has already delivered version ${id.version}, with other content`,
    { context: { store: engine.store.uri, key, version: id.version, writer: writer.index } },
  );
}

/** Progress of bytes and repeats, as the caller wants to hear of it. */
export function transferOptions(options: WaitOptions): TransferOptions {
  const { signal, onProgress } = options;
  if (!onProgress) return { signal };
  return {
    signal,
    onBytes: (name, doneBytes, totalBytes) => onProgress({ type: 'bytes', name, doneBytes, totalBytes }),
    onRetry: (detail) => onProgress({ type: 'retry', detail }),
  };
}

export function plannedEvent(
  version: bigint,
  files: readonly { readonly name: string; readonly sizeBytes: number }[],
): ProgressEvent {
  return {
    type: 'planned',
    version,
    fileCount: files.length,
    sizeBytes: totalBytes(files),
    files: files.map(({ name, sizeBytes }) => ({ name, sizeBytes })),
  };
}

function fileRecord(file: UploadedFile): FileRecord {
  return {
    name: file.name,
    key: file.key,
    sizeBytes: file.sizeBytes,
    crc32c: file.crc32c,
    partSizeBytes: file.partSizeBytes,
    partCrc32c: file.partCrc32c,
    blake3: new Uint8Array(0),
    mode: file.mode ?? 0,
  };
}
