/** Checksums of bytes in shared memory, computed in a worker. */

import type { WorkerPort } from '../contract/transfer-workers.ts';
import { serveCalls } from '../contract/worker-calls.ts';
import { type Blake3, blake3, crc32c, startBlake3 } from '../format/checksum.ts';

export type ChecksumRequest =
  | { readonly crc32c: Uint8Array }
  | { readonly blake3: Uint8Array }
  /** `hash`: chosen by the caller, for all bytes of one file. */
  | { readonly hash: number; readonly bytes: Uint8Array }
  | { readonly digestOf: number }
  | { readonly dropped: number };

/** The CRC32C, the BLAKE3, or nothing. */
export type ChecksumAnswer = number | Uint8Array | undefined;

export function serve(port: WorkerPort): void {
  const hashes = new Map<number, Blake3>();
  const hashOf = (id: number): Blake3 => {
    const hash = hashes.get(id) ?? startBlake3();
    hashes.set(id, hash);
    return hash;
  };
  serveCalls<ChecksumRequest, ChecksumAnswer>(port, (request) => {
    if ('crc32c' in request) return crc32c(request.crc32c);
    if ('blake3' in request) return blake3(request.blake3);
    if ('bytes' in request) {
      hashOf(request.hash).update(request.bytes);
      return undefined;
    }
    const id = 'digestOf' in request ? request.digestOf : request.dropped;
    const digest = 'digestOf' in request ? hashOf(id).digest() : undefined;
    hashes.delete(id);
    return digest;
  });
}
