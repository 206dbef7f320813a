import {
  assertChunk,
  CheckpointError,
  isCheckpointError,
  throwIfAborted,
  unlessAborted,
} from '../contract/index.ts';

/** A producer that never waits would let no timer and no signal come to their turn. */
const CHUNKS_PER_TURN = 1024;

/** Reads a stream into the engine's memory, whatever the sizes of its chunks. */
export class ChunkReader {
  readonly #name: string;
  readonly #signal: AbortSignal;
  readonly #stream: AsyncIterable<Uint8Array>;
  #iterator: AsyncIterator<Uint8Array> | undefined;
  #rest: Uint8Array = new Uint8Array(0);
  #isEnded = false;
  #chunkCount = 0;

  constructor(name: string, stream: AsyncIterable<Uint8Array>, signal: AbortSignal) {
    this.#name = name;
    this.#signal = signal;
    this.#stream = stream;
  }

  /**
   * Resolves to the number of bytes read, less than `target` holds only if the stream has ended. A
   * chunk is copied before the next one is requested.
   */
  async fill(target: Uint8Array): Promise<number> {
    let filledBytes = 0;
    while (filledBytes < target.byteLength) {
      if (this.#rest.byteLength === 0 && !(await this.#next())) break;
      const taken = this.#rest.subarray(0, target.byteLength - filledBytes);
      target.set(taken, filledBytes);
      filledBytes += taken.byteLength;
      this.#rest = this.#rest.subarray(taken.byteLength);
    }
    return filledBytes;
  }

  /**
   * Tells the producer that reading has stopped. Does not wait for it: a producer may hang, and it
   * holds no memory of the engine.
   */
  cancel(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    // An error here is ignored: the error that stopped the reading is the one to report.
    (async () => this.#iterator?.return?.())().catch(() => undefined);
  }

  async #next(): Promise<boolean> {
    if (this.#isEnded) return false;
    const { done, value } = await unlessAborted(this.#following(), this.#signal).catch((error: unknown) => {
      throw isCheckpointError(error) ? error : this.#failed(error);
    });
    if (done) {
      this.#isEnded = true;
      return false;
    }
    this.#chunkCount += 1;
    if (this.#chunkCount % CHUNKS_PER_TURN === 0) {
      await new Promise((resolve) => setImmediate(resolve));
      throwIfAborted(this.#signal);
    }
    assertChunk(this.#name, value);
    this.#rest = value;
    return true;
  }

  /** Rejects with what the caller's iterator throws, also where it throws before it waits. */
  async #following(): Promise<IteratorResult<Uint8Array>> {
    this.#iterator ??= this.#stream[Symbol.asyncIterator]();
    const given = await this.#iterator.next();
    if (typeof given !== 'object' || given === null) throw new TypeError('next() gave no object');
    return given;
  }

  #failed(error: unknown): CheckpointError {
    const reason = error instanceof Error ? error.message : String(error);
    const context = { name: this.#name };
    return new CheckpointError('Unexpected', `the stream of "${this.#name}" failed: ${reason}`, {
      context,
      cause: error,
    });
  }
}
