/** Quickly generated files of any size whose bytes identify their writer. */

import { crc32c } from '@holdfast/core';
import { filledBytes } from '../filled-bytes.ts';

/** No part size is a multiple of this number, so all parts differ. */
const PATTERN_BYTES = 65_521;

/** Names and bytes of a writer's files. The file `w…/large` has the given size. */
export function largeFilesOf(
  attempt: string,
  version: bigint,
  writer: number,
  sizeBytes: number,
): Record<string, Uint8Array> {
  const seed = crc32c(new TextEncoder().encode(`${attempt}/${version}/${writer}`));
  const pattern = filledBytes(PATTERN_BYTES, (index) => (Math.imul(index, 2654435761) ^ seed) >>> 24);
  return {
    [`w${writer}/large`]: Buffer.alloc(sizeBytes, pattern),
    [`w${writer}/tag`]: new TextEncoder().encode(attempt),
  };
}
