/**
 * Reads a file in the safetensors format as a stream: 8 bytes little-endian with the length of the
 * header, a JSON header with type, shape and offsets of each tensor, and then the tensors' bytes
 * without gaps (https://huggingface.co/docs/safetensors). Pure.
 *
 * A header may be hostile: its length is checked before anything is kept, and the number of its
 * values before it is parsed. Problems are returned, never thrown.
 */

import type { TensorShape } from '../contract/history.ts';
import { crc32c } from '../format/checksum.ts';

/** The format's own limit. */
const HEADER_BYTES_MAX = 100_000_000;
const LENGTH_BYTES = 8;
/**
 * Limit on brackets, commas and colons; a tensor has about a dozen. Each stands for a value that
 * the parsed header keeps in memory.
 */
const STRUCTURE_MAX = 2_000_000;
const DIMENSIONS_MAX = 64;
const METADATA = '__metadata__';
/**
 * The key in a header's metadata under which PyTorch writes `{name: {"saved_offsets": […]}}` as
 * JSON (`_hf_utils.py` of `torch.distributed.checkpoint`).
 */
const SHARDING = 'DCP_SHARDING_INFO';
const DTYPE = /^[A-Z][A-Z0-9_]{0,15}$/;
const STRUCTURE: ReadonlySet<number> = new Set([...'[{,:'].map((character) => character.charCodeAt(0)));

/** Whether a file says by its name that it is one. */
export function isSafetensors(name: string): boolean {
  return name.endsWith('.safetensors');
}

export interface ReadTensor extends TensorShape {
  /** Place of this part in the whole tensor; `null` if the header says nothing of parts. */
  readonly offsets: readonly number[] | null;
  /** CRC32C of its bytes; `undefined` if they were not read. */
  readonly crc32c: number | undefined;
}

export interface TensorScanOptions {
  /** Size of the whole file. */
  readonly fileBytes: number;
  /** A longer header is rejected; the format's own limit applies as well. */
  readonly headerBytesMax: number;
  /** Also compute the checksum of each tensor, which requires the whole file. */
  readonly withSums: boolean;
}

interface Place {
  readonly name: string;
  readonly shape: TensorShape;
  readonly offsets: readonly number[] | null;
  /** Relative to the end of the header. */
  readonly startBytes: number;
  readonly endBytes: number;
}

/**
 * Call `push` with the bytes in order until `wantsMore` is false. Then there is either a `problem`
 * or the `tensors`.
 */
export class SafetensorsScan {
  readonly #options: TensorScanOptions;
  /** The length of the header, then the header. */
  #head = new Uint8Array(LENGTH_BYTES);
  #headFilledBytes = 0;
  #headerBytes: number | undefined;
  #sums: TensorSums | undefined;
  #places: readonly Place[] = [];
  #problem: string | undefined;
  #isDone = false;

  constructor(options: TensorScanOptions) {
    this.#options = options;
    const { fileBytes } = options;
    if (fileBytes < LENGTH_BYTES) this.#refuse(`it has ${fileBytes} bytes, but the format begins with 8`);
  }

  get wantsMore(): boolean {
    return !this.#isDone;
  }

  /** Why it is not a safetensors file; `undefined`: it is. */
  get problem(): string | undefined {
    return this.#problem;
  }

  get tensors(): ReadonlyMap<string, ReadTensor> {
    return new Map(
      this.#places.map(({ name, shape, offsets }, index) => [
        name,
        { ...shape, offsets, crc32c: this.#sums?.of(index) },
      ]),
    );
  }

  push(bytes: Uint8Array): void {
    let rest = bytes;
    while (rest.byteLength > 0 && !this.#isDone) {
      if (this.#sums) {
        this.#sums.push(rest);
        this.#isDone = this.#sums.isDone;
        return;
      }
      const taken = rest.subarray(0, this.#head.byteLength - this.#headFilledBytes);
      this.#head.set(taken, this.#headFilledBytes);
      this.#headFilledBytes += taken.byteLength;
      rest = rest.subarray(taken.byteLength);
      if (this.#headFilledBytes === this.#head.byteLength) this.#headFilled();
    }
  }

  #headFilled(): void {
    if (this.#headerBytes === undefined) this.#beginHeader();
    else this.#endHeader(this.#headerBytes);
  }

  #beginHeader(): void {
    const { fileBytes, headerBytesMax } = this.#options;
    const headerBytes = Number(new DataView(this.#head.buffer).getBigUint64(0, true));
    const limit = Math.min(HEADER_BYTES_MAX, headerBytesMax);
    if (headerBytes > limit) this.#refuse(`its header has ${headerBytes} bytes; at most ${limit} are read`);
    else if (headerBytes < 2 || headerBytes > fileBytes - LENGTH_BYTES) {
      this.#refuse(`its header would have ${headerBytes} of its ${fileBytes} bytes`);
    } else {
      this.#headerBytes = headerBytes;
      this.#head = new Uint8Array(headerBytes);
      this.#headFilledBytes = 0;
    }
  }

  #endHeader(headerBytes: number): void {
    const dataBytes = this.#options.fileBytes - LENGTH_BYTES - headerBytes;
    const places = parseHeader(this.#head, dataBytes);
    this.#head = new Uint8Array(0);
    if (typeof places === 'string') {
      this.#refuse(places);
      return;
    }
    this.#places = places;
    if (this.#options.withSums) this.#sums = new TensorSums(places);
    this.#isDone = this.#sums?.isDone ?? true;
  }

  #refuse(problem: string): void {
    this.#problem = problem;
    this.#isDone = true;
  }
}

/** Checksums of places that follow one another without gaps. */
class TensorSums {
  readonly #places: readonly Place[];
  readonly #sums: number[];
  #at = 0;
  #index = 0;

  constructor(places: readonly Place[]) {
    this.#places = places;
    this.#sums = places.map(() => 0);
    this.#skipEnded();
  }

  get isDone(): boolean {
    return this.#index === this.#places.length;
  }

  of(index: number): number | undefined {
    return this.#sums[index];
  }

  push(bytes: Uint8Array): void {
    let rest = bytes;
    for (
      let place = this.#places[this.#index];
      place && rest.byteLength > 0;
      place = this.#places[this.#index]
    ) {
      const part = rest.subarray(0, place.endBytes - this.#at);
      this.#sums[this.#index] = crc32c(part, this.#sums[this.#index]);
      this.#at += part.byteLength;
      rest = rest.subarray(part.byteLength);
      this.#skipEnded();
    }
  }

  #skipEnded(): void {
    while ((this.#places[this.#index]?.endBytes ?? Number.POSITIVE_INFINITY) <= this.#at) this.#index += 1;
  }
}

/** The tensors in the order of their bytes, or the problem. */
function parseHeader(bytes: Uint8Array, dataBytes: number): Place[] | string {
  if (structureOf(bytes) > STRUCTURE_MAX) {
    return `its header has more than ${STRUCTURE_MAX} brackets, commas and colons`;
  }
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch {
    return 'its header is not JSON';
  }
  if (!isObject(header)) return 'its header is not a JSON object';
  const places: Place[] = [];
  const sharding = shardingOf(header[METADATA]);
  for (const [name, entry] of Object.entries(header)) {
    if (name === METADATA) continue;
    const place = placeOf(name, entry, sharding);
    if (place === undefined)
      return `its header does not give type, shape and offsets of ${JSON.stringify(name)}`;
    places.push(place);
  }
  places.sort((a, b) => a.startBytes - b.startBytes || a.endBytes - b.endBytes);
  return gapIn(places, dataBytes) ?? places;
}

function structureOf(bytes: Uint8Array): number {
  let count = 0;
  for (const byte of bytes) if (STRUCTURE.has(byte)) count += 1;
  return count;
}

/** Empty if the header says nothing of parts, or nothing that can be understood. */
function shardingOf(metadata: unknown): ReadonlyMap<string, unknown> {
  const text = isObject(metadata) ? metadata[SHARDING] : undefined;
  try {
    const sharding: unknown = typeof text === 'string' ? JSON.parse(text) : undefined;
    return new Map(isObject(sharding) ? Object.entries(sharding) : []);
  } catch {
    return new Map();
  }
}

function placeOf(name: string, entry: unknown, sharding: ReadonlyMap<string, unknown>): Place | undefined {
  if (!isObject(entry)) return undefined;
  const { dtype, shape, data_offsets: offsets } = entry;
  if (typeof dtype !== 'string' || !DTYPE.test(dtype)) return undefined;
  if (!areCounts(shape) || shape.length > DIMENSIONS_MAX) return undefined;
  if (!areCounts(offsets) || offsets.length !== 2) return undefined;
  const [startBytes = 0, endBytes = 0] = offsets;
  if (endBytes < startBytes) return undefined;
  const part = sharding.get(name);
  const saved = isObject(part) ? part['saved_offsets'] : undefined;
  return {
    name,
    shape: { dtype, shape, sizeBytes: endBytes - startBytes },
    offsets: areCounts(saved) && saved.length === shape.length ? saved : null,
    startBytes,
    endBytes,
  };
}

/**
 * Rejects overlaps and gaps: overlapping tensors would be read many times, and bytes in a gap would
 * never be compared.
 */
function gapIn(places: readonly Place[], dataBytes: number): string | undefined {
  let at = 0;
  for (const { name, startBytes, endBytes } of places) {
    if (startBytes !== at) return `tensor ${JSON.stringify(name)} does not follow the one before it`;
    at = endBytes;
  }
  return at === dataBytes ? undefined : `its tensors end after ${at} of ${dataBytes} bytes`;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function areCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => Number.isSafeInteger(each) && each >= 0);
}
