import { crc32cCombine } from '@holdfast/core/contract';

/** CRC32C of what parts make together, in their order. Undefined if one of them has none. Microseconds for each part. */
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
