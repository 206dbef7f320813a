import type { RandomSink } from '@holdfast/core/contract';
import { DIRECT_ALIGNMENT_BYTES } from '@holdfast/local-files';
import { allEnded } from './at-once.ts';

/** What lies in the file as in memory goes past the page cache; so the beginning of a page that others share goes apart. */
export async function writeFromPage(sink: RandomSink, offsetBytes: number, bytes: Uint8Array): Promise<void> {
  if (bytes.byteLength === 0) return;
  const headBytes = Math.min(-offsetBytes & (DIRECT_ALIGNMENT_BYTES - 1), bytes.byteLength);
  const [head, rest] = [bytes.subarray(0, headBytes), bytes.subarray(headBytes)];
  await allEnded([
    ...(headBytes > 0 ? [sink.writeAt(offsetBytes, head)] : []),
    ...(rest.byteLength > 0 ? [sink.writeAt(offsetBytes + headBytes, rest)] : []),
  ]);
}
