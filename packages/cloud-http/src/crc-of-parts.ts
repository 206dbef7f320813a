import { crc32cCombine, type PartReceipt } from '@holdfast/core/contract';
import { objectError, type StoreSubject } from './errors.ts';

/**
 * Combines the parts' CRC32Cs in order. Undefined if a part has none. Takes microseconds per part.
 */
export function crcOfParts(
  parts: readonly { readonly sizeBytes: number; readonly crc32c?: number | undefined }[],
): number | undefined {
  let whole = 0;
  for (const { sizeBytes, crc32c } of parts) {
    if (crc32c === undefined) return undefined;
    whole = crc32cCombine(whole, crc32c, sizeBytes);
  }
  return whole;
}

/**
 * For stores that verify each part but receive no checksum of the whole. Passes if a part has no
 * checksum, or the whole has none.
 */
export function assertCrcOfParts(
  subject: StoreSubject,
  parts: readonly PartReceipt[],
  { crc32c }: { readonly crc32c?: number | undefined },
): void {
  const found = crcOfParts(parts) ?? crc32c;
  if (crc32c === undefined || found === crc32c) return;
  throw objectError('Corrupt', subject, `has parts whose combined CRC32C is ${found}; expected ${crc32c}`);
}
