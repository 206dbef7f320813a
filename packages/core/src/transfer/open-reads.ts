/**
 * Reads at any position of one open object. They go through memory of the pool. Therefore a slow
 * read can be sent a second time, and a call that never ends holds the pool's memory and not the
 * caller's.
 */

import { byteArray, CheckpointError, shown, throwIfAborted } from '../contract/index.ts';
import { ReadMemory } from './hedged-read.ts';
import type { Transfer } from './transfer.ts';

/**
 * Size limit of one request. A large read is cut into pieces of this size, which are read in
 * parallel.
 */
const PIECE_BYTES_MAX = 4 * 1024 * 1024;
/**
 * A smaller request takes as long as an empty one, so it takes its turn among requests without
 * payload.
 */
const SMALL_READ_BYTES = 64 * 1024;

/** Fills the memory. Retries what may be repeated. */
type ReadPiece = (startBytes: number, memory: ReadMemory) => Promise<void>;

export class OpenReads {
  readonly transfer: Transfer;
  readonly #name: string;
  readonly #sizeBytes: number;
  readonly #readPiece: ReadPiece;
  readonly #underWay = new Set<Promise<unknown>>();
  #ended: Promise<void> | undefined;

  constructor(
    transfer: Transfer,
    about: { readonly name: string; readonly sizeBytes: number },
    readPiece: ReadPiece,
  ) {
    this.transfer = transfer;
    this.#name = about.name;
    this.#sizeBytes = about.sizeBytes;
    this.#readPiece = readPiece;
    transfer.signal.addEventListener('abort', () => void this.#end(), { once: true });
  }

  /** `onRead`: called for each piece once it is in the caller's buffer. */
  async readInto(
    offsetBytes: number,
    buffer: Uint8Array,
    onRead: (startBytes: number, bytes: Uint8Array) => void,
  ): Promise<void> {
    throwIfAborted(this.transfer.signal);
    byteArray('buffer', buffer);
    this.#assertInside(offsetBytes, buffer.byteLength);
    const isSmall = buffer.byteLength <= SMALL_READ_BYTES;
    const take = (startBytes: number, bytes: Uint8Array) => {
      buffer.set(bytes, startBytes - offsetBytes);
      onRead(startBytes, bytes);
    };
    const works = pieces(offsetBytes, offsetBytes + buffer.byteLength).map(
      (piece) => () => this.#readOne(piece, take),
    );
    await this.during(() => this.together(works, isSmall));
  }

  /** Reads one piece after the other. The caller already has a turn. */
  async readInOrder(
    range: { readonly startBytes: number; readonly endBytes: number },
    onRead: (startBytes: number, bytes: Uint8Array) => void,
  ): Promise<void> {
    for (const piece of pieces(range.startBytes, range.endBytes)) {
      throwIfAborted(this.transfer.signal);
      await this.#readOne(piece, onRead);
    }
  }

  /** Runs work that must settle before this object ends. */
  during<T>(work: () => Promise<T>): Promise<T> {
    throwIfAborted(this.transfer.signal);
    const call = work();
    this.#underWay.add(call);
    const settled = () => this.#underWay.delete(call);
    call.then(settled, settled);
    return call;
  }

  /**
   * Runs each work in its turn. After the first failure no more are begun. The failure is thrown
   * when all begun ones have settled.
   */
  async together(works: readonly (() => Promise<void>)[], isSmall: boolean): Promise<void> {
    let failure: { readonly error: unknown } | undefined;
    const inTurn = async (work: () => Promise<void>) => {
      if (failure) return;
      try {
        throwIfAborted(this.transfer.signal);
        await work();
      } catch (error) {
        failure ??= { error };
      }
    };
    const { transfer } = this;
    const turn = (work: () => Promise<void>) =>
      isSmall ? transfer.turn(() => inTurn(work)) : transfer.partTurn(() => inTurn(work));
    await Promise.all(works.map(turn));
    if (failure) throw failure.error;
  }

  /** Stops reads in progress within a second. Safe to call again. */
  close(): Promise<void> {
    this.transfer.letGo(new CheckpointError('Aborted', `"${this.#name}" was closed`));
    return this.#end();
  }

  async #readOne(
    { startBytes, endBytes }: Piece,
    onRead: (startBytes: number, bytes: Uint8Array) => void,
  ): Promise<void> {
    const memory = ReadMemory.of(
      await this.transfer.pool.acquire(endBytes - startBytes, this.transfer.signal),
    );
    try {
      await this.#readPiece(startBytes, memory);
      onRead(startBytes, memory.bytes);
    } finally {
      memory.release();
    }
  }

  #assertInside(offsetBytes: number, lengthBytes: number): void {
    const isOffset = Number.isSafeInteger(offsetBytes) && offsetBytes >= 0;
    if (isOffset && offsetBytes + lengthBytes <= this.#sizeBytes) return;
    const message = `${lengthBytes} bytes from ${shown(offsetBytes)} on lie outside "${this.#name}", which has ${this.#sizeBytes}`;
    throw new CheckpointError('InvalidArgument', message, { context: { name: this.#name } });
  }

  #end(): Promise<void> {
    this.#ended ??= Promise.allSettled(this.#underWay).then(() => this.transfer.end());
    return this.#ended;
  }
}

interface Piece {
  readonly startBytes: number;
  readonly endBytes: number;
}

function pieces(startBytes: number, endBytes: number): Piece[] {
  return Array.from({ length: Math.ceil((endBytes - startBytes) / PIECE_BYTES_MAX) }, (_, index) => {
    const start = startBytes + index * PIECE_BYTES_MAX;
    return { startBytes: start, endBytes: Math.min(start + PIECE_BYTES_MAX, endBytes) };
  });
}
