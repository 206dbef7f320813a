/**
 * A record of every upload in parts while it is under way, so that one which its process leaves behind can be found: the store shows
 * nothing of it. Only where the store can resume uploads; elsewhere nobody but their process could do anything about them.
 */

import type { CheckpointId } from '../contract/checkpoint-manager.ts';
import { CheckpointError } from '../contract/errors.ts';
import type { Upload } from '../contract/object-store.ts';
import { encodeRecord, uploadIdPrefix, uploadKey } from '../format/index.ts';
import type { UploadItem } from '../transfer/index.ts';
import { withDeadline } from './deadline.ts';
import { type Engine, newId, type RecordIo } from './engine.ts';
import { createRecord, deleteForTidiness } from './records.ts';

/** What an upload is for. */
export interface UploadPurpose {
  readonly id: CheckpointId;
  readonly writer: number;
  readonly incarnation: number;
  /** Logical name. */
  readonly name: string;
  /** −1: the length of the source is not known. */
  readonly sizeBytes: number;
}

/** Whose uploads, for which checkpoint. */
export interface UploadOwner extends Pick<UploadPurpose, 'id' | 'writer' | 'incarnation'> {
  /** Other processes may send as the same incarnation, at the same time. */
  readonly isShared: boolean;
}

/** What an incarnation has sent is its own affair while it may still be sending, unless the owner is a process of the same life. */
export function mayGoOnWith(owner: UploadOwner, incarnation: number): boolean {
  return incarnation < owner.incarnation || (owner.isShared && incarnation === owner.incarnation);
}

export class UploadRecords {
  readonly #engine: RecordIo;
  /** Of uploads under way. */
  readonly #keys = new Map<Upload, string>();
  /** Records of uploads that have ended. */
  readonly #due: string[] = [];
  #deleting: Promise<void> | undefined;

  constructor(engine: RecordIo) {
    this.#engine = engine;
  }

  /** Resolves when the record is durable; no part may be sent before. The token may be a secret: it goes nowhere but into the record. */
  async write(upload: Upload, purpose: UploadPurpose, signal: AbortSignal): Promise<void> {
    const key = uploadKey(`${uploadIdPrefix(purpose.id, purpose.writer)}${newId(this.#engine)}`);
    const { token, partSizeBytes } = upload;
    const record = { format: undefined, ...purpose, key: upload.key, token, partSizeBytes };
    const { bytes } = encodeRecord('upload', record);
    const { clock, settings } = this.#engine;
    const what = `writing the record of the upload of "${purpose.name}"`;
    const bounds = { clock, timeoutMs: settings.recordTimeoutMs, what, signal };
    this.#keys.set(upload, key); // before it is sent: the record of a failed call may be there
    const { isOurs } = await withDeadline(bounds, (until) => createRecord(this.#engine, key, bytes, until));
    if (isOurs) return;
    this.#keys.delete(upload);
    throw new CheckpointError('Unavailable', `${what}: ${key} is taken`, { context: { key } });
  }

  /** An upload that another process has recorded under `key` goes on in this one. */
  adopt(upload: Upload, key: string): void {
    this.#keys.set(upload, key);
  }

  /** This process has not ended the upload that is recorded under `key`. */
  isOpenHere(key: string): boolean {
    return [...this.#keys.values()].includes(key);
  }

  /** The upload is completed or aborted. Its record is deleted in passing, together with others that are due by then. */
  ended(upload: Upload): void {
    const key = this.#keys.get(upload);
    if (key === undefined) return;
    this.#keys.delete(upload);
    this.#due.push(key);
    this.#deleting ??= this.#deleteDue();
  }

  /** Waits for records that are being deleted; seconds at most, where the store does not answer. Never throws. */
  async settled(): Promise<void> {
    await this.#deleting;
  }

  /** A record that stays is harmless: whoever follows it finds no upload. */
  async #deleteDue(): Promise<void> {
    while (this.#due.length > 0)
      await deleteForTidiness(this.#engine, this.#due.splice(0), 'deleting upload records');
    this.#deleting = undefined;
  }
}

/** An upload in parts has a record while it is under way, where another process could do something about it. */
export function recordingOf(
  { store, uploads }: Engine,
  purpose: Omit<UploadPurpose, 'sizeBytes'>,
): Pick<UploadItem, 'onBegun' | 'onEnded'> {
  if (!store.capabilities.resumesUploads) return {};
  return {
    onBegun: (upload, { sizeBytes = -1, signal }) => uploads.write(upload, { ...purpose, sizeBytes }, signal),
    onEnded: (upload) => uploads.ended(upload),
  };
}
