/** Decides from records whether files have the same bytes. Pure. */

import { bytesEqual, type DirectoryRecord, type FileRecord } from '../format/index.ts';

/** What a record says about the bytes of a file. */
export type RecordedBytes = Pick<
  FileRecord,
  'sizeBytes' | 'crc32c' | 'partSizeBytes' | 'partCrc32c' | 'blake3'
>;

/**
 * Compares by BLAKE3. If one file has none, compares by CRC32C, and by that of the parts if both
 * have the same part size.
 */
export function haveSameBytes(a: RecordedBytes, b: RecordedBytes): boolean {
  if (a.sizeBytes !== b.sizeBytes || a.crc32c !== b.crc32c) return false;
  if (a.blake3.byteLength > 0 && b.blake3.byteLength > 0) return bytesEqual(a.blake3, b.blake3);
  return a.partSizeBytes !== b.partSizeBytes || bytesEqual(a.partCrc32c, b.partCrc32c);
}

type Content = Pick<FileRecord, 'name' | 'sizeBytes' | 'crc32c'>;
type Directory = Pick<DirectoryRecord, 'name'>;

/**
 * Compares the content that one writer saves: the same names with the same bytes, judged by sizes
 * and CRC32C, and the same empty directories. Order does not matter. The other side's files arrive
 * a few at a time.
 */
export class SameContent {
  /** Files without a counterpart so far. */
  readonly #rest: Map<string, Content>;
  readonly #directories: ReadonlySet<string>;
  #hasOther = false;

  constructor(files: readonly Content[], directories: readonly Directory[]) {
    this.#rest = new Map(files.map((file) => [file.name, file]));
    this.#directories = new Set(directories.map(({ name }) => name));
  }

  compare(files: readonly Content[]): void {
    for (const { name, sizeBytes, crc32c } of files) {
      const other = this.#rest.get(name);
      if (other?.sizeBytes === sizeBytes && other.crc32c === crc32c) this.#rest.delete(name);
      else this.#hasOther = true;
    }
  }

  /** All empty directories of the other side. */
  compareDirectories(directories: readonly Directory[]): void {
    const names = new Set(directories.map(({ name }) => name));
    const isSame =
      names.size === this.#directories.size && [...names].every((name) => this.#directories.has(name));
    if (!isSame) this.#hasOther = true;
  }

  /** True once all files of both sides were compared and are equal. */
  get isSame(): boolean {
    return !this.#hasOther && this.#rest.size === 0;
  }
}
