/** Copies whole sources, one after the other, within a limit. */

import { crc32c, readAgain } from '@holdfast/core';
import {
  assertChunk,
  CheckpointError,
  type NamedStagingSource,
  type RandomSource,
  type StagingSource,
  throwIfAborted,
  unchangedBytes,
  unlessAborted,
} from '@holdfast/core/contract';

/** The place where copies are appended, one source after the other. */
export interface Room {
  /** Appends `bytes`, which the caller may reuse when this resolves. */
  append(bytes: Uint8Array): Promise<void>;
  /** Appends `sizeBytes` that `read` fills in, from the first byte to the last. */
  fill(sizeBytes: number, read: (offsetBytes: number, buffer: Uint8Array) => Promise<void>): Promise<void>;
}

/** What a copy keeps of its source besides the bytes. */
type Kept = Pick<RandomSource, 'mode' | 'mtimeMs'>;

/** The part that was appended for one source. */
export interface Copied extends Kept {
  readonly startBytes: number;
  readonly sizeBytes: number;
}

export interface CopyOptions {
  readonly room: Room;
  readonly bytesMax: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * In the order of the sources. `StorageFull` names the needed and the allowed bytes; other errors
 * come from sources and room.
 */
export async function copySources(
  sources: readonly NamedStagingSource[],
  options: CopyOptions,
): Promise<Copied[]> {
  const budget = new Budget(options.bytesMax);
  const copied: Copied[] = [];
  throwIfAborted(options.signal);
  for (const [index, source] of sources.entries()) {
    throwIfAborted(options.signal);
    const startBytes = budget.usedBytes;
    try {
      const kept = await copySource(source, budget, options);
      copied.push({ ...kept, startBytes, sizeBytes: budget.usedBytes - startBytes });
    } catch (error) {
      if (!(error instanceof OverBudget)) throw error;
      throw await storageFull(sources.slice(index), { startBytes, error, bytesMax: options.bytesMax });
    }
  }
  return copied;
}

class OverBudget extends Error {
  readonly neededBytes: number;

  constructor(neededBytes: number) {
    super(`${neededBytes} bytes are more than allowed`);
    this.neededBytes = neededBytes;
  }
}

class Budget {
  readonly #bytesMax: number;
  usedBytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  take(sizeBytes: number): void {
    if (this.usedBytes + sizeBytes > this.#bytesMax) throw new OverBudget(this.usedBytes + sizeBytes);
    this.usedBytes += sizeBytes;
  }
}

/** Bytes in memory and streams have no mode or time to keep. */
async function copySource(
  { name, source }: NamedStagingSource,
  budget: Budget,
  { room, signal }: CopyOptions,
): Promise<Kept> {
  if ('stream' in source) {
    for await (const chunk of untilAborted(source.stream, signal)) {
      assertChunk(name, chunk);
      budget.take(chunk.byteLength);
      await room.append(chunk);
    }
    return {};
  }
  if ('bytes' in source) {
    const bytes = unchangedBytes(source);
    budget.take(bytes.byteLength);
    await room.append(bytes);
    return {};
  }
  return withOpened(source, async (opened) => {
    budget.take(opened.sizeBytes);
    let crc = 0;
    await room.fill(opened.sizeBytes, async (offsetBytes, buffer) => {
      throwIfAborted(signal);
      await opened.readInto(offsetBytes, buffer);
      if (opened.mayHideChanges) crc = crc32c(buffer, crc);
    });
    await readAgain(opened, { name, crc32c: crc, signal });
    await opened.assertUnchanged();
    return { mode: opened.mode, mtimeMs: opened.mtimeMs };
  });
}

async function withOpened<T>(
  source: Extract<StagingSource, { open(): Promise<RandomSource> }>,
  work: (opened: RandomSource) => Promise<T>,
): Promise<T> {
  const opened = await source.open();
  try {
    return await work(opened);
  } finally {
    // The bytes that were read are already compared, so a failed close does not matter.
    await opened.close().catch(() => undefined);
  }
}

/**
 * Yields the chunks of a stream until the signal fires. A stream may wait for bytes that never
 * come; then it is not waited for.
 */
async function* untilAborted(
  stream: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array> {
  const iterator = stream[Symbol.asyncIterator]();
  let isOver = false;
  try {
    for (;;) {
      const next = await unlessAborted(iterator.next(), signal).catch((error: unknown) => {
        isOver = !signal?.aborted;
        throw error;
      });
      isOver = next.done === true;
      if (isOver) return;
      yield next.value;
    }
  } finally {
    // Ignore an error of `return`: another error is already being thrown.
    if (!isOver) void Promise.resolve(iterator.return?.()).catch(() => undefined);
  }
}

/**
 * Measures the remaining sources, first the one that did not fit, so that the message says how much
 * to allow.
 */
async function storageFull(
  left: readonly NamedStagingSource[],
  { startBytes, error, bytesMax }: { startBytes: number; error: OverBudget; bytesMax: number },
): Promise<CheckpointError> {
  let neededBytes = startBytes;
  let isKnown = true;
  for (const [index, { source }] of left.entries()) {
    if ('bytes' in source) neededBytes += source.bytes.byteLength;
    else if ('open' in source) neededBytes += await sizeOf(source);
    else isKnown = false;
    if (index === 0) neededBytes = Math.max(neededBytes, error.neededBytes);
  }
  const needed = `${isKnown ? '' : 'at least '}${neededBytes} bytes`;
  const message = `staging needs ${needed} and may take ${bytesMax} (bytesMax); nothing was copied`;
  return new CheckpointError('StorageFull', message, { context: { neededBytes, bytesMax } });
}

async function sizeOf(source: Extract<StagingSource, { open(): Promise<RandomSource> }>): Promise<number> {
  try {
    return await withOpened(source, async ({ sizeBytes }) => sizeBytes);
  } catch {
    return 0; // throw the missing room, not this error
  }
}
