/**
 * Files that are already in the store. A file equal to one of them need not be sent, if both have a
 * BLAKE3. A file that may be equal to one of them is worth hashing. Pure.
 */

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
  /**
   * Hash of the whole file. Empty: the file may not be referred to, because it was never hashed or
   * its object is not trusted.
   */
  readonly blake3: Uint8Array;
  /**
   * The checkpoint whose manifest lists the file. The object may have the key of an older one.
   */
  readonly base: CheckpointId;
}

const NO_HASH = new Uint8Array(0);

/** The values that decide whether two files are the same. `blake3`: 32 bytes. */
export type Likeness = Pick<KnownFile, 'sizeBytes' | 'crc32c' | 'blake3'>;

function mayBeReferredTo({ blake3 }: KnownFile): boolean {
  return blake3.byteLength > 0;
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

  /** True if hashing a file pays: it has the size and CRC32C of a known file. */
  mayHave({ sizeBytes, crc32c }: Omit<Likeness, 'blake3'>): boolean {
    return this.#bySize.get(sizeBytes)?.has(crc32c) ?? false;
  }

  /** A file that may be referred to: size, CRC32C and BLAKE3 are equal. */
  find({ sizeBytes, crc32c, blake3 }: Likeness): KnownFile | undefined {
    const ofCrc = this.#bySize.get(sizeBytes)?.get(crc32c);
    return ofCrc?.find((known) => mayBeReferredTo(known) && bytesEqual(known.blake3, blake3));
  }

  ofSize(sizeBytes: number): KnownFile[] {
    return [...(this.#bySize.get(sizeBytes)?.values() ?? [])].flat();
  }

  /**
   * The same files, but a save must not refer to any of them. A file that is equal to one is sent,
   * and hashed, so that later saves can refer to it.
   */
  withoutReferences(): KnownFiles {
    const all = [...this.#bySize.keys()].flatMap((sizeBytes) => this.ofSize(sizeBytes));
    return new KnownFiles(all.map((file) => ({ ...file, blake3: NO_HASH })));
  }
}

/** Known files that match the parts of a file that were read so far. */
export class MatchingFiles {
  readonly #partSizeBytes: number;
  #files: KnownFile[];

  /**
   * `files`: known files of the same size. A file with checksums for another part size can only be
   * compared as a whole, so it counts only if it may be referred to.
   */
  constructor(files: readonly KnownFile[], partSizeBytes: number) {
    this.#partSizeBytes = partSizeBytes;
    this.#files = files.filter((file) => mayBeReferredTo(file) || this.#hasSameParts(file));
  }

  get isEmpty(): boolean {
    return this.#files.length === 0;
  }

  /** True while one of them may be referred to. */
  get mayBeReferredTo(): boolean {
    return this.#files.some(mayBeReferredTo);
  }

  /** Keeps a file with another part size: only the whole file can be compared. */
  keepThoseWith(part: number, crc32c: number): void {
    this.#files = this.#files.filter((file) => !this.#hasSameParts(file) || partCrc(file, part) === crc32c);
  }

  keepThoseInSameParts(): void {
    this.#files = this.#files.filter((file) => this.#hasSameParts(file));
  }

  #hasSameParts({ partSizeBytes }: KnownFile): boolean {
    return partSizeBytes === this.#partSizeBytes;
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
 * Files of the `bases`, newest first. A save may not refer to files that a distrusted checkpoint
 * lists too, or may list. A save does not refer to a file either if a newer base has an equal file
 * that must not be referred to. That newer file was perhaps sent because the object of this one is
 * damaged.
 */
export function knownFiles(
  bases: readonly { readonly id: CheckpointId; readonly files: readonly FileRecord[] }[],
  distrusted: readonly Distrusted[],
): KnownFiles {
  const damaged = new Set(distrusted.flatMap(({ files }) => files?.map(({ key }) => key) ?? []));
  const large = distrusted.filter(({ files }) => files === undefined);
  const isTrusted = ({ key }: FileRecord) =>
    !damaged.has(key) && !large.some((checkpoint) => mayList(checkpoint, key));
  const keys = new Set<string>();
  const copies = new Set<string>();
  const known: KnownFile[] = [];
  for (const { id, files } of bases) {
    const unreferred: KnownFile[] = [];
    for (const file of files) {
      // An older checkpoint may list it too, but the newest is the base.
      if (keys.has(file.key)) continue;
      keys.add(file.key);
      const mayRefer = file.blake3.byteLength > 0 && isTrusted(file) && !copies.has(contentOf(file));
      if (mayRefer) known.push({ ...file, base: id });
      else unreferred.push({ ...file, blake3: NO_HASH, base: id });
    }
    for (const file of unreferred) copies.add(contentOf(file));
    known.push(...unreferred);
  }
  return new KnownFiles(known);
}

function contentOf({ sizeBytes, crc32c }: Pick<FileRecord, 'sizeBytes' | 'crc32c'>): string {
  return `${sizeBytes} ${crc32c}`;
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
