import { crc32c, readAgain } from '@holdfast/core';
import { type RandomSource, throwIfAborted } from '@holdfast/core/contract';

/** Two chunks are in memory: one is read while the other is used. */
const CHUNK_BYTES = 4 * 1024 * 1024;

/**
 * The bytes of a source in order, from the start on each iteration. Use up a chunk before asking
 * for the next one. Ends only after the source is verified as unchanged.
 */
export function sourceStream(
  name: string,
  source: RandomSource,
  signal: AbortSignal | undefined,
): AsyncIterable<Uint8Array> {
  return { [Symbol.asyncIterator]: () => chunksOf(name, source, signal) };
}

async function* chunksOf(
  name: string,
  source: RandomSource,
  signal: AbortSignal | undefined,
): AsyncGenerator<Uint8Array, void, void> {
  const { sizeBytes } = source;
  const sizes = Math.min(CHUNK_BYTES, sizeBytes);
  const memory = [new Uint8Array(sizes), new Uint8Array(sizes)] as const;
  const read = async (offsetBytes: number) => {
    const buffer = memory[(offsetBytes / CHUNK_BYTES) % 2 === 0 ? 0 : 1];
    const chunk = buffer.subarray(0, Math.min(CHUNK_BYTES, sizeBytes - offsetBytes));
    await source.readInto(offsetBytes, chunk);
    return chunk;
  };
  let next = sizeBytes > 0 ? read(0) : undefined;
  let crc = 0;
  try {
    for (let offset = 0; next !== undefined; offset += CHUNK_BYTES) {
      throwIfAborted(signal);
      const chunk = await next;
      if (source.mayHideChanges) crc = crc32c(chunk, crc);
      next = offset + CHUNK_BYTES < sizeBytes ? read(offset + CHUNK_BYTES) : undefined;
      next?.catch(() => undefined); // awaited later, when its turn comes
      yield chunk;
    }
  } finally {
    // No more chunks are needed. Wait for the last read, so that the source can be released.
    await next?.catch(() => undefined);
  }
  await readAgain(source, { name, crc32c: crc, signal });
  await source.assertUnchanged();
}
