import { CheckpointError, throwIfAborted } from '../contract/index.ts';
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
export function openFileStream(file: StoredFile, begin: () => Transfer): ReadableStream<Uint8Array> {
  let reading: OrderedReads | undefined;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        reading ??= new OrderedReads(file, begin());
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
  /** In the order of the file. The first one is returned next. */
  readonly #reads: Read[] = [];
  #pulled: Promise<unknown> = Promise.resolve();
  #ended: Promise<void> | undefined;

  constructor(file: StoredFile, transfer: Transfer) {
    this.#file = file;
    this.#transfer = transfer;
    this.#progress = new FileProgress(file.name, file.sizeBytes, transfer.options);
    this.#chunks = this.#inOrder();
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
        this.#progress.finish(this.#file.sizeBytes);
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

  async *#inOrder(): AsyncGenerator<Uint8Array, void, void> {
    checkStoredFile(this.#file);
    const ranges = planRanges(this.#file, this.#transfer.settings.partSizeBytesMin);
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
    const memory = new ReadMemory(new Uint8Array(range.lengthBytes));
    const ready = readParts(this.#transfer, this.#file, range, memory);
    ready.catch(() => undefined); // an error is thrown when its turn comes
    this.#reads.push({ ready, countedBytes });
  }

  #mayReadAhead(range: FileRange): boolean {
    const { aheadBytes, pool } = this.#transfer.shared;
    const hasRoom = aheadBytes + range.lengthBytes <= pool.totalBytes * AHEAD_BUDGET_SHARE;
    return hasRoom && this.#reads.length <= AHEAD_MAX && !isOversized(range, this.#transfer);
  }
}

function take(ranges: Generator<FileRange>): FileRange | undefined {
  const next = ranges.next();
  return next.done ? undefined : next.value;
}
