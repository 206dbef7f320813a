/**
 * The contents of the discarding server. It keeps small objects completely. For larger ones it
 * keeps only what it needs to recreate them.
 */

import { crc32cCombine } from '@holdfast/core/contract';
import { MIB, patternPieces, ROTATION_BYTES } from '../s3/shapes.ts';

/**
 * Larger objects are not kept. They must consist of the pattern, otherwise they cannot be returned.
 */
export const KEPT_BYTES_MAX = MIB;
/** Bytes at the start of an object, enough to find its position in the pattern. */
export const SAMPLE_BYTES = 64;

/** Bytes that have arrived. */
export interface Received {
  readonly sizeBytes: number;
  /** All bytes of a small body, otherwise at least the first `SAMPLE_BYTES`. */
  readonly start: Buffer;
  /** 0 if the dialect does not use it. */
  readonly crc32c: number;
}

export interface StoredObject {
  readonly sizeBytes: number;
  /** Grows with every write. */
  readonly version: number;
  readonly modified: Date;
  readonly crc32c: number;
  /** Headers that are returned with the object. */
  readonly metadata: Readonly<Record<string, string>>;
  /** If this is missing, `rotationBytes` is the start of the object's bytes in the pattern. */
  readonly bytes?: Buffer;
  readonly rotationBytes: number;
}

export interface Part extends Received {
  readonly version: number;
}

/** A range of an object's bytes. The end is exclusive. */
export interface Range {
  readonly startBytes: number;
  readonly endBytes: number;
}

/** Objects by key. The order of the keys is kept between writes, for listings of many pages. */
class Objects extends Map<string, StoredObject> {
  #sorted: string[] | undefined;

  override set(key: string, object: StoredObject): this {
    if (!this.has(key)) this.#sorted = undefined;
    return super.set(key, object);
  }

  override delete(key: string): boolean {
    this.#sorted = undefined;
    return super.delete(key);
  }

  sortedKeys(): readonly string[] {
    this.#sorted ??= [...this.keys()].sort();
    return this.#sorted;
  }
}

export class Contents {
  readonly objects = new Objects();
  /** By upload, then by the number or name of a part. */
  readonly uploads = new Map<string, Map<string, Part>>();
  readonly #pattern: Buffer;
  #versions = 0;

  constructor(pattern: Buffer) {
    this.#pattern = pattern;
  }

  newVersion(): number {
    this.#versions++;
    return this.#versions;
  }

  put(
    key: string,
    { sizeBytes, start, crc32c }: Received,
    metadata: Record<string, string> = {},
  ): StoredObject {
    const isKept = sizeBytes <= KEPT_BYTES_MAX;
    const object: StoredObject = {
      sizeBytes,
      version: this.newVersion(),
      modified: new Date(),
      crc32c,
      metadata,
      ...(isKept ? { bytes: start } : {}),
      rotationBytes: isKept ? 0 : this.#rotationOf(start),
    };
    this.objects.set(key, object);
    return object;
  }

  part({ sizeBytes, start, crc32c }: Received): Part {
    // Copy the sample, because a view would keep all received memory alive.
    return {
      sizeBytes,
      start: Buffer.from(start.subarray(0, SAMPLE_BYTES)),
      crc32c,
      version: this.newVersion(),
    };
  }

  /**
   * Assembles an object from parts in their order. Parts must make a large object of the pattern,
   * because only their start is known.
   */
  putParts(key: string, parts: readonly Part[], metadata: Record<string, string> = {}): StoredObject {
    const object: StoredObject = {
      sizeBytes: parts.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0),
      version: this.newVersion(),
      modified: new Date(),
      crc32c: parts.reduce((crc, part) => crc32cCombine(crc, part.crc32c, part.sizeBytes), 0),
      metadata,
      rotationBytes: parts[0] ? this.#rotationOf(parts[0].start) : 0,
    };
    this.objects.set(key, object);
    return object;
  }

  /** Bytes of the pattern are returned without a copy. */
  pieces({ bytes, rotationBytes }: StoredObject, range: Range): Iterable<Buffer> {
    if (bytes) return [bytes.subarray(range.startBytes, range.endBytes)];
    return patternPieces(this.#pattern, { rotationBytes, ...range });
  }

  /**
   * The first `most` keys below `prefix` for which `isAfter` is true, in order. `isAfter` must be
   * true for all keys after one for which it is true.
   */
  keys(prefix: string, isAfter: (key: string) => boolean, most: number): string[] {
    const sorted = this.objects.sortedKeys();
    let [first, end] = [0, sorted.length];
    while (first < end) {
      const middle = (first + end) >> 1;
      const key = sorted[middle] as string;
      if (key >= prefix && isAfter(key)) end = middle;
      else first = middle + 1;
    }
    const found = sorted.slice(first, first + most);
    const past = found.findIndex((key) => !key.startsWith(prefix));
    return past < 0 ? found : found.slice(0, past);
  }

  /** Finds the position of an object in the pattern from its first bytes. */
  #rotationOf(start: Buffer): number {
    const pattern = this.#pattern;
    const first = start.subarray(0, SAMPLE_BYTES);
    for (let at = 0; at < pattern.length; at += ROTATION_BYTES)
      if (pattern.compare(first, 0, first.length, at, at + first.length) === 0) return at;
    throw new Error('an object of more than 1 MiB is not made of the pattern, so it cannot be given back');
  }
}
