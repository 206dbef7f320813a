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
import type { Run } from './run.ts';
import type { RequestCall } from './stall.ts';
import { StoreParts, toSendAgain, wrongSize } from './store-parts.ts';

export class StoreDestination implements Destination {
  readonly #item: UploadItem;
  readonly #run: Run;

  constructor(item: UploadItem, run: Run) {
    this.#item = item;
    this.#run = run;
  }

  admit(sizeBytes: number): Promise<void> {
    return this.#run.admit(sizeBytes);
  }

  giveBack(sizeBytes: number): void {
    this.#run.charge(-sizeBytes);
  }

  /**
   * After a failure with unknown outcome the bytes are sent to a fresh key. The old key needs no
   * check: if its object exists, nothing refers to it.
   */
  sendWhole({ bytes, crc32c, buffer }: Piece): Promise<string> {
    const send = async ({ signal, onBytes }: RequestCall) => {
      const key = this.#item.key();
      try {
        const { sizeBytes } = await this.#run.store.create(key, bytes, { crc32c, signal, onBytes });
        if (sizeBytes !== bytes.byteLength) throw wrongSize(key, bytes.byteLength, sizeBytes);
      } catch (error) {
        if (isCheckpointError(error, 'AlreadyExists')) throw toSendAgain(error, key);
        throw blameTransport(error, bytes, crc32c);
      }
      return key;
    };
    const extras = { buffer, payloadBytes: bytes.byteLength };
    return this.#run.request(`"${this.#item.name}"`, send, extras);
  }

  async begin(partSizeBytes: number, sizeBytes?: number): Promise<PartsDestination> {
    // The content of a stream is not known in advance, so no left upload can match it.
    const resumed = sizeBytes === undefined ? null : await this.#resume(partSizeBytes, sizeBytes);
    return resumed ?? this.#beginAfresh(partSizeBytes, sizeBytes);
  }

  async #beginAfresh(partSizeBytes: number, sizeBytes: number | undefined): Promise<PartsDestination> {
    const what = `begin of "${this.#item.name}"`;
    const abort = (upload: Upload) =>
      this.#run.tidyUp(`abort of ${what}`, (signal) => upload.abort({ signal }));
    const begin = ({ signal }: RequestCall) =>
      this.#run.store.beginUpload(this.#item.key(), { partSizeBytes, sizeBytes, signal });
    const upload = await this.#run.request(what, begin, { onLate: abort });
    // No other process can resume the upload of a stream.
    const item = sizeBytes === undefined ? { ...this.#item, isShared: false } : this.#item;
    const parts = new StoreParts(item, upload, this.#run);
    try {
      await this.#item.onBegun?.(upload, { sizeBytes, signal: this.#run.signal });
    } catch (error) {
      await parts.abort();
      throw error;
    }
    return parts;
  }

  /**
   * Resumes the first left upload that can be resumed. The reason why another cannot does not
   * matter, because then all bytes are sent.
   */
  async #resume(partSizeBytes: number, sizeBytes: number): Promise<PartsDestination | null> {
    const { takeLeft, name } = this.#item;
    const { signal, shared } = this.#run;
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
          `"${name}": an upload that was left is not gone on with: ${code}: ${message}`,
        );
      }
    }
  }

  async #takeOver(left: LeftUpload, partSizeBytes: number): Promise<PartsDestination> {
    const { name } = this.#item;
    const { store } = this.#run;
    const upload = await this.#run.request(`resumption of "${name}"`, ({ signal }) =>
      store.resumeUpload(left.token, { signal }),
    );
    if (upload.key !== left.key || upload.partSizeBytes !== partSizeBytes)
      throw new CheckpointError(
        'Corrupt',
        `the token is of ${upload.key}, in parts of ${upload.partSizeBytes} bytes`,
      );
    const listed = await this.#run.request(`list of the parts of "${name}"`, ({ signal }) =>
      upload.listParts({ signal }),
    );
    left.onResumed(upload);
    return new StoreParts(this.#item, upload, this.#run, listed);
  }
}
