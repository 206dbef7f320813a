/**
 * Sends one file. Each part is read into memory of the pool, checksummed there once, and sent from
 * there. The memory is returned when the store has settled the call. Several parts are in progress
 * at once, so one is read while others are sent.
 */

import {
  type BytesInMemory,
  type CheckpointError,
  type RandomSource,
  unchangedBytes,
} from '../contract/index.ts';
import { MatchingFiles } from '../plan/known-files.ts';
import { planWholeParts } from '../plan/parts.ts';
import type { FinishedObject, UploadedFile, UploadItem } from './api.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import { copyInStore } from './copy-in-store.ts';
import { type Destination, NOTHING, nowhere, type PartsDestination, type Piece } from './destination.ts';
import type { LentFile } from './lent-file.ts';
import { OrderedHash } from './ordered-hash.ts';
import { PartChecksums } from './part-checksums.ts';
import { FileProgress } from './progress.ts';
import { retrying } from './retry.ts';
import { changedWhileRead } from './second-reading.ts';
import { StreamUpload } from './stream-upload.ts';
import { FileTurns, type Transfer } from './transfer.ts';
import type { Workers } from './workers.ts';

/**
 * An object that is missing or damaged after sending is sent again from the beginning. Needing a
 * second repeat is very unlikely.
 */
const RESENDS_MAX = 2;

/** Sends one item. Its source is closed when this settles. */
export function uploadFile(
  item: UploadItem,
  destination: Destination,
  transfer: Transfer,
): Promise<UploadedFile> {
  const { source } = item;
  if ('stream' in source)
    return transfer.inStreamSeat(() => new StreamUpload(item, source.stream, destination, transfer).send());
  if ('bytes' in source) return new SourceUpload(item, bytesSource(source), destination, transfer).send();
  if ('lent' in source) return uploadLent(item, source.lent, destination, transfer);
  return uploadSource(item, () => source.open(), destination, transfer);
}

async function uploadLent(
  item: UploadItem,
  lent: LentFile,
  destination: Destination,
  transfer: Transfer,
): Promise<UploadedFile> {
  const progress = new FileProgress(item.name, lent.file.sizeBytes, transfer.options);
  const copied = destination === nowhere ? null : await copyInStore(item, lent, transfer, progress);
  if (copied) return copied;
  const source = lent.open(transfer.signal);
  try {
    const { name } = item;
    return await new SourceUpload({ name }, source, destination, transfer, progress).send();
  } finally {
    source.close();
  }
}

async function uploadSource(
  item: UploadItem,
  open: () => Promise<RandomSource>,
  destination: Destination,
  transfer: Transfer,
): Promise<UploadedFile> {
  const { name } = item;
  const close = (source: RandomSource) =>
    transfer.tidyUp(`close of the source of "${name}"`, () => source.close());
  const source = await transfer.local(`open of "${name}"`, open, { onLate: close });
  try {
    return await new SourceUpload(item, source, destination, transfer).send();
  } finally {
    await close(source);
  }
}

/** The code that opened it closes it. */
interface OpenSource extends Pick<RandomSource, 'sizeBytes' | 'mode' | 'mtimeMs' | 'mayHideChanges'> {
  /** As in a `RandomSource`. `buffer` owns the memory of `bytes`. */
  readInto(offsetBytes: number, bytes: Uint8Array, buffer: PooledBuffer): Promise<void>;
  /** As in a `RandomSource`. `crc32c`: of all bytes that were read. */
  assertUnchanged(crc32c: number): Promise<void>;
  /** The size of a part should be a multiple of this, if possible. */
  readonly unitBytes?: number;
  /**
   * Limits how many sources are read at once, apart from the limit on requests. Bytes that were
   * read then wait in memory until a request may send them. Absent: one limit for both.
   */
  readonly turns?: Pick<Transfer, 'turn' | 'partTurn'>;
}

interface PartToSend {
  /** In bytes. */
  readonly start: number;
  readonly partSizeBytes: number;
  readonly parts: PartsDestination;
  readonly comparison: Comparison;
  readonly turns: FileTurns;
}

/** What one reading of a file in parts finds out. */
interface Comparison {
  readonly checksums: PartChecksums;
  /** Known files with the parts that were read. */
  readonly alike: MatchingFiles;
  /** `undefined`: no known file may be equal. */
  readonly hash: OrderedHash | undefined;
}

function compareWith(alike: MatchingFiles, workers: Workers): Comparison {
  const hash = alike.isEmpty ? undefined : new OrderedHash(workers, () => !alike.isEmpty);
  return { checksums: new PartChecksums(), alike, hash };
}

/** Result for a file in one part: it was sent, or the store has it already. */
type Sent = Pick<UploadedFile, 'key' | 'blake3' | 'known'>;

type ReadPiece = Piece & { readonly buffer: PooledBuffer };

/** Uploads a source of known size that can be read again. */
class SourceUpload {
  readonly #name: string;
  readonly #item: Pick<UploadItem, 'known' | 'findFinished' | 'onKept'>;
  readonly #source: OpenSource;
  readonly #destination: Destination;
  readonly #transfer: Transfer;
  readonly #progress: FileProgress;

  constructor(
    item: Pick<UploadItem, 'name' | 'known' | 'findFinished' | 'onKept'>,
    source: OpenSource,
    destination: Destination,
    transfer: Transfer,
    progress = new FileProgress(item.name, source.sizeBytes, transfer.options),
  ) {
    this.#name = item.name;
    this.#item = item;
    this.#source = source;
    this.#destination = destination;
    this.#transfer = transfer;
    this.#progress = progress;
  }

  async send(): Promise<UploadedFile> {
    const { sizeBytes, mode, mtimeMs, unitBytes = 0 } = this.#source;
    await this.#transfer.expect(sizeBytes);
    const plan = planWholeParts(
      { sizeBytes, unitBytes },
      this.#transfer.settings,
      this.#transfer.capabilities,
    );
    const { signal } = this.#transfer;
    const finished = (await this.#item.findFinished?.({ sizeBytes, signal })) ?? [];
    const file = plan.isWhole
      ? await this.#sendWhole(plan.partSizeBytes, finished)
      : await this.#sendUnlessEqual(plan.partSizeBytes, finished);
    this.#progress.finish(sizeBytes);
    return { ...file, ...(mode !== undefined && { mode }), ...(mtimeMs !== undefined && { mtimeMs }) };
  }

  async #sendUnlessEqual(partSizeBytes: number, finished: readonly FinishedObject[]): Promise<UploadedFile> {
    const alike = new MatchingFiles(this.#item.known?.ofSize(this.#source.sizeBytes) ?? [], partSizeBytes);
    const found = await this.#findInStore(partSizeBytes, finished, alike);
    if (found) return found;
    // A file with other parts is no reason to hash what is sent: only its end would show whether
    // the two are equal.
    alike.keepThoseInSameParts();
    return retrying(
      () => this.#sendParts(partSizeBytes, alike),
      this.#transfer.retryPolicy(`upload of "${this.#name}"`, RESENDS_MAX),
    );
  }

  async #sendWhole(partSizeBytes: number, finished: readonly FinishedObject[]): Promise<UploadedFile> {
    const { sizeBytes, turns } = this.#source;
    const checksums = new PartChecksums();
    const read = () => this.#readWhole(checksums);
    const transfer = this.#transfer;
    await this.#destination.admit(sizeBytes);
    const sent = turns
      ? turns.turn(read).then((piece) => transfer.turn(() => this.#sendUnlessThere(piece, finished)))
      : transfer.turn(async () => this.#sendUnlessThere(await read(), finished));
    return { name: this.#name, ...(await sent), ...checksums.describe(sizeBytes, partSizeBytes) };
  }

  /** Sends a whole file unless the store has it. Releases its memory. */
  async #sendUnlessThere(
    { bytes, crc32c, buffer }: Piece,
    finished: readonly FinishedObject[],
  ): Promise<Sent> {
    try {
      const files = this.#item.known;
      const read = { sizeBytes: bytes.byteLength, crc32c };
      const blake3 = files?.mayHave(read) ? await this.#transfer.workers.blake3(bytes) : undefined;
      const known = blake3 && files?.find({ ...read, blake3 });
      const thereKey = known?.key ?? this.#keyOfFinished(finished, crc32c);
      if (thereKey !== undefined) this.#destination.giveBack(bytes.byteLength);
      const key = thereKey ?? (await this.#destination.sendWhole({ bytes, crc32c, buffer }));
      return { key, blake3, known };
    } finally {
      buffer?.release();
    }
  }

  #keyOfFinished(finished: readonly FinishedObject[], crc32c: number): string | undefined {
    const found = finished.find((each) => each.crc32c === crc32c);
    if (found) this.#item.onKept?.(this.#source.sizeBytes);
    return found?.key;
  }

  /**
   * Reads a file in parts and looks for an equal file in the store; `null`: it must be sent.
   * Reading stops when no known file that may be referred to has the same parts. The first part is
   * read alone, so a changed file costs the reading of one part. But if a former process finished
   * objects for this file, all of it is read: such an object has only one checksum, over all its
   * bytes. Removes from `alike` the files that were found to differ.
   */
  async #findInStore(
    partSizeBytes: number,
    finished: readonly FinishedObject[],
    alike: MatchingFiles,
  ): Promise<UploadedFile | null> {
    const { sizeBytes } = this.#source;
    const isOver = () => !alike.mayBeReferredTo && finished.length === 0;
    if (isOver()) return null;
    const comparison = compareWith(alike, this.#transfer.workers);
    const { checksums, hash } = comparison;
    try {
      const turns = new FileTurns(this.#transfer, true);
      const compare = async (start: number) => {
        const { reading, hashed } = this.#readToCompare(start, partSizeBytes, comparison);
        const { buffer } = await reading;
        await (hashed ?? Promise.resolve()).finally(() => buffer.release());
      };
      for (let start = 0; start < sizeBytes && !this.#transfer.signal.aborted; start += partSizeBytes) {
        await turns.next(() => compare(start));
        if (start === 0) await turns.settled();
        if (isOver()) break;
      }
      await turns.settled();
      if (isOver()) return null;
      const described = { ...checksums.describe(sizeBytes, partSizeBytes), blake3: await hash?.digest() };
      await this.#readAgain(partSizeBytes, checksums);
      await this.#assertUnchanged(described.crc32c);
      const { blake3 } = described;
      const known = blake3 && this.#item.known?.find({ ...described, blake3 });
      const key = known?.key ?? this.#keyOfFinished(finished, described.crc32c);
      return key === undefined ? null : { name: this.#name, key, ...described, known };
    } finally {
      hash?.end();
    }
  }

  /** All of the source, in memory that the caller releases. */
  async #readWhole(checksums: PartChecksums): Promise<Piece> {
    const { sizeBytes } = this.#source;
    if (sizeBytes === 0) {
      await this.#assertUnchanged(NOTHING.crc32c);
      return NOTHING;
    }
    const buffer = await this.#transfer.pool.acquire(sizeBytes, this.#transfer.signal);
    try {
      let piece = await this.#read(0, buffer);
      const { crc32c } = piece;
      checksums.set(0, crc32c);
      // Read again into the same memory. The bytes sent are those of the second reading, which
      // equal those of the first.
      if (this.#source.mayHideChanges) piece = await this.#read(0, buffer);
      if (piece.crc32c !== crc32c) throw this.#changed(0, sizeBytes);
      await this.#assertUnchanged(piece.crc32c);
      return piece;
    } catch (error) {
      buffer.release();
      throw error;
    }
  }

  async #sendParts(partSizeBytes: number, alike: MatchingFiles): Promise<UploadedFile> {
    const { sizeBytes } = this.#source;
    const parts = await this.#transfer.turn(() => this.#destination.begin(partSizeBytes, sizeBytes));
    const comparison = compareWith(alike, this.#transfer.workers);
    const { checksums, hash } = comparison;
    try {
      const turns = new FileTurns(this.#transfer, true, this.#source.turns);
      for (let start = 0; start < sizeBytes && !this.#transfer.signal.aborted; start += partSizeBytes) {
        await this.#destination.admit(Math.min(partSizeBytes, sizeBytes - start));
        await turns.next(() => this.#sendPart({ start, partSizeBytes, parts, comparison, turns }));
      }
      await turns.settled();
      const described = checksums.describe(sizeBytes, partSizeBytes);
      const blake3 = await hash?.digest();
      await this.#readAgain(partSizeBytes, checksums);
      await this.#assertUnchanged(described.crc32c);
      await this.#transfer.turn(() => parts.complete(described));
      return { name: this.#name, key: parts.key, ...described, blake3 };
    } catch (error) {
      await parts.abort();
      throw error;
    } finally {
      hash?.end();
    }
  }

  async #sendPart(part: PartToSend): Promise<void> {
    const { start, partSizeBytes, parts, comparison, turns } = part;
    const index = start / partSizeBytes;
    const { reading, hashed } = this.#readToCompare(start, partSizeBytes, comparison);
    const piece = await reading;
    const send = async () => {
      try {
        await parts.sendPart(index, piece);
      } finally {
        // Rejects if the read of an earlier part failed. The call for that part reports it.
        await hashed?.catch(() => undefined);
        piece.buffer.release();
      }
      this.#progress.add(piece.bytes.byteLength);
    };
    if (this.#source.turns) turns.add(this.#transfer.partTurn(send));
    else await send();
  }

  /**
   * For sources whose changes show only in their bytes: reads all parts again, after the first
   * reading, and compares their checksums.
   */
  async #readAgain(partSizeBytes: number, checksums: PartChecksums): Promise<void> {
    const { sizeBytes, mayHideChanges } = this.#source;
    if (!mayHideChanges) return;
    const turns = new FileTurns(this.#transfer, true);
    const compare = async (start: number) => {
      const { bytes, crc32c, buffer } = await this.#readPart(start, partSizeBytes);
      buffer.release();
      if (crc32c !== checksums.partCrc32c(start / partSizeBytes))
        throw this.#changed(start, bytes.byteLength);
    };
    for (let start = 0; start < sizeBytes && !this.#transfer.signal.aborted; start += partSizeBytes)
      await turns.next(() => compare(start));
    await turns.settled();
  }

  #changed(startBytes: number, lengthBytes: number): CheckpointError {
    return changedWhileRead(this.#name, { startBytes, lengthBytes });
  }

  /**
   * Starts to read one part, in memory that the caller releases. `hashed` settles when it is hashed
   * or need not be.
   */
  #readToCompare(
    start: number,
    partSizeBytes: number,
    { checksums, alike, hash }: Comparison,
  ): { readonly reading: Promise<ReadPiece>; readonly hashed: Promise<void> | undefined } {
    const index = start / partSizeBytes;
    const reading = this.#readPart(start, partSizeBytes).then((piece) => {
      checksums.set(index, piece.crc32c);
      alike.keepThoseWith(index, piece.crc32c);
      return piece;
    });
    return { reading, hashed: hash?.add(reading) };
  }

  /** One part of the source, in memory that the caller releases. */
  async #readPart(start: number, partSizeBytes: number): Promise<ReadPiece> {
    const lengthBytes = Math.min(partSizeBytes, this.#source.sizeBytes - start);
    const buffer = await this.#transfer.pool.acquire(lengthBytes, this.#transfer.signal);
    try {
      return await this.#read(start, buffer);
    } catch (error) {
      buffer.release();
      throw error;
    }
  }

  async #read(start: number, buffer: PooledBuffer): Promise<ReadPiece> {
    const { bytes } = buffer;
    const read = () => this.#source.readInto(start, bytes, buffer);
    await this.#transfer.local(`read of "${this.#name}"`, read, { buffer });
    return { bytes, crc32c: await this.#transfer.workers.crc32c(bytes), buffer };
  }

  #assertUnchanged(crc32c: number): Promise<void> {
    return this.#transfer.local(`check of "${this.#name}"`, () => this.#source.assertUnchanged(crc32c));
  }
}

/**
 * Copies the caller's memory into the pool. Memory of the pool is aligned as the store needs it.
 * And a call that the save has abandoned cannot read the caller's memory later.
 */
function bytesSource(source: BytesInMemory): OpenSource {
  const { bytes, sizeBytes = bytes.byteLength } = source;
  const known = { bytes, sizeBytes };
  return {
    sizeBytes,
    async readInto(offsetBytes, buffer) {
      buffer.set(unchangedBytes(known).subarray(offsetBytes, offsetBytes + buffer.byteLength));
    },
    async assertUnchanged() {
      unchangedBytes(known);
    },
  };
}
