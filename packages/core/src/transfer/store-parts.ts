/** Uploads a file in parts: sends the parts, and makes sure that the resulting object is right. */

import {
  CheckpointError,
  isCheckpointError,
  type ObjectInfo,
  type PartReceipt,
  type Upload,
} from '../contract/index.ts';
import { md5 } from '../format/checksum.ts';
import { differenceFrom, hexCrc } from '../plan/ranges.ts';
import type { UploadItem } from './api.ts';
import { blameTransport, CHANGED_ADVICE } from './changed-on-the-way.ts';
import type { PartsDestination, Piece, WholeFile } from './destination.ts';
import type { RequestCall } from './stall.ts';
import type { Transfer } from './transfer.ts';

/** The object that the upload has become. */
interface Made {
  readonly object: ObjectInfo;
  /**
   * True: the store confirmed that it made the object of our parts. False: the object was found
   * under the key and may be another process's.
   */
  readonly isAcknowledged: boolean;
}

/**
 * One try to send a file in parts. The upload was begun here, or left by another process of the
 * writer that may still be sending. A part of a left upload is kept only if it equals what this
 * process read from its own source. If another process may send to the upload, the finished object
 * is compared as a whole. After any error of such an upload the file is sent again under a key of
 * this process, unless the store is unreachable.
 */
export class StoreParts implements PartsDestination {
  readonly #item: UploadItem;
  readonly #upload: Upload;
  readonly #transfer: Transfer;
  readonly #receipts: PartReceipt[] = [];
  /** Parts that existed when the upload was resumed, by index; absent: it was begun here. */
  readonly #left: ReadonlyMap<number, PartReceipt> | undefined;
  /** Another process may send parts to the upload, complete it or abort it. */
  readonly #isShared: boolean;
  #keptBytes = 0;
  /** The error because of which this upload can no longer succeed. */
  #lost: CheckpointError | undefined;

  /** `left`: the upload is another process's, and the store holds these parts of it. */
  constructor(item: UploadItem, upload: Upload, transfer: Transfer, left?: readonly PartReceipt[]) {
    this.#item = item;
    this.#upload = upload;
    this.#transfer = transfer;
    this.#left = left && new Map(left.map((part) => [part.index, part]));
    this.#isShared = left !== undefined || item.isShared === true;
  }

  get key(): string {
    return this.#upload.key;
  }

  get #name(): string {
    return this.#item.name;
  }

  async sendPart(index: number, piece: Piece): Promise<void> {
    const left = this.#left?.get(index);
    if (left && isLeftPiece(left, piece)) {
      this.#receipts[index] = { ...left, crc32c: piece.crc32c };
      this.#keptBytes += left.sizeBytes;
      this.#transfer.charge(-left.sizeBytes);
      return;
    }
    // The upload has failed, so the other parts are not sent. An error here would end the whole
    // call. The error of `complete` only makes the file be sent again.
    if (this.#lost) return;
    try {
      this.#receipts[index] = await this.#sendPart(index, piece);
    } catch (error) {
      this.#lost = this.#verdict(error);
    }
  }

  async complete(whole: WholeFile): Promise<void> {
    if (this.#lost) throw this.#lost;
    try {
      await this.#makeRight(whole);
    } catch (error) {
      throw this.#verdict(error);
    }
    this.#item.onEnded?.(this.#upload);
    if (this.#keptBytes > 0) this.#item.onKept?.(this.#keptBytes);
  }

  async abort(): Promise<void> {
    await this.#transfer.tidyUp(`abort of the upload of "${this.#name}"`, async (signal) => {
      await this.#upload.abort({ signal });
      this.#item.onEnded?.(this.#upload);
    });
  }

  #sendPart(index: number, { bytes, crc32c, buffer }: Piece): Promise<PartReceipt> {
    const send = async ({ signal, onBytes }: RequestCall) => {
      try {
        const receipt = await this.#upload.putPart(index, bytes, { crc32c, signal, onBytes });
        assertReceipt(receipt, index, bytes.byteLength, crc32c);
        return receipt;
      } catch (error) {
        throw blameTransport(error, bytes, crc32c);
      }
    };
    const extras = { buffer, payloadBytes: bytes.byteLength };
    return this.#transfer.request(`part ${index} of "${this.#name}"`, send, extras);
  }

  /**
   * A permanent error is final for the file, with two exceptions. The file of a shared
   * upload is sent again under a fresh key. An upload that is gone was ended by others: by a later
   * life of this writer that has resumed it, or by a rule of the bucket.
   */
  #verdict(error: unknown): CheckpointError {
    if (!isCheckpointError(error) || error.status !== 'permanent' || this.#transfer.signal.aborted)
      throw error;
    if (!this.#isShared && error.code !== 'NotFound') throw error;
    return toSendAgain(error, this.key);
  }

  async #makeRight(whole: WholeFile): Promise<void> {
    const { object, isAcknowledged } = await this.#make(whole);
    if (object.sizeBytes !== whole.sizeBytes) throw wrongSize(this.key, whole.sizeBytes, object.sizeBytes);
    if (this.#isShared) assertLike(isAcknowledged ? await this.#head() : object, whole, isAcknowledged);
    if (!this.#isShared) assertStored(object, whole);
  }

  #make(whole: WholeFile): Promise<Made> {
    return this.#complete(this.#receipts, whole)
      .catch((error: unknown) => this.#completeListed(error, whole))
      .then((object) => ({ object, isAcknowledged: true }))
      .catch((error: unknown) => this.#look(error));
  }

  #complete(parts: readonly PartReceipt[], whole: WholeFile): Promise<ObjectInfo> {
    const { sizeBytes, crc32c } = whole;
    const send = ({ signal }: RequestCall) => this.#upload.complete(parts, { sizeBytes, crc32c, signal });
    return this.#transfer.request(`completion of "${this.#name}"`, send);
  }

  /**
   * A late duplicate of a part may have replaced it: the same bytes under another name. If another
   * process may have sent other bytes, only a checksum tells.
   */
  async #completeListed(error: unknown, whole: WholeFile): Promise<ObjectInfo> {
    if (!isCheckpointError(error, 'InvalidArgument')) throw error;
    const what = `list of the parts of "${this.#name}"`;
    const listed = await this.#transfer.request(what, ({ signal }) => this.#upload.listParts({ signal }));
    const isSame = (own: PartReceipt, index: number) => isSamePart(own, listed[index], this.#isShared);
    if (!this.#receipts.every(isSame)) throw toSendAgain(error, this.key);
    return this.#complete(listed.slice(0, this.#receipts.length), whole);
  }

  /**
   * The upload is gone. An earlier completion whose answer was lost may have made the object, or
   * one by a former life.
   */
  async #look(error: unknown): Promise<Made> {
    if (isCheckpointError(error, 'Corrupt') || isCheckpointError(error, 'InvalidArgument'))
      throw toSendAgain(error, this.key);
    if (!isCheckpointError(error, 'NotFound') && !isCheckpointError(error, 'AlreadyExists')) throw error;
    try {
      return { object: await this.#head(), isAcknowledged: false };
    } catch (headError) {
      throw isCheckpointError(headError, 'NotFound') ? toSendAgain(error, this.key) : headError;
    }
  }

  #head(): Promise<ObjectInfo> {
    return this.#transfer.request(`look at "${this.#name}"`, ({ signal }) =>
      this.#transfer.store.head(this.key, { signal }),
    );
  }
}

/** MD5 costs as much as sending on a fast network, so it is computed only if there is no CRC32C. */
function isLeftPiece(left: PartReceipt, { bytes, crc32c }: Piece): boolean {
  if (left.sizeBytes !== bytes.byteLength) return false;
  return left.crc32c === undefined
    ? left.md5 !== undefined && left.md5 === md5(bytes)
    : left.crc32c === crc32c;
}

/**
 * Compares the object of a shared upload with our source. If the store keeps no checksum of
 * objects, its confirmation that it used the parts we named is enough: each part was compared when
 * it was kept or sent. An object that was only found under the key may have other bytes.
 */
function assertLike(found: ObjectInfo, whole: WholeFile, isAcknowledged: boolean): void {
  const isLike = found.crc32c === undefined ? isAcknowledged : found.crc32c === whole.crc32c;
  if (isLike && found.sizeBytes === whole.sizeBytes) return;
  const said = `${found.sizeBytes} bytes${found.crc32c === undefined ? '' : `, ${hexCrc(found.crc32c)}`}`;
  const expected = `${whole.sizeBytes} bytes, ${hexCrc(whole.crc32c)}`;
  const message = `an upload that another process may have sent to became an object of ${said}, which may not be the ${expected} of the source`;
  const context = { key: found.key, expected, found: said };
  throw new CheckpointError('Corrupt', message, { context, status: 'temporary' });
}

/**
 * Checks an object that only this process has sent, as far as the store reports it. The checksum
 * was sent with it. If the answer was lost, the object was looked up anyway. So this check costs no
 * request.
 */
export function assertStored(made: ObjectInfo, sent: Pick<WholeFile, 'crc32c'>): void {
  const difference = differenceFrom(sent.crc32c, made);
  if (difference === null) return;
  throw new CheckpointError('Corrupt', difference.message, {
    context: difference.context,
    status: 'temporary',
  });
}

/** Codes about an upload or a key, which callers never see. */
const NOT_FOR_CALLERS: readonly string[] = ['AlreadyExists', 'NotFound'];

/**
 * Keeps the code of the store unless callers must not see it. The status says that a fresh key may
 * succeed.
 */
export function toSendAgain(error: CheckpointError, key: string): CheckpointError {
  const message = `the object cannot be made under this key: ${error.message}`;
  return new CheckpointError(NOT_FOR_CALLERS.includes(error.code) ? 'Unavailable' : error.code, message, {
    context: { ...error.context, key, ...(error.code === 'Corrupt' && { advice: CHANGED_ADVICE }) },
    cause: error,
    status: 'temporary',
  });
}

export function wrongSize(key: string, expected: number, found: number): CheckpointError {
  const message = `the store made an object of ${found} bytes out of ${expected}`;
  const context = { key, expected: String(expected), found: String(found), advice: CHANGED_ADVICE };
  return new CheckpointError('Corrupt', message, { context, status: 'temporary' });
}

function assertReceipt(receipt: PartReceipt, index: number, sizeBytes: number, crc32c: number): void {
  const isRight =
    receipt.index === index && receipt.sizeBytes === sizeBytes && (receipt.crc32c ?? crc32c) === crc32c;
  if (isRight) return;
  const found = `part ${receipt.index} of ${receipt.sizeBytes} bytes${receipt.crc32c === undefined ? '' : `, ${hexCrc(receipt.crc32c)}`}`;
  const expected = `part ${index} of ${sizeBytes} bytes, ${hexCrc(crc32c)}`;
  throw new CheckpointError('Corrupt', `the store has ${found} where ${expected} was sent`, {
    context: { expected, found, advice: CHANGED_ADVICE },
    status: 'temporary',
  });
}

function isSamePart(own: PartReceipt, listed: PartReceipt | undefined, needsChecksum: boolean): boolean {
  if (listed?.index !== own.index || listed.sizeBytes !== own.sizeBytes) return false;
  if (needsChecksum) return own.crc32c !== undefined && listed.crc32c === own.crc32c;
  return own.crc32c === undefined || listed.crc32c === undefined || listed.crc32c === own.crc32c;
}
