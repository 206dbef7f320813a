/**
 * Reads a source a second time if only its bytes can reveal a change. The second reading begins
 * after the first has read everything. If both are equal, they are the content of the source at the
 * moment between them.
 */

import { CheckpointError, type RandomSource, throwIfAborted } from '../contract/index.ts';
import { crc32c as computeCrc32c } from '../format/checksum.ts';

const PIECE_BYTES = 1024 * 1024;

export interface SecondReadingOptions {
  /** For messages. */
  readonly name: string;
  /** CRC32C of all bytes of the source in the first reading. */
  readonly crc32c: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Call it after reading all of a source, and before the source's `assertUnchanged`. Reads the
 * source again if `mayHideChanges` is set, with 1 MiB of memory, and else does nothing.
 * `SourceChanged`: the bytes differ.
 */
export async function readAgain(
  source: Pick<RandomSource, 'sizeBytes' | 'mayHideChanges' | 'readInto'>,
  { name, crc32c, signal }: SecondReadingOptions,
): Promise<void> {
  const { sizeBytes } = source;
  if (!source.mayHideChanges || sizeBytes === 0) return;
  const memory = new Uint8Array(Math.min(PIECE_BYTES, sizeBytes));
  let again = 0;
  for (let start = 0; start < sizeBytes; start += PIECE_BYTES) {
    throwIfAborted(signal);
    const piece = memory.subarray(0, Math.min(PIECE_BYTES, sizeBytes - start));
    await source.readInto(start, piece);
    again = computeCrc32c(piece, again);
  }
  if (again !== crc32c) throw changedWhileRead(name, { startBytes: 0, lengthBytes: sizeBytes });
}

export function changedWhileRead(
  name: string,
  { startBytes, lengthBytes }: { readonly startBytes: number; readonly lengthBytes: number },
): CheckpointError {
  const message = `"${name}" changed while it was read: bytes ${startBytes} to ${startBytes + lengthBytes - 1} differ between two readings`;
  return new CheckpointError('SourceChanged', message, { context: { name } });
}
