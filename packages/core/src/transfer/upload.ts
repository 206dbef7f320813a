/**
 * Sending one file. Each part is read into memory of the pool, checksummed there once, sent from there, and the memory goes back when
 * the store has settled the call. Reading one part overlaps with sending others, because several turns are under way at once.
 */

import { crc32cCombine } from '../contract/crc32c-combine.ts';
import { CheckpointError, type RandomSource, throwIfAborted } from '../contract/index.ts';
import { crc32c as computeCrc32c } from '../format/checksum.ts';
import { planStream, planWholeParts, type StreamPlan } from '../plan/parts.ts';
import type { UploadedFile, UploadItem } from './api.ts';
import type { PooledBuffer } from './buffer-pool.ts';
import { ChunkReader } from './chunk-reader.ts';
import { copyInStore } from './copy-in-store.ts';
import { type Destination, nowhere, type PartsDestination, type Piece } from './destination.ts';
import type { LentFile } from './lent-file.ts';
import { FileProgress } from './progress.ts';
import { retrying } from './retry.ts';
import { FileTurns, type Run } from './run.ts';

/** An object that was sent and is not there, or is damaged, is sent once more from the beginning; twice only under very bad stars. */
const RESENDS_MAX = 2;
const NOTHING: Piece = { bytes: new Uint8Array(0), crc32c: 0 };

/** Sends one item. Its source is closed when this settles. */
export function uploadFile(item: UploadItem, destination: Destination, run: Run): Promise<UploadedFile> {
  const { source } = item;
  if ('stream' in source)
    return run.inStreamSeat(() => new StreamUpload(item.name, source.stream, destination, run).send());
  if ('bytes' in source)
    return new SourceUpload(item.name, bytesSource(source.bytes), destination, run).send();
  if ('lent' in source) return uploadLent(item, source.lent, destination, run);
  return uploadSource(item.name, () => source.open(), destination, run);
}

async function uploadLent(
  item: UploadItem,
  lent: LentFile,
  destination: Destination,
  run: Run,
): Promise<UploadedFile> {
  const progress = new FileProgress(item.name, lent.file.sizeBytes, run.options);
  const copied = destination === nowhere ? null : await copyInStore(item, lent, run, progress);
  if (copied) return copied;
  const source = lent.open(run.signal);
  try {
    return await new SourceUpload(item.name, source, destination, run, progress).send();
  } finally {
    source.close();
  }
}

async function uploadSource(
  name: string,
  open: () => Promise<RandomSource>,
  destination: Destination,
  run: Run,
): Promise<UploadedFile> {
  const close = (source: RandomSource) =>
    run.tidyUp(`close of the source of "${name}"`, () => source.close());
  const source = await run.local(`open of "${name}"`, open, { onLate: close });
  try {
    return await new SourceUpload(name, source, destination, run).send();
  } finally {
    await close(source);
  }
}

/** CRC32C of parts that lie one after the other. */
class PartChecksums {
  readonly #crcs: number[] = [];

  set(index: number, crc32c: number): void {
    this.#crcs[index] = crc32c;
  }

  describe(
    sizeBytes: number,
    partSizeBytes: number,
  ): Pick<UploadedFile, 'sizeBytes' | 'crc32c' | 'partSizeBytes' | 'partCrc32c'> {
    // Byte by byte: a view of a small array costs more than all the rest here.
    const partCrc32c = new Uint8Array(this.#crcs.length * 4);
    let crc32c = 0;
    for (const [index, part] of this.#crcs.entries()) {
      for (let byte = 0; byte < 4; byte += 1) partCrc32c[index * 4 + byte] = part >>> (24 - 8 * byte);
      crc32c = crc32cCombine(crc32c, part, Math.min(partSizeBytes, sizeBytes - index * partSizeBytes));
    }
    return { sizeBytes, crc32c, partSizeBytes: sizeBytes === 0 ? 0 : partSizeBytes, partCrc32c };
  }
}

/** Closed by whoever opened it. */
interface OpenSource extends Pick<RandomSource, 'sizeBytes' | 'mode'> {
  /** As of a `RandomSource`. `buffer` owns the memory of `bytes`. */
  readInto(offsetBytes: number, bytes: Uint8Array, buffer: PooledBuffer): Promise<void>;
  /** As of a `RandomSource`. `crc32c`: of all that was read. */
  assertUnchanged(crc32c: number): Promise<void>;
  /** Parts are to be whole ones of these, where that can be. */
  readonly unitBytes?: number;
  /** Where reading has turns of its own: what is read then waits in memory for its turn to be sent. */
  readonly turns?: Pick<Run, 'turn' | 'partTurn'>;
}

interface PartToSend {
  /** In bytes. */
  readonly start: number;
  readonly partSizeBytes: number;
  readonly parts: PartsDestination;
  readonly checksums: PartChecksums;
  readonly turns: FileTurns;
}

/** A source of known size that can be read again. */
class SourceUpload {
  readonly #name: string;
  readonly #source: OpenSource;
  readonly #destination: Destination;
  readonly #run: Run;
  readonly #progress: FileProgress;

  constructor(
    name: string,
    source: OpenSource,
    destination: Destination,
    run: Run,
    progress = new FileProgress(name, source.sizeBytes, run.options),
  ) {
    this.#name = name;
    this.#source = source;
    this.#destination = destination;
    this.#run = run;
    this.#progress = progress;
  }

  async send(): Promise<UploadedFile> {
    const { sizeBytes, mode, unitBytes = 0 } = this.#source;
    const plan = planWholeParts({ sizeBytes, unitBytes }, this.#run.settings, this.#run.capabilities);
    const file = plan.isWhole
      ? await this.#sendWhole(plan.partSizeBytes)
      : await retrying(
          () => this.#sendParts(plan.partSizeBytes),
          this.#run.retryPolicy(`upload of "${this.#name}"`, RESENDS_MAX),
        );
    this.#progress.finish(sizeBytes);
    return mode === undefined ? file : { ...file, mode };
  }

  async #sendWhole(partSizeBytes: number): Promise<UploadedFile> {
    const { sizeBytes, turns } = this.#source;
    const checksums = new PartChecksums();
    const read = () => this.#readWhole(checksums);
    const send = (piece: Piece) => this.#destination.sendWhole(piece).finally(() => piece.buffer?.release());
    const run = this.#run;
    const sent = turns
      ? turns.turn(read).then((piece) => run.turn(() => send(piece)))
      : run.turn(async () => send(await read()));
    return { name: this.#name, key: await sent, ...checksums.describe(sizeBytes, partSizeBytes) };
  }

  /** All of the source, in memory that the caller gives back. */
  async #readWhole(checksums: PartChecksums): Promise<Piece> {
    const { sizeBytes } = this.#source;
    if (sizeBytes === 0) {
      await this.#assertUnchanged(NOTHING.crc32c);
      return NOTHING;
    }
    const buffer = await this.#run.pool.acquire(sizeBytes, this.#run.signal);
    try {
      const piece = await this.#read(0, buffer);
      checksums.set(0, piece.crc32c);
      await this.#assertUnchanged(piece.crc32c);
      return piece;
    } catch (error) {
      buffer.release();
      throw error;
    }
  }

  async #sendParts(partSizeBytes: number): Promise<UploadedFile> {
    const { sizeBytes } = this.#source;
    const parts = await this.#run.turn(() => this.#destination.begin(partSizeBytes, sizeBytes));
    try {
      const checksums = new PartChecksums();
      const turns = new FileTurns(this.#run, true, this.#source.turns);
      for (let start = 0; start < sizeBytes && !this.#run.signal.aborted; start += partSizeBytes) {
        await turns.next(() => this.#sendPart({ start, partSizeBytes, parts, checksums, turns }));
      }
      await turns.settled();
      const described = checksums.describe(sizeBytes, partSizeBytes);
      await this.#assertUnchanged(described.crc32c);
      await this.#run.turn(() => parts.complete(described));
      return { name: this.#name, key: parts.key, ...described };
    } catch (error) {
      await parts.abort();
      throw error;
    }
  }

  async #sendPart(part: PartToSend): Promise<void> {
    const { start, partSizeBytes, parts, checksums, turns } = part;
    const lengthBytes = Math.min(partSizeBytes, this.#source.sizeBytes - start);
    const index = start / partSizeBytes;
    const buffer = await this.#run.pool.acquire(lengthBytes, this.#run.signal);
    let piece: Piece;
    try {
      piece = await this.#read(start, buffer);
    } catch (error) {
      buffer.release();
      throw error;
    }
    checksums.set(index, piece.crc32c);
    const send = async () => {
      await parts.sendPart(index, piece).finally(() => buffer.release());
      this.#progress.add(lengthBytes);
    };
    if (this.#source.turns) turns.add(this.#run.partTurn(send));
    else await send();
  }

  async #read(start: number, buffer: PooledBuffer): Promise<Piece> {
    const { bytes } = buffer;
    const read = () => this.#source.readInto(start, bytes, buffer);
    await this.#run.local(`read of "${this.#name}"`, read, { buffer });
    return { bytes, crc32c: computeCrc32c(bytes), buffer };
  }

  #assertUnchanged(crc32c: number): Promise<void> {
    return this.#run.local(`check of "${this.#name}"`, () => this.#source.assertUnchanged(crc32c));
  }
}

/** A stream: read once, so it is sent once. Each part waits in a slot of the pool until its producer has filled it. */
class StreamUpload {
  readonly #name: string;
  readonly #destination: Destination;
  readonly #run: Run;
  readonly #reader: ChunkReader;
  readonly #plan: StreamPlan;
  readonly #progress: FileProgress;
  readonly #checksums = new PartChecksums();

  constructor(name: string, stream: AsyncIterable<Uint8Array>, destination: Destination, run: Run) {
    this.#name = name;
    this.#destination = destination;
    this.#run = run;
    this.#reader = new ChunkReader(name, stream, run.signal);
    this.#plan = planStream(run.settings, run.capabilities);
    this.#progress = new FileProgress(name, undefined, run.options);
  }

  async send(): Promise<UploadedFile> {
    try {
      const first = await this.#nextPiece(0);
      const isWhole =
        first.bytes.byteLength < this.#plan.partSizeBytes &&
        first.bytes.byteLength <= this.#plan.wholeBytesMax;
      const file = isWhole
        ? await this.#run.turn(() => this.#sendWhole(first))
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
    const parts = await this.#run
      .turn(() => this.#destination.begin(partSizeBytes))
      .catch((error: unknown) => {
        first.buffer?.release();
        throw error;
      });
    try {
      const sizeBytes = await this.#sendAll(first, parts);
      const described = this.#checksums.describe(sizeBytes, partSizeBytes);
      // The producer cannot be asked for its bytes again: what calls for another attempt is final here.
      const policy = this.#run.retryPolicy(`upload of the stream "${this.#name}"`, 0);
      await this.#run.turn(() => retrying(() => parts.complete(described), policy));
      return { name: this.#name, key: parts.key, ...described };
    } catch (error) {
      await parts.abort();
      throw error;
    }
  }

  /** Sends part after part until the stream ends. Nothing is under way when it settles. Resolves to the size. */
  async #sendAll(first: Piece, parts: PartsDestination): Promise<number> {
    const turns = new FileTurns(this.#run, true);
    let sizeBytes = 0;
    try {
      for (
        let piece = first, index = 0;
        piece.bytes.byteLength > 0;
        index += 1, piece = await this.#nextPiece(index)
      ) {
        const sent = piece;
        sizeBytes += sent.bytes.byteLength;
        await turns.next(() => this.#sendPart(index, sent, parts));
        if (sent.bytes.byteLength < this.#plan.partSizeBytes) break; // the stream has ended inside this part
        throwIfAborted(this.#run.signal);
      }
    } catch (error) {
      this.#run.fail(error); // what is under way stops, and `settled` throws it
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

  /** The next part in memory; without bytes and without a buffer where the stream has ended. */
  async #nextPiece(index: number): Promise<Piece> {
    const { partSizeBytes, sizeBytesMax } = this.#plan;
    const buffer = await this.#run.pool.acquireSlot(this.#run.signal);
    let filled: Uint8Array | undefined;
    try {
      filled = buffer.bytes.subarray(0, await this.#reader.fill(buffer.bytes));
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
    const crc32c = computeCrc32c(filled);
    this.#checksums.set(index, crc32c);
    return { bytes: filled, crc32c, buffer };
  }

  #tooLong(): CheckpointError {
    const { partSizeBytes, sizeBytesMax } = this.#plan;
    const message =
      `the stream "${this.#name}" is longer than ${sizeBytesMax} bytes, which is what this store takes in parts of ${partSizeBytes}; ` +
      'save it from a file, or raise partSizeBytesMin';
    return new CheckpointError('Unsupported', message, { context: { name: this.#name } });
  }
}

/** The caller's memory is copied into the pool: it is aligned there, and no call that is left behind can touch it after the save. */
function bytesSource(bytes: Uint8Array): OpenSource {
  const sizeBytes = bytes.byteLength;
  return {
    sizeBytes,
    async readInto(offsetBytes, buffer) {
      const found = bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength);
      if (found.byteLength < buffer.byteLength) {
        throw new CheckpointError(
          'SourceChanged',
          `the bytes to save have shrunk from ${sizeBytes} to ${bytes.byteLength}`,
        );
      }
      buffer.set(found);
    },
    async assertUnchanged() {
      if (bytes.byteLength !== sizeBytes)
        throw new CheckpointError(
          'SourceChanged',
          `the bytes to save had ${sizeBytes} and have ${bytes.byteLength}`,
        );
    },
  };
}
