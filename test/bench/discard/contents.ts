/** What the discarding server remembers: small objects whole, of larger ones what it takes to give them back. */

import { crc32cCombine } from '@holdfast/core/contract';
import { MIB, patternPieces, ROTATION_BYTES } from '../s3/shapes.ts';

/** Larger objects are not kept: they are made of the pattern, or cannot be given back. */
export const KEPT_BYTES_MAX = MIB;
/** Of the start of an object, which tell where in the pattern it begins. */
export const SAMPLE_BYTES = 64;

/** Bytes that have come in. */
export interface Received {
  readonly sizeBytes: number;
  /** All of them if they are few, and at least the first `SAMPLE_BYTES`. */
  readonly start: Buffer;
  /** 0 where the dialect has no use for it. */
  readonly crc32c: number;
}

export interface StoredObject {
  readonly sizeBytes: number;
  /** Ever higher. */
  readonly version: number;
  readonly modified: Date;
  readonly crc32c: number;
  /** Headers to be given back with it. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Absent: `rotationBytes` says which bytes of the pattern it holds. */
  readonly bytes?: Buffer;
  readonly rotationBytes: number;
}

export interface Part extends Received {
  readonly version: number;
}

/** Of an object's bytes; the end is exclusive. */
export interface Range {
  readonly startBytes: number;
  readonly endBytes: number;
}

export class Contents {
  readonly objects = new Map<string, StoredObject>();
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
    // A copy: the sample would keep alive the memory that it came in.
    return {
      sizeBytes,
      start: Buffer.from(start.subarray(0, SAMPLE_BYTES)),
      crc32c,
      version: this.newVersion(),
    };
  }

  /** An object of parts, one after the other. Few small ones are no use of it: only their start is known. */
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

  /** What is in the pattern is not copied. */
  pieces({ bytes, rotationBytes }: StoredObject, range: Range): Iterable<Buffer> {
    if (bytes) return [bytes.subarray(range.startBytes, range.endBytes)];
    return patternPieces(this.#pattern, { rotationBytes, ...range });
  }

  /** In order; those below `prefix` and after `after`. */
  keys(prefix: string, isAfter: (key: string) => boolean): string[] {
    return [...this.objects.keys()].filter((key) => key.startsWith(prefix) && isAfter(key)).sort();
  }

  /** Where in the pattern an object begins, from its first bytes. */
  #rotationOf(start: Buffer): number {
    const pattern = this.#pattern;
    const first = start.subarray(0, SAMPLE_BYTES);
    for (let at = 0; at < pattern.length; at += ROTATION_BYTES)
      if (pattern.compare(first, 0, first.length, at, at + first.length) === 0) return at;
    throw new Error('an object of more than 1 MiB is not made of the pattern, so it cannot be given back');
  }
}
