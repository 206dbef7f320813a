/** What the records hold about one file: enough to read it back and to compare every byte. */
export interface StoredFile {
  /** Logical name, for messages. */
  readonly name: string;
  /** Key of its object. */
  readonly key: string;
  readonly sizeBytes: number;
  /** CRC32C of the whole file. */
  readonly crc32c: number;
  /** Every part but the last has this size; 0 for an empty file. */
  readonly partSizeBytes: number;
  /** CRC32C of each part in order, 4 bytes big-endian each; empty for an empty file. */
  readonly partCrc32c: Uint8Array;
}

export function totalBytes(files: readonly Pick<StoredFile, 'sizeBytes'>[]): number {
  return files.reduce((sum, file) => sum + file.sizeBytes, 0);
}
