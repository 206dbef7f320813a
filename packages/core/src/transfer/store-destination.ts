/** Sends files to objects of the store. */

import {
  CheckpointError,
  isCheckpointError,
  throwIfAborted,
  toCheckpointError,
  type Upload,
} from '../contract/index.ts';
import type { LeftUpload, UploadItem } from './api.ts';
import { blameTransport } from './changed-on-the-way.ts';
import type { Destination, PartsDestination, Piece } from './destination.ts';
import type { RequestCall } from './stall.ts';
import { assertStored, StoreParts, toSendAgain, wrongSize } from './store-parts.ts';
import type { Transfer } from './transfer.ts';

export class StoreDestination implements Destination {
  readonly #item: UploadItem;
  readonly #transfer: Transfer;

  constructor(item: UploadItem, transfer: Transfer) {
    this.#item = item;
    this.#transfer = transfer;
  }

  admit(sizeBytes: number): Promise<void> {
    return this.#transfer.admit(sizeBytes);
  }

  giveBack(sizeBytes: number): void {
    this.#transfer.charge(-sizeBytes);
  }

  /**
   * After a failure with unknown outcome the bytes are sent to a fresh key. The old key needs no
   * check: if its object exists, nothing refers to it.
   */
  sendWhole({ bytes, crc32c, buffer }: Piece): Promise<string> {
    const send = async ({ signal, onBytes }: RequestCall) => {
      const key = this.#item.key();
      try {
        const made = await this.#transfer.store.create(key, bytes, { crc32c, signal, onBytes });
        const { sizeBytes } = made;
        if (sizeBytes !== bytes.byteLength) throw wrongSize(key, bytes.byteLength, sizeBytes);
        assertStored(made, { crc32c });
      } catch (error) {
        if (isCheckpointError(error, 'AlreadyExists')) throw toSendAgain(error, key);
        throw blameTransport(error, bytes, crc32c);
      }
      return key;
    };
    const extras = { buffer, payloadBytes: bytes.byteLength };
    return this.#transfer.request(`"${this.#item.name}"`, send, extras);
  }

  async begin(partSizeBytes: number, sizeBytes?: number): Promise<PartsDestination> {
    // The content of a stream is not known in advance, so no left upload can match it.
    const resumed = sizeBytes === undefined ? null : await this.#resume(partSizeBytes, sizeBytes);
    return resumed ?? this.#beginAfresh(partSizeBytes, sizeBytes);
  }

  async #beginAfresh(partSizeBytes: number, sizeBytes: number | undefined): Promise<PartsDestination> {
    const what = `begin of "${this.#item.name}"`;
    const abort = (upload: Upload) =>
      this.#transfer.tidyUp(`abort of ${what}`, (signal) => upload.abort({ signal }));
    const begin = ({ signal }: RequestCall) =>
      this.#transfer.store.beginUpload(this.#item.key(), { partSizeBytes, sizeBytes, signal });
    const upload = await this.#transfer.request(what, begin, { onLate: abort });
    // No other process can resume the upload of a stream.
    const item = sizeBytes === undefined ? { ...this.#item, isShared: false } : this.#item;
    const parts = new StoreParts(item, upload, this.#transfer);
    try {
      await this.#item.onBegun?.(upload, { sizeBytes, signal: this.#transfer.signal });
    } catch (error) {
      await parts.abort();
      throw error;
    }
    return parts;
  }

  /**
   * Resumes the first left upload that can be resumed. The errors of others are only logged: if no
   * upload can be resumed, all bytes are sent.
   */
  async #resume(partSizeBytes: number, sizeBytes: number): Promise<PartsDestination | null> {
    const { takeLeft, name } = this.#item;
    const { signal, shared } = this.#transfer;
    for (;;) {
      const left = await takeLeft?.({ partSizeBytes, sizeBytes, signal });
      if (!left) return null;
      try {
        return await this.#takeOver(left, partSizeBytes);
      } catch (error) {
        throwIfAborted(signal);
        const { code, message } = toCheckpointError(error);
        shared.logger.log(
          'info',
          `"${name}": an upload that was left cannot be resumed: ${code}: ${message}`,
        );
      }
    }
  }

  async #takeOver(left: LeftUpload, partSizeBytes: number): Promise<PartsDestination> {
    const { name } = this.#item;
    const { store } = this.#transfer;
    const upload = await this.#transfer.request(`resumption of "${name}"`, ({ signal }) =>
      store.resumeUpload(left.token, { signal }),
    );
    if (upload.key !== left.key || upload.partSizeBytes !== partSizeBytes)
      throw new CheckpointError(
        'Corrupt',
        `the token is of ${upload.key}, in parts of ${upload.partSizeBytes} bytes`,
      );
    const listed = await this.#transfer.request(`list of the parts of "${name}"`, ({ signal }) =>
      upload.listParts({ signal }),
    );
    left.onResumed(upload);
    return new StoreParts(this.#item, upload, this.#transfer, listed);
  }
}
