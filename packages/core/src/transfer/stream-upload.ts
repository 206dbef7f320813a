import { CheckpointError, throwIfAborted } from '../contract/index.ts';
import { planStream, type StreamPlan } from '../plan/parts.ts';
import type { UploadedFile, UploadItem } from './api.ts';
import { ChunkReader } from './chunk-reader.ts';
import { type Destination, NOTHING, type PartsDestination, type Piece } from './destination.ts';
import { PartChecksums } from './part-checksums.ts';
import { FileProgress } from './progress.ts';
import { retrying } from './retry.ts';
import { FileTurns, type Transfer } from './transfer.ts';

/**
 * A stream is read once, so it is sent once. Each part waits in a slot of the pool until its
 * producer has filled it.
 */
export class StreamUpload {
  readonly #name: string;
  readonly #destination: Destination;
  readonly #transfer: Transfer;
  readonly #reader: ChunkReader;
  readonly #plan: StreamPlan;
  readonly #progress: FileProgress;
  readonly #checksums = new PartChecksums();

  constructor(
    { name }: Pick<UploadItem, 'name'>,
    stream: AsyncIterable<Uint8Array>,
    destination: Destination,
    transfer: Transfer,
  ) {
    this.#name = name;
    this.#destination = destination;
    this.#transfer = transfer;
    this.#reader = new ChunkReader(name, stream, transfer.signal);
    this.#plan = planStream(transfer.settings, transfer.capabilities);
    this.#progress = new FileProgress(name, undefined, transfer.options);
  }

  async send(): Promise<UploadedFile> {
    try {
      const first = await this.#nextPiece(0);
      const isWhole =
        first.bytes.byteLength < this.#plan.partSizeBytes &&
        first.bytes.byteLength <= this.#plan.wholeBytesMax;
      if (isWhole) await this.#destination.admit(first.bytes.byteLength);
      const file = isWhole
        ? await this.#transfer.turn(() => this.#sendWhole(first))
        : await this.#sendParts(first);
      this.#progress.finish(file.sizeBytes);
      return file;
    } catch (error) {
      this.#reader.cancel();
      throw error;
    }
  }

  async #sendWhole(piece: Piece): Promise<UploadedFile> {
    try {
      const key = await this.#destination.sendWhole(piece);
      return {
        name: this.#name,
        key,
        ...this.#checksums.describe(piece.bytes.byteLength, this.#plan.partSizeBytes),
      };
    } finally {
      piece.buffer?.release();
    }
  }

  async #sendParts(first: Piece): Promise<UploadedFile> {
    const { partSizeBytes } = this.#plan;
    const parts = await this.#transfer
      .turn(() => this.#destination.begin(partSizeBytes))
      .catch((error: unknown) => {
        first.buffer?.release();
        throw error;
      });
    try {
      const sizeBytes = await this.#sendAll(first, parts);
      const described = this.#checksums.describe(sizeBytes, partSizeBytes);
      // The producer cannot supply its bytes again, so an error that would need another try is
      // final.
      const policy = this.#transfer.retryPolicy(`upload of the stream "${this.#name}"`, 0);
      await this.#transfer.turn(() => retrying(() => parts.complete(described), policy));
      return { name: this.#name, key: parts.key, ...described };
    } catch (error) {
      await parts.abort();
      throw error;
    }
  }

  /**
   * Sends parts until the stream ends. All requests have ended when it settles. Resolves to the
   * size.
   */
  async #sendAll(first: Piece, parts: PartsDestination): Promise<number> {
    const turns = new FileTurns(this.#transfer, true);
    let sizeBytes = 0;
    try {
      for (
        let piece = first, index = 0;
        piece.bytes.byteLength > 0;
        index += 1, piece = await this.#nextPiece(index)
      ) {
        const sent = piece;
        sizeBytes += sent.bytes.byteLength;
        // Only streams wait in slots, so this blocks no other file.
        await this.#destination.admit(sent.bytes.byteLength);
        await turns.next(() => this.#sendPart(index, sent, parts));
        // Fewer bytes than a part: the stream has ended.
        if (sent.bytes.byteLength < this.#plan.partSizeBytes) break;
        throwIfAborted(this.#transfer.signal);
      }
    } catch (error) {
      this.#transfer.fail(error); // calls in progress stop, and `settled` throws the error
    }
    await turns.settled();
    return sizeBytes;
  }

  async #sendPart(index: number, piece: Piece, parts: PartsDestination): Promise<void> {
    try {
      await parts.sendPart(index, piece);
    } finally {
      piece.buffer?.release();
    }
    this.#progress.add(piece.bytes.byteLength);
  }

  /** The next part in memory. Without bytes and without a buffer if the stream has ended. */
  async #nextPiece(index: number): Promise<Piece> {
    const { partSizeBytes, sizeBytesMax } = this.#plan;
    const buffer = await this.#transfer.pool.acquireSlot(this.#transfer.signal);
    let filled: Uint8Array | undefined;
    try {
      filled = buffer.bytes.subarray(0, await this.#reader.fill(buffer.bytes.subarray(0, partSizeBytes)));
      if (filled.byteLength > 0 && index * partSizeBytes + filled.byteLength > sizeBytesMax)
        throw this.#tooLong();
    } catch (error) {
      buffer.release();
      throw error;
    }
    if (filled.byteLength === 0) {
      buffer.release();
      return NOTHING;
    }
    void this.#transfer.workers.expect(filled.byteLength); // never rejects
    const crc32c = await this.#transfer.workers.crc32c(filled);
    this.#checksums.set(index, crc32c);
    return { bytes: filled, crc32c, buffer };
  }

  #tooLong(): CheckpointError {
    const { partSizeBytes, sizeBytesMax } = this.#plan;
    const message =
      `the stream "${this.#name}" is longer than ${sizeBytesMax} bytes, the most that this store takes in parts of ${partSizeBytes}; ` +
      'save it from a file, or raise partSizeBytesMin';
    return new CheckpointError('Unsupported', message, { context: { name: this.#name } });
  }
}
