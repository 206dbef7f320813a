import { crc32cCombine } from '../contract/crc32c-combine.ts';
import type { UploadedFile } from './api.ts';

/** CRC32C of consecutive parts. */
export class PartChecksums {
  readonly #crcs: number[] = [];

  set(index: number, crc32c: number): void {
    this.#crcs[index] = crc32c;
  }

  /** `undefined`: the part was not set. */
  partCrc32c(index: number): number | undefined {
    return this.#crcs[index];
  }

  describe(
    sizeBytes: number,
    partSizeBytes: number,
  ): Pick<UploadedFile, 'sizeBytes' | 'crc32c' | 'partSizeBytes' | 'partCrc32c'> {
    // Byte by byte: creating a view of a small array costs more than the rest of this function.
    const partCrc32c = new Uint8Array(this.#crcs.length * 4);
    let crc32c = 0;
    for (const [index, part] of this.#crcs.entries()) {
      for (let byte = 0; byte < 4; byte += 1) partCrc32c[index * 4 + byte] = part >>> (24 - 8 * byte);
      crc32c = crc32cCombine(crc32c, part, Math.min(partSizeBytes, sizeBytes - index * partSizeBytes));
    }
    return { sizeBytes, crc32c, partSizeBytes: sizeBytes === 0 ? 0 : partSizeBytes, partCrc32c };
  }
}
