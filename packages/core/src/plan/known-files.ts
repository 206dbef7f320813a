/** Files that are already in the store: a file equal to one of them need not be sent. Pure. */

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
  /** Hash of the whole file. */
  readonly blake3: Uint8Array;
  /**
   * The checkpoint whose manifest lists it. Its object may be under the key of an older checkpoint.
   */
  readonly base: CheckpointId;
}

/** The values that decide whether two files are the same. */
export type Likeness = Pick<KnownFile, 'sizeBytes' | 'crc32c' | 'blake3'>;

export function isLike(known: KnownFile, file: Likeness): boolean {
  return (
    known.sizeBytes === file.sizeBytes &&
    known.crc32c === file.crc32c &&
    bytesEqual(known.blake3, file.blake3)
  );
}

/** Indexed by size, then by CRC32C. Among equal files, the one given first is returned. */
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

/** Known files that match the parts of a file that were read so far. */
export class MatchingFiles {
  readonly #partSizeBytes: number;
  #files: KnownFile[];

  constructor(files: KnownFile[], partSizeBytes: number) {
    this.#files = files;
    this.#partSizeBytes = partSizeBytes;
  }

  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  /** Keeps a file with checksums for another part size: only the whole file can be compared. */
  keepThoseWith(part: number, crc32c: number): void {
    this.#files = this.#files.filter(
      (file) => file.partSizeBytes !== this.#partSizeBytes || partCrc(file, part) === crc32c,
    );
  }

  find(whole: Likeness): KnownFile | undefined {
    return this.#files.find((file) => isLike(file, whole));
  }
}

/** A damaged checkpoint. It is not recorded which of its objects are damaged. */
export interface Distrusted {
  readonly id: CheckpointId;
  /** `undefined`: they are not known, or too many to check. */
  readonly files: readonly FileRecord[] | undefined;
  /** Its files include objects of older checkpoints. */
  readonly refersToOthers: boolean;
}

/**
 * Files that a save may refer to: those of the `bases`, newest first. Excludes files that a
 * distrusted checkpoint lists too, or may list.
 */
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
      // An older checkpoint may list it too, but the newest is the base.
      passedOver.add(file.key);
      known.push({ ...file, base: id });
    }
  }
  return new KnownFiles(known);
}

/**
 * For a checkpoint whose files are not known: assumes its own objects, and any that may have
 * existed before it.
 */
function mayList({ id, refersToOthers }: Distrusted, key: string): boolean {
  const other = parseCheckpointPrefix(key);
  if (other === null) return true;
  return refersToOthers ? !isSentAfter(other, id) : idEquals(other, id);
}

/** True if the objects of `id` did not exist yet when `other` was committed. */
function isSentAfter(id: CheckpointId, other: CheckpointId): boolean {
  if (id.lineage !== other.lineage) return id.lineage > other.lineage;
  if (id.epoch !== other.epoch) return id.epoch > other.epoch;
  return id.version > other.version;
}
