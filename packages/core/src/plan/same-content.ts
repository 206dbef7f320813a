import type { FileRecord } from '../format/index.ts';

type Content = Pick<FileRecord, 'name' | 'sizeBytes' | 'crc32c'>;

/** The same names with the same bytes, as far as sizes and CRC32C tell; order does not matter. */
export function sameContent(a: readonly Content[], b: readonly Content[]): boolean {
  if (a.length !== b.length) return false;
  const byName = new Map(a.map((file) => [file.name, file]));
  return b.every((file) => {
    const other = byName.get(file.name);
    return other !== undefined && other.sizeBytes === file.sizeBytes && other.crc32c === file.crc32c;
  });
}
