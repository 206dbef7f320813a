import type { FileRecord } from '../format/index.ts';

type Content = Pick<FileRecord, 'name' | 'sizeBytes' | 'crc32c'>;

/** The same names with the same bytes, as far as sizes and CRC32C tell; order does not matter. */
export function sameContent(a: readonly Content[], b: readonly Content[]): boolean {
  const content = new SameContent(a);
  content.compare(b);
  return content.isSame;
}

/** As `sameContent`, where the other files come a few at a time. */
export class SameContent {
  /** Not met yet. */
  readonly #rest: Map<string, Content>;
  #hasOther = false;

  constructor(files: readonly Content[]) {
    this.#rest = new Map(files.map((file) => [file.name, file]));
  }

  compare(files: readonly Content[]): void {
    for (const { name, sizeBytes, crc32c } of files) {
      const other = this.#rest.get(name);
      if (other?.sizeBytes === sizeBytes && other.crc32c === crc32c) this.#rest.delete(name);
      else this.#hasOther = true;
    }
  }

  /** All files of both were compared, and each has its like. */
  get isSame(): boolean {
    return !this.#hasOther && this.#rest.size === 0;
  }
}
