import { CheckpointError, type InputStreamOptions, throwIfAborted } from '../contract/index.ts';
import { checkStoredFile, type FileRange, planRanges } from '../plan/ranges.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import { ReadMemory } from './hedged-read.ts';
import { FileProgress } from './progress.ts';
import { isOversized, readOversizedPart, readParts } from './read.ts';
import type { Transfer } from './transfer.ts';

/** Maximum number of reads started ahead of the reader. */
const AHEAD_MAX = 3;
/** All reader streams together read ahead at most this share of the budget. */
const AHEAD_BUDGET_SHARE = 0.25;

/**
 * Chunks in order, each verified before it is returned. Nothing happens before the first one is
 * requested; then `begin` is called. The transfer ends with the stream.
 *
 * The memory belongs to the reader, not to the pool: each chunk is read straight into the memory
 * that is returned. A reader that stops reading therefore blocks no other work, and no byte is
 * copied.
 */
export function openFileStream(
  file: StoredFile,
  begin: () => Transfer,
  options: InputStreamOptions = {},
): ReadableStream<Uint8Array> {
  let reading: OrderedReads | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        reading ??= new OrderedReads(file, begin(), options);
        const { done, value } = await reading.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel(reason) {
        await reading?.stop(
          new CheckpointError('Aborted', 'the reader cancelled the stream', { cause: reason }),
        );
      },
    },
    { highWaterMark: 0 },
  );
}

/** A read that was started. `countedBytes` count as read ahead until it is returned. */
interface Read {
  readonly ready: Promise<Uint8Array>;
  readonly countedBytes: number;
}

class OrderedReads {
  readonly #file: StoredFile;
  readonly #transfer: Transfer;
  readonly #progress: FileProgress;
  readonly #chunks: AsyncGenerator<Uint8Array, void, void>;
  readonly #memory: InputStreamOptions['memory'];
  readonly #startBytes: number;
  readonly #endBytes: number;
  /** In the order of the file. The first one is returned next. */
  readonly #reads: Read[] = [];
  #pulled: Promise<unknown> = Promise.resolve();
  #ended: Promise<void> | undefined;

  constructor(file: StoredFile, transfer: Transfer, options: InputStreamOptions) {
    this.#file = file;
    this.#transfer = transfer;
    const { offsetBytes = 0, lengthBytes, memory } = options;
    this.#memory = memory;
    this.#startBytes = offsetBytes;
    this.#endBytes = lengthBytes === undefined ? file.sizeBytes : offsetBytes + lengthBytes;
    this.#progress = new FileProgress(file.name, this.#endBytes - offsetBytes, transfer.options);
    this.#chunks = this.#wanted();
    transfer.signal.addEventListener('abort', () => void this.#end(), { once: true });
  }

  async next(): Promise<IteratorResult<Uint8Array, void>> {
    try {
      throwIfAborted(this.#transfer.signal);
      const pulled = this.#chunks.next();
      this.#pulled = pulled;
      const next = await pulled;
      if (!next.done) this.#progress.add(next.value.byteLength);
      else {
        this.#progress.finish(this.#endBytes - this.#startBytes);
        await this.#end();
      }
      return next;
    } catch (error) {
      this.#transfer.fail(error);
      await this.#end();
      throw error;
    }
  }

  async stop(why: CheckpointError): Promise<void> {
    this.#transfer.letGo(why);
    await this.#end();
  }

  /** Waits for reads in progress and drops what was read ahead. */
  #end(): Promise<void> {
    this.#ended ??= Promise.allSettled([this.#pulled, ...this.#reads.map((read) => read.ready)]).then(() => {
      for (const read of this.#reads.splice(0)) this.#transfer.shared.aheadBytes -= read.countedBytes;
      return this.#transfer.end();
    });
    return this.#ended;
  }

  /** Cuts what was read beside the wanted bytes: only whole parts can be verified. */
  async *#wanted(): AsyncGenerator<Uint8Array, void, void> {
    checkStoredFile(this.#file);
    const { sizeBytes, partSizeBytes } = this.#file;
    assertInside(this.#file.name, this.#startBytes, this.#endBytes, sizeBytes);
    if (this.#startBytes === this.#endBytes) return;
    let at = this.#startBytes - (this.#startBytes % partSizeBytes);
    for await (const chunk of this.#inOrder()) {
      const from = Math.max(this.#startBytes - at, 0);
      const wanted = chunk.subarray(from, Math.max(from, this.#endBytes - at));
      at += chunk.byteLength;
      if (wanted.byteLength > 0) yield wanted;
    }
  }

  async *#inOrder(): AsyncGenerator<Uint8Array, void, void> {
    const wanted = { startBytes: this.#startBytes, endBytes: this.#endBytes };
    const ranges = planRanges(this.#file, this.#transfer.settings.partSizeBytesMin, wanted);
    for (let range = take(ranges); range || this.#reads.length > 0; ) {
      if (range && this.#reads.length === 0) {
        if (isOversized(range, this.#transfer)) yield* this.#oversized(range);
        else this.#begin(range, 0);
        range = take(ranges);
      }
      while (range && this.#mayReadAhead(range)) {
        this.#begin(range, range.lengthBytes);
        range = take(ranges);
      }
      const read = this.#reads[0];
      if (!read) continue;
      const chunk = await read.ready;
      this.#reads.shift();
      this.#transfer.shared.aheadBytes -= read.countedBytes;
      yield chunk;
    }
  }

  async *#oversized(range: FileRange): AsyncGenerator<Uint8Array, void, void> {
    const memory = (lengthBytes: number) => new ReadMemory(new Uint8Array(lengthBytes));
    for await (const { bytes } of readOversizedPart(this.#transfer, this.#file, range, memory)) yield bytes;
  }

  #begin(range: FileRange, countedBytes: number): void {
    this.#transfer.shared.aheadBytes += countedBytes;
    const ready = this.#memory
      ? this.#readInto(this.#memory, range)
      : readParts(this.#transfer, this.#file, range, new ReadMemory(new Uint8Array(range.lengthBytes)));
    ready.catch(() => undefined); // an error is thrown when its turn comes
    this.#reads.push({ ready, countedBytes });
  }

  /**
   * Through the pool: a request that was given up may still write, and memory of the caller is used
   * again.
   */
  async #readInto(memoryFor: (sizeBytes: number) => Uint8Array, range: FileRange): Promise<Uint8Array> {
    const { pool, signal } = this.#transfer;
    const memory = ReadMemory.of(await pool.acquire(range.lengthBytes, signal));
    try {
      const bytes = await readParts(this.#transfer, this.#file, range, memory);
      const given = memoryFor(bytes.byteLength);
      if (!(given instanceof Uint8Array) || given.byteLength !== bytes.byteLength) throw badMemory(bytes);
      given.set(bytes);
      return given;
    } finally {
      memory.release();
    }
  }

  #mayReadAhead(range: FileRange): boolean {
    const { aheadBytes, pool } = this.#transfer.shared;
    const hasRoom = aheadBytes + range.lengthBytes <= pool.totalBytes * AHEAD_BUDGET_SHARE;
    return hasRoom && this.#reads.length <= AHEAD_MAX && !isOversized(range, this.#transfer);
  }
}

function badMemory({ byteLength }: Uint8Array): CheckpointError {
  const message = `memory(${byteLength}) must return a Uint8Array of ${byteLength} bytes`;
  return new CheckpointError('InvalidArgument', message);
}

function assertInside(name: string, startBytes: number, endBytes: number, sizeBytes: number): void {
  if (startBytes <= sizeBytes && endBytes <= sizeBytes) return;
  const message = `bytes ${startBytes} to ${endBytes} are outside "${name}", which has ${sizeBytes} bytes`;
  throw new CheckpointError('InvalidArgument', message, { context: { name } });
}

function take(ranges: Generator<FileRange>): FileRange | undefined {
  const next = ranges.next();
  return next.done ? undefined : next.value;
}
