import { CheckpointError, isCheckpointError, type ObjectInfo, type RandomSource } from '../contract/index.ts';
import { type ReadMemory, readHedged } from './hedged-read.ts';
import { OpenReads } from './open-reads.ts';
import { endsEarly } from './read.ts';
import { retryingRecords } from './records.ts';
import type { RequestCall } from './stall.ts';
import type { Transfer } from './transfer.ts';

/**
 * An object without a record, read at any position. Its bytes cannot be verified. It only
 * guarantees that all bytes are of the object that was opened. See `openObjectSource`.
 */
export class ObjectSource implements RandomSource {
  readonly sizeBytes: number;
  readonly #opened: ObjectInfo;
  readonly #transfer: Transfer;
  readonly #reads: OpenReads;

  private constructor(opened: ObjectInfo, transfer: Transfer) {
    this.sizeBytes = opened.sizeBytes;
    this.#opened = opened;
    this.#transfer = transfer;
    const about = { name: opened.key, sizeBytes: opened.sizeBytes };
    this.#reads = new OpenReads(transfer, about, (startBytes, memory) => this.#readPiece(startBytes, memory));
  }

  /** The transfer ends with the source, or here if the object does not exist. */
  static async open(key: string, transfer: Transfer): Promise<ObjectSource> {
    try {
      return new ObjectSource(await head(key, transfer), transfer);
    } catch (error) {
      await transfer.end();
      throw error;
    }
  }

  async readInto(offsetBytes: number, buffer: Uint8Array): Promise<void> {
    try {
      await this.#reads.readInto(offsetBytes, buffer, () => undefined);
    } catch (error) {
      // The object is gone, or it was replaced while it was read. In both cases the useful error is
      // that the object has changed.
      if (isCheckpointError(error, 'NotFound') || isCheckpointError(error, 'Corrupt'))
        await this.assertUnchanged();
      throw error;
    }
  }

  async assertUnchanged(): Promise<void> {
    const { key, etag, sizeBytes } = this.#opened;
    const now = await this.#reads
      .during(() => head(key, this.#transfer))
      .catch((error: unknown) => {
        throw isCheckpointError(error, 'NotFound') ? this.#changed('is gone', error) : error;
      });
    if (now.etag === etag && now.sizeBytes === sizeBytes) return;
    throw this.#changed(
      `was replaced by another object: ${now.sizeBytes} bytes with etag ${now.etag}; it had ${sizeBytes} bytes with etag ${etag}`,
    );
  }

  close(): Promise<void> {
    return this.#reads.close();
  }

  async #readPiece(startBytes: number, memory: ReadMemory): Promise<void> {
    const { key, etag } = this.#opened;
    const { store } = this.#transfer;
    const lengthBytes = memory.bytes.byteLength;
    const into = (bytes: Uint8Array, { signal, onBytes }: RequestCall) =>
      store.readInto(key, startBytes, bytes, { etag, signal, onBytes });
    const what = `read of ${key} at ${startBytes}`;
    const count = await readHedged(this.#transfer, { what, memory, lengthBytes, into });
    if (count === lengthBytes) return;
    const message = `${key} ${endsEarly(startBytes, count, this.sizeBytes)}`;
    throw new CheckpointError('Corrupt', message, { context: { store: store.uri, key } });
  }

  #changed(what: string, cause?: unknown): CheckpointError {
    const { key } = this.#opened;
    return new CheckpointError('SourceChanged', `${key} ${what}`, {
      context: { store: this.#transfer.store.uri, key },
      cause,
    });
  }
}

function head(key: string, transfer: Transfer): Promise<ObjectInfo> {
  return retryingRecords(transfer.shared).head(key, { signal: transfer.signal });
}
