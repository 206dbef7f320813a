/** Files that lie in the store already: what is like one of them need not be sent. Pure. */

import {
  bytesEqual,
  type CheckpointId,
  type FileRecord,
  idEquals,
  parseCheckpointPrefix,
} from '../format/index.ts';
import { partCrc } from './ranges.ts';
import type { StoredFile } from './stored-file.ts';

export interface KnownFile extends StoredFile {
  /** Of the whole file. */
  readonly blake3: Uint8Array;
  /** The checkpoint whose manifest lists it. Its object may lie under the key of an older one. */
  readonly base: CheckpointId;
}

/** What tells whether two files are the same one. */
export type Likeness = Pick<KnownFile, 'sizeBytes' | 'crc32c' | 'blake3'>;

export function isLike(known: KnownFile, file: Likeness): boolean {
  return (
    known.sizeBytes === file.sizeBytes &&
    known.crc32c === file.crc32c &&
    bytesEqual(known.blake3, file.blake3)
  );
}

/** By size, then by CRC32C; of several that are alike the one given first. */
export class KnownFiles {
  readonly #bySize = new Map<number, Map<number, KnownFile[]>>();

  constructor(files: Iterable<KnownFile>) {
    for (const file of files) {
      const ofSize = this.#bySize.get(file.sizeBytes) ?? new Map<number, KnownFile[]>();
      const ofCrc = ofSize.get(file.crc32c) ?? [];
      ofCrc.push(file);
      this.#bySize.set(file.sizeBytes, ofSize.set(file.crc32c, ofCrc));
    }
  }

  find(file: Likeness): KnownFile | undefined {
    const ofCrc = this.#bySize.get(file.sizeBytes)?.get(file.crc32c);
    return ofCrc?.find((known) => isLike(known, file));
  }

  ofSize(sizeBytes: number): KnownFile[] {
    return [...(this.#bySize.get(sizeBytes)?.values() ?? [])].flat();
  }
}

/** Known files that are like a file in parts as far as it was read. */
export class Candidates {
  readonly #partSizeBytes: number;
  #files: KnownFile[];

  constructor(files: KnownFile[], partSizeBytes: number) {
    this.#files = files;
    this.#partSizeBytes = partSizeBytes;
  }

  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  /** One that was checksummed in parts of another size stays: only the whole can tell. */
  keepThoseWith(part: number, crc32c: number): void {
    this.#files = this.#files.filter(
      (file) => file.partSizeBytes !== this.#partSizeBytes || partCrc(file, part) === crc32c,
    );
  }

  find(whole: Likeness): KnownFile | undefined {
    return this.#files.find((file) => isLike(file, whole));
  }
}

/** A checkpoint that was found damaged. Which of its objects are is not told apart here. */
export interface Distrusted {
  readonly id: CheckpointId;
  /** `undefined`: they are too many to look at. */
  readonly files: readonly FileRecord[] | undefined;
  /** Objects of older checkpoints are among its own. */
  readonly refersToOthers: boolean;
}

/** What a save may refer to: files of the `bases`, newest first. Not those that a distrusted checkpoint lists too, or may list. */
export function knownFiles(
  bases: readonly { readonly id: CheckpointId; readonly files: readonly FileRecord[] }[],
  distrusted: readonly Distrusted[],
): KnownFiles {
  const passedOver = new Set(distrusted.flatMap(({ files }) => files?.map(({ key }) => key) ?? []));
  const large = distrusted.filter(({ files }) => files === undefined);
  const known: KnownFile[] = [];
  for (const { id, files } of bases) {
    for (const file of files) {
      if (file.blake3.byteLength === 0 || passedOver.has(file.key)) continue;
      if (large.some((checkpoint) => mayList(checkpoint, file.key))) continue;
      passedOver.add(file.key); // an older one may list it too, but the newest is the base
      known.push({ ...file, base: id });
    }
  }
  return new KnownFiles(known);
}

/** Without a look at its files: its own objects, and any that may have been there before it. */
function mayList({ id, refersToOthers }: Distrusted, key: string): boolean {
  const other = parseCheckpointPrefix(key);
  if (other === null) return true;
  const isLater = other.lineage >= id.lineage && other.epoch >= id.epoch && other.version > id.version;
  return refersToOthers ? !isLater : idEquals(other, id);
}
