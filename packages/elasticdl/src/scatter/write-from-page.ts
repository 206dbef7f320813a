import type { RandomSink } from '@holdfast/core/contract';
import { DIRECT_ALIGNMENT_BYTES } from '@holdfast/local-files';
import { allEnded } from './at-once.ts';

/**
 * Full pages go past the page cache. The start of a page, which other writes share, is therefore
 * written separately.
 */
export async function writeFromPage(sink: RandomSink, offsetBytes: number, bytes: Uint8Array): Promise<void> {
  if (bytes.byteLength === 0) return;
  const headBytes = Math.min(-offsetBytes & (DIRECT_ALIGNMENT_BYTES - 1), bytes.byteLength);
  const [head, rest] = [bytes.subarray(0, headBytes), bytes.subarray(headBytes)];
  await allEnded([
    ...(headBytes > 0 ? [sink.writeAt(offsetBytes, head)] : []),
    ...(rest.byteLength > 0 ? [sink.writeAt(offsetBytes + headBytes, rest)] : []),
  ]);
}
