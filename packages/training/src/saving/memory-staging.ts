/** Copies in the memory of this process. */

import { setImmediate as eventLoopTurn } from 'node:timers/promises';
import {
  type CallOptions,
  CheckpointError,
  checkOptions,
  type NamedStagingSource,
  optional,
  type Stage,
  type Staging,
  throwIfAborted,
  wholeNumber,
} from '@holdfast/core/contract';
import { stageOf, stageStillHeld } from './copied-source.ts';
import { copySources, type Room } from './copy-sources.ts';

const MIB = 1024 * 1024;

/**
 * A copy doubles the memory of a state. A process that is killed for its memory loses more than a
 * rejected save does. A user with a larger state must therefore set the limit.
 */
const BYTES_MAX_DEFAULT = 1024 * MIB;

/**
 * Memory is allocated in pieces of this size, and after each the event loop gets a turn, because
 * heartbeats depend on it. Copying one takes some milliseconds, several times as long into new
 * memory. Smaller pieces would be slower: from about half of the processor's cache on, `memcpy`
 * writes past the cache, which is almost twice as fast.
 */
const SLAB_BYTES = 32 * MIB;

export interface MemoryStagingOptions {
  /** Limit for all copies of a save together. Default 1 GiB. */
  bytesMax?: number | undefined;
}

/**
 * Keeps the memory of the largest save for later saves, because touching new memory costs as much
 * as the copy. The memory is freed with the staging object.
 */
export class MemoryStaging implements Staging {
  readonly bytesMax: number;
  readonly #slabs: Uint8Array[] = [];
  #isHeld = false;

  constructor(options: MemoryStagingOptions = {}) {
    checkOptions(options, { bytesMax: optional(wholeNumber(1)) });
    this.bytesMax = options.bytesMax ?? BYTES_MAX_DEFAULT;
  }

  /** Memory that it holds now, in use or not. */
  get keptBytes(): number {
    return this.#slabs.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  async stage(sources: readonly NamedStagingSource[], { signal }: CallOptions = {}): Promise<Stage> {
    if (this.#isHeld) throw stageStillHeld();
    this.#isHeld = true;
    const slabs = this.#slabs;
    const { bytesMax } = this;
    try {
      const room = new SlabRoom(slabs, bytesMax, signal);
      const copied = await copySources(sources, { room, bytesMax, signal });
      const read = async (offsetBytes: number, buffer: Uint8Array) => readSlabs(slabs, offsetBytes, buffer);
      return stageOf(copied, read, () => {
        this.#isHeld = false;
      });
    } catch (error) {
      this.#isHeld = false;
      throw error;
    }
  }
}

class SlabRoom implements Room {
  readonly #slabs: Uint8Array[];
  readonly #bytesMax: number;
  readonly #signal: AbortSignal | undefined;
  #usedBytes = 0;
  #sinceTurnBytes = 0;

  constructor(slabs: Uint8Array[], bytesMax: number, signal: AbortSignal | undefined) {
    this.#slabs = slabs;
    this.#bytesMax = bytesMax;
    this.#signal = signal;
  }

  async append(bytes: Uint8Array): Promise<void> {
    await this.fill(bytes.byteLength, async (offsetBytes, buffer) => {
      buffer.set(bytes.subarray(offsetBytes, offsetBytes + buffer.byteLength));
    });
  }

  async fill(
    sizeBytes: number,
    read: (offsetBytes: number, buffer: Uint8Array) => Promise<void>,
  ): Promise<void> {
    for (let done = 0; done < sizeBytes; ) {
      const free = this.#free().subarray(0, sizeBytes - done);
      await read(done, free);
      done += free.byteLength;
      this.#usedBytes += free.byteLength;
      await this.#leaveTurns(free.byteLength);
    }
  }

  /** The free rest of the current slab, or a new slab. */
  #free(): Uint8Array {
    const index = Math.floor(this.#usedBytes / SLAB_BYTES);
    const start = index * SLAB_BYTES;
    this.#slabs[index] ??= allocate(Math.min(SLAB_BYTES, this.#bytesMax - start));
    return this.#slabs[index].subarray(this.#usedBytes - start);
  }

  async #leaveTurns(copiedBytes: number): Promise<void> {
    this.#sinceTurnBytes += copiedBytes;
    if (this.#sinceTurnBytes < SLAB_BYTES) return;
    this.#sinceTurnBytes = 0;
    await eventLoopTurn();
    throwIfAborted(this.#signal);
  }
}

function allocate(sizeBytes: number): Uint8Array {
  try {
    return new Uint8Array(sizeBytes);
  } catch (cause) {
    throw new CheckpointError(
      'StorageFull',
      `there is not enough memory for ${sizeBytes} more bytes of staging`,
      {
        cause,
      },
    );
  }
}

/** All slabs except the last have the same size. Callers read only bytes that were written. */
function readSlabs(slabs: readonly Uint8Array[], offsetBytes: number, buffer: Uint8Array): void {
  for (let done = 0; done < buffer.byteLength; ) {
    const index = Math.floor((offsetBytes + done) / SLAB_BYTES);
    const start = offsetBytes + done - index * SLAB_BYTES;
    const piece = (slabs[index] as Uint8Array).subarray(start, start + buffer.byteLength - done);
    buffer.set(piece, done);
    done += piece.byteLength;
  }
}
