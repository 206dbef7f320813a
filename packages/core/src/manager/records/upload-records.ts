/**
 * Records of uploads in parts that are in progress. Through them an upload that its process left
 * behind can be found, because the store may not show it. They are written only if the store can
 * resume uploads: otherwise only the uploading process could use them.
 */

import type { CheckpointId } from '../../contract/checkpoint-manager.ts';
import { CheckpointError, unlessAborted } from '../../contract/errors.ts';
import type { ObjectStore, Upload } from '../../contract/object-store.ts';
import { encodeRecord, uploadIdPrefix, uploadKey } from '../../format/index.ts';
import type { UploadItem } from '../../transfer/index.ts';
import { withDeadline, withLastLook } from './deadline.ts';
import { newId, type RecordIo } from './record-io.ts';
import { createRecord, deleteForTidiness } from './records.ts';

/** Purpose of an upload. */
export interface UploadPurpose {
  readonly id: CheckpointId;
  readonly writer: number;
  readonly incarnation: number;
  /** Logical name. */
  readonly name: string;
  /** −1: the length of the source is unknown. */
  readonly sizeBytes: number;
}

/** The writer and the checkpoint of an upload. */
export interface UploadOwner extends Pick<UploadPurpose, 'id' | 'writer' | 'incarnation'> {
  /** Other processes may send as the same incarnation at the same time. */
  readonly isShared: boolean;
}

/**
 * Whether this owner may resume uploads of an incarnation: of an earlier one, or of its own if
 * other processes share it. Any other upload belongs to a process that may still be sending.
 */
export function mayGoOnWith(owner: UploadOwner, incarnation: number): boolean {
  return incarnation < owner.incarnation || (owner.isShared && incarnation === owner.incarnation);
}

export class UploadRecords {
  readonly #run: RecordIo;
  /** Record keys of uploads in progress. */
  readonly #keys = new Map<Upload, string>();
  /** Records of uploads that have ended. */
  readonly #due: string[] = [];
  #deleting: Promise<void> | undefined;

  constructor(run: RecordIo) {
    this.#run = run;
  }

  /**
   * Resolves when the record is durable. No part may be sent before. The token may be a secret:
   * store it only in the record.
   */
  async write(upload: Upload, purpose: UploadPurpose, signal: AbortSignal): Promise<void> {
    const key = uploadKey(`${uploadIdPrefix(purpose.id, purpose.writer)}${newId(this.#run)}`);
    const { token, partSizeBytes } = upload;
    const record = { format: undefined, ...purpose, key: upload.key, token, partSizeBytes };
    const { bytes } = encodeRecord('upload', record);
    const { clock, settings } = this.#run;
    const what = `writing the record of the upload of "${purpose.name}"`;
    const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
    // Set before the request: after a failed call the record may still be there.
    this.#keys.set(upload, key);
    const { isOurs } = await withDeadline(bounds, (until) => createRecord(this.#run, key, bytes, until));
    if (isOurs) return;
    this.#keys.delete(upload);
    throw new CheckpointError('Unavailable', `${what}: ${key} is taken`, { context: { key } });
  }

  /** This process continues an upload that another process has recorded under `key`. */
  adopt(upload: Upload, key: string): void {
    this.#keys.set(upload, key);
  }

  /** Whether the upload recorded under `key` is still open in this process. */
  isOpenHere(key: string): boolean {
    return [...this.#keys.values()].includes(key);
  }

  /**
   * The upload is completed or aborted. Its record is deleted in the background, together with
   * others that are due.
   */
  ended(upload: Upload): void {
    const key = this.#keys.get(upload);
    if (key === undefined) return;
    this.#keys.delete(upload);
    this.#due.push(key);
    this.#deleting ??= this.#deleteDue();
  }

  /**
   * Waits for records that are being deleted: seconds at most if the store does not answer, and a
   * second after the signal. Never throws.
   */
  async settled(signal?: AbortSignal): Promise<void> {
    const { clock } = this.#run;
    const deleting = this.#deleting ?? Promise.resolve();
    await withLastLook(clock, signal, (late) => unlessAborted(deleting, late)).catch(() => undefined);
  }

  /** A record that stays does no harm: a process that follows it finds no upload. */
  async #deleteDue(): Promise<void> {
    while (this.#due.length > 0)
      await deleteForTidiness(this.#run, this.#due.splice(0), 'deleting upload records');
    this.#deleting = undefined;
  }
}

/** Records an upload in parts while it is in progress, if another process could resume it. */
export function recordingOf(
  { store, uploads }: { store: ObjectStore; uploads: UploadRecords },
  purpose: Omit<UploadPurpose, 'sizeBytes'>,
): Pick<UploadItem, 'onBegun' | 'onEnded'> {
  if (!store.capabilities.resumesUploads) return {};
  return {
    onBegun: (upload, { sizeBytes = -1, signal }) => uploads.write(upload, { ...purpose, sizeBytes }, signal),
    onEnded: (upload) => uploads.ended(upload),
  };
}
