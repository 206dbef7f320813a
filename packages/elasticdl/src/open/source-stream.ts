import { crc32c, readAgain } from '@holdfast/core';
import { type RandomSource, throwIfAborted } from '@holdfast/core/contract';

/** Two of them in memory: one is read while the other is used. */
const CHUNK_BYTES = 4 * 1024 * 1024;

/**
 * The bytes of a source in order, from the beginning each time it is iterated over. A chunk is to be used up before the next is asked for.
 * Does not end before the source has proven that it is unchanged.
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
      next?.catch(() => undefined); // it is awaited when its turn comes
      yield chunk;
    }
  } finally {
    await next?.catch(() => undefined); // nobody reads on, and the source is to be let go
  }
  await readAgain(source, { name, crc32c: crc, signal });
  await source.assertUnchanged();
}
