/**
 * Copies a state that writes itself. All streams it opens, written in any order, become one copy.
 */

import {
  CheckpointError,
  type Stage,
  type StagedCopy,
  type Staging,
  unlessAborted,
} from '@holdfast/core/contract';

/** Position of a piece of a stream within the single copy. */
interface Extent {
  readonly startBytes: number;
  sizeBytes: number;
}

interface OpenedStream {
  readonly stream: WritableStream<Uint8Array>;
  readonly extents: Extent[];
  isClosed: boolean;
}

export type OpenStream = (key: string) => WritableStream<Uint8Array>;

export interface StreamCopies {
  readonly keys: readonly string[];
  /** A staging that returns the copies already made: it looks up keys and copies nothing. */
  readonly staging: Staging;
  release(): Promise<void>;
}

/**
 * Rejects with the error of `write` or of the staging; then no copy is held. A stream that is still
 * open when `write` has resolved is closed. If it is still locked by a writer, rejects with
 * `InvalidArgument`, because bytes may be missing.
 */
export async function copyStreams(
  write: (open: OpenStream) => Promise<void>,
  staging: Staging,
  signal: AbortSignal,
): Promise<StreamCopies> {
  const pieces = new Pieces();
  const streams = new Map<string, OpenedStream>();
  const all = { name: 'the state', source: { stream: pieces } };
  const staged = staging.stage([all], { signal });
  // If the staging has failed, writers must not wait for it.
  staged.catch((error: unknown) => pieces.fail(error));
  try {
    // A function of the caller that never returns must not outlive the stop of its save.
    const written = async () => write((key) => openStream(key, pieces, streams));
    await unlessAborted(written(), signal);
    for (const [key, opened] of streams) await endStream(key, opened);
    pieces.end();
  } catch (error) {
    const isOwn = !pieces.hasFailed;
    pieces.fail(error);
    const stage = await staged.catch((failure: unknown) => {
      throw isOwn ? error : failure;
    });
    await stage.release();
    throw error;
  }
  return copiesOf(await staged, streams);
}

function openStream(
  key: string,
  pieces: Pieces,
  streams: Map<string, OpenedStream>,
): WritableStream<Uint8Array> {
  if (pieces.isOver) throw invalid(key, 'is opened too late: the function that writes the state has ended');
  if (streams.has(key)) throw invalid(key, 'is opened twice');
  const extents: Extent[] = [];
  const stream = new WritableStream<Uint8Array>({
    write: (chunk) => pieces.put(key, chunk, extents),
    close: () => {
      opened.isClosed = true;
    },
    abort: (reason: unknown) => pieces.fail(reason ?? invalid(key, 'was aborted')),
  });
  const opened: OpenedStream = { stream, extents, isClosed: false };
  streams.set(key, opened);
  return stream;
}

async function endStream(key: string, opened: OpenedStream): Promise<void> {
  if (opened.isClosed) return;
  if (opened.stream.locked)
    throw invalid(key, 'is still being written, but the function that writes the state has ended');
  await opened.stream.close();
}

function copiesOf(stage: Stage, streams: ReadonlyMap<string, OpenedStream>): StreamCopies {
  const [all] = stage.copies;
  const copies = new Map(
    [...streams].map(([key, { extents }]) => [key, partsOf(all as StagedCopy, extents)]),
  );
  return {
    keys: [...copies.keys()],
    staging: {
      stage: async (sources) => ({
        copies: sources.map(({ name }) => copies.get(name) as StagedCopy),
        release: () => stage.release(),
      }),
    },
    release: () => stage.release(),
  };
}

function partsOf(all: StagedCopy, extents: readonly Extent[]): StagedCopy {
  const sizeBytes = extents.reduce((sum, extent) => sum + extent.sizeBytes, 0);
  return {
    sizeBytes,
    open: async () => {
      const opened = await all.open();
      return {
        sizeBytes,
        readInto: async (offsetBytes, buffer) => {
          let [extentStart, done] = [0, 0];
          for (const extent of extents) {
            const from = offsetBytes + done - extentStart;
            extentStart += extent.sizeBytes;
            if (from >= extent.sizeBytes) continue;
            if (done === buffer.byteLength) break;
            const piece = buffer.subarray(done, done + extent.sizeBytes - from);
            await opened.readInto(extent.startBytes + from, piece);
            done += piece.byteLength;
          }
        },
        assertUnchanged: () => opened.assertUnchanged(),
        close: () => opened.close(),
      };
    },
  };
}

interface Piece {
  readonly chunk: Uint8Array;
  readonly taken: () => void;
  readonly failed: (error: unknown) => void;
}

/** Passes chunks to the staging in the order in which they were put. */
class Pieces implements AsyncIterable<Uint8Array> {
  readonly #waiting: Piece[] = [];
  #putBytes = 0;
  #isEnded = false;
  #failure: { readonly error: unknown } | null = null;
  #wake: (() => void) | undefined;

  get isOver(): boolean {
    return this.#isEnded || this.#failure !== null;
  }

  get hasFailed(): boolean {
    return this.#failure !== null;
  }

  /** Resolves when the chunk was copied. */
  put(key: string, chunk: Uint8Array, extents: Extent[]): Promise<void> {
    if (!(chunk instanceof Uint8Array))
      this.fail(invalid(key, `got a chunk of type ${typeof chunk}; it takes Uint8Array`));
    if (this.#failure) return Promise.reject(this.#failure.error);
    const last = extents.at(-1);
    if (last && last.startBytes + last.sizeBytes === this.#putBytes) last.sizeBytes += chunk.byteLength;
    else extents.push({ startBytes: this.#putBytes, sizeBytes: chunk.byteLength });
    this.#putBytes += chunk.byteLength;
    return new Promise((taken, failed) => {
      this.#waiting.push({ chunk, taken, failed });
      this.#wake?.();
    });
  }

  end(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  /** The first failure counts. */
  fail(error: unknown): void {
    this.#failure ??= { error };
    for (const { failed } of this.#waiting.splice(0)) failed(this.#failure.error);
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      if (this.#failure) throw this.#failure.error;
      if (this.#isEnded) return;
      const [next] = this.#waiting;
      if (next === undefined) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        continue;
      }
      yield next.chunk;
      // A request for the next chunk means that this one is copied. It may have failed meanwhile.
      if (this.#waiting[0] === next) this.#waiting.shift();
      next.taken();
    }
  }
}

function invalid(key: string, what: string): CheckpointError {
  return new CheckpointError('InvalidArgument', `stream "${key}" ${what}`, { context: { name: key } });
}
