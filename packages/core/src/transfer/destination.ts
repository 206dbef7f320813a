/** Where an upload sends its bytes: objects of the store, or nowhere when only checksums are wanted. */

import {
  CheckpointError,
  isCheckpointError,
  type ObjectInfo,
  type PartReceipt,
  type Upload,
} from '../contract/index.ts';
import { crc32c as computeCrc32c } from '../format/checksum.ts';
import { hexCrc } from '../plan/ranges.ts';
import type { UploadItem } from './api.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import type { Run } from './run.ts';
import type { RequestCall } from './stall.ts';

/** Bytes in memory, with their checksum. `buffer` owns the memory; none for no bytes. */
export interface Piece {
  readonly bytes: Uint8Array;
  readonly crc32c: number;
  readonly buffer?: PooledBuffer | undefined;
}

/** Of all parts together. */
export interface Whole {
  readonly sizeBytes: number;
  readonly crc32c: number;
}

export interface Destination {
  /** Sends a whole file. Resolves to its key when it is durable. */
  sendWhole(piece: Piece): Promise<string>;
  begin(partSizeBytes: number, sizeBytes?: number): Promise<PartsDestination>;
}

/** One attempt to send a file in parts. */
export interface PartsDestination {
  readonly key: string;
  sendPart(index: number, piece: Piece): Promise<void>;
  /** The object is there, with this size, when it resolves. A temporary error: it is not, and has to be sent again. */
  complete(whole: Whole): Promise<void>;
  /** Gives the attempt up. Takes seconds at most, never throws. */
  abort(): Promise<void>;
}

export const nowhere: Destination = {
  sendWhole: async () => '',
  begin: async () => ({
    key: '',
    sendPart: () => Promise.resolve(),
    complete: () => Promise.resolve(),
    abort: () => Promise.resolve(),
  }),
};

export class StoreDestination implements Destination {
  readonly #item: UploadItem;
  readonly #run: Run;

  constructor(item: UploadItem, run: Run) {
    this.#item = item;
    this.#run = run;
  }

  /**
   * After a failure with unknown outcome the bytes go to a fresh key: nothing has to be found out about the old one, whose object, if it
   * is there, nobody refers to.
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
    return this.#run.request(`"${this.#item.name}"`, send, { buffer });
  }

  async begin(partSizeBytes: number, sizeBytes?: number): Promise<PartsDestination> {
    const what = `begin of "${this.#item.name}"`;
    const abort = (upload: Upload) =>
      this.#run.tidyUp(`abort of ${what}`, (signal) => upload.abort({ signal }));
    const begin = ({ signal }: RequestCall) =>
      this.#run.store.beginUpload(this.#item.key(), { partSizeBytes, sizeBytes, signal });
    const upload = await this.#run.request(what, begin, { onLate: abort });
    const parts = new StoreParts(this.#item, upload, this.#run);
    try {
      await this.#item.onBegun?.(upload, { sizeBytes, signal: this.#run.signal });
    } catch (error) {
      await parts.abort();
      throw error;
    }
    return parts;
  }
}

class StoreParts implements PartsDestination {
  readonly #item: UploadItem;
  readonly #upload: Upload;
  readonly #run: Run;
  readonly #receipts: PartReceipt[] = [];

  constructor(item: UploadItem, upload: Upload, run: Run) {
    this.#item = item;
    this.#upload = upload;
    this.#run = run;
  }

  get key(): string {
    return this.#upload.key;
  }

  get #name(): string {
    return this.#item.name;
  }

  async sendPart(index: number, { bytes, crc32c, buffer }: Piece): Promise<void> {
    const send = async ({ signal, onBytes }: RequestCall) => {
      try {
        const receipt = await this.#upload.putPart(index, bytes, { crc32c, signal, onBytes });
        assertReceipt(receipt, index, bytes.byteLength, crc32c);
        return receipt;
      } catch (error) {
        throw blameTransport(error, bytes, crc32c);
      }
    };
    this.#receipts[index] = await this.#run.request(`part ${index} of "${this.#name}"`, send, { buffer });
  }

  async complete(whole: Whole): Promise<void> {
    const found = await this.#complete(this.#receipts, whole)
      .catch((error: unknown) => this.#completeListed(error, whole))
      .catch((error: unknown) => this.#look(error));
    if (found.sizeBytes !== whole.sizeBytes) throw wrongSize(this.key, whole.sizeBytes, found.sizeBytes);
    this.#item.onEnded?.(this.#upload);
  }

  async abort(): Promise<void> {
    await this.#run.tidyUp(`abort of the upload of "${this.#name}"`, async (signal) => {
      await this.#upload.abort({ signal });
      this.#item.onEnded?.(this.#upload);
    });
  }

  #complete(parts: readonly PartReceipt[], whole: Whole): Promise<ObjectInfo> {
    const { sizeBytes, crc32c } = whole;
    const send = ({ signal }: RequestCall) => this.#upload.complete(parts, { sizeBytes, crc32c, signal });
    return this.#run.request(`completion of "${this.#name}"`, send);
  }

  /** A late copy of a part we sent twice has replaced it: the same bytes under another name. */
  async #completeListed(error: unknown, whole: Whole): Promise<ObjectInfo> {
    if (!isCheckpointError(error, 'InvalidArgument')) throw error;
    const what = `list of the parts of "${this.#name}"`;
    const listed = await this.#run.request(what, ({ signal }) => this.#upload.listParts({ signal }));
    if (!this.#receipts.every((own, index) => isSamePart(own, listed[index])))
      throw toSendAgain(error, this.key);
    return this.#complete(listed.slice(0, this.#receipts.length), whole);
  }

  /** The upload is gone: an earlier completion, whose answer was lost, may have used it up. Nobody else knows the key. */
  async #look(error: unknown): Promise<ObjectInfo> {
    if (isCheckpointError(error, 'Corrupt') || isCheckpointError(error, 'InvalidArgument'))
      throw toSendAgain(error, this.key);
    if (!isCheckpointError(error, 'NotFound') && !isCheckpointError(error, 'AlreadyExists')) throw error;
    try {
      return await this.#run.request(`look at "${this.#name}"`, ({ signal }) =>
        this.#run.store.head(this.key, { signal }),
      );
    } catch (headError) {
      throw isCheckpointError(headError, 'NotFound') ? toSendAgain(error, this.key) : headError;
    }
  }
}

/** The code stays what the store said, unless it speaks of a key that callers never see; the status says that a fresh key may do better. */
function toSendAgain(error: CheckpointError, key: string): CheckpointError {
  const message = `the object cannot be made under this key: ${error.message}`;
  return new CheckpointError(error.code === 'AlreadyExists' ? 'Unavailable' : error.code, message, {
    context: { ...error.context, key },
    cause: error,
    status: 'temporary',
  });
}

function wrongSize(key: string, expected: number, found: number): CheckpointError {
  const message = `the store made an object of ${found} bytes out of ${expected}`;
  const context = { key, expected: String(expected), found: String(found) };
  return new CheckpointError('Corrupt', message, { context, status: 'temporary' });
}

/** A store that refused the checksum received other bytes than we have, if ours are still what they were: sending again may help. */
function blameTransport(error: unknown, bytes: Uint8Array, crc32c: number): unknown {
  if (!isCheckpointError(error, 'Corrupt') || error.status === 'temporary' || computeCrc32c(bytes) !== crc32c)
    return error;
  return new CheckpointError('Corrupt', error.message, {
    context: error.context,
    cause: error,
    status: 'temporary',
  });
}

function assertReceipt(receipt: PartReceipt, index: number, sizeBytes: number, crc32c: number): void {
  const isRight =
    receipt.index === index && receipt.sizeBytes === sizeBytes && (receipt.crc32c ?? crc32c) === crc32c;
  if (isRight) return;
  const found = `part ${receipt.index} of ${receipt.sizeBytes} bytes${receipt.crc32c === undefined ? '' : `, ${hexCrc(receipt.crc32c)}`}`;
  const expected = `part ${index} of ${sizeBytes} bytes, ${hexCrc(crc32c)}`;
  throw new CheckpointError('Corrupt', `the store has ${found} where ${expected} was sent`, {
    context: { expected, found },
    status: 'temporary',
  });
}

function isSamePart(own: PartReceipt, listed: PartReceipt | undefined): boolean {
  if (listed?.index !== own.index || listed.sizeBytes !== own.sizeBytes) return false;
  return own.crc32c === undefined || listed.crc32c === undefined || listed.crc32c === own.crc32c;
}
