/**
 * Reads a file in the safetensors format as a stream: 8 bytes little-endian with the length of the
 * header, a JSON header with type, shape and offsets of each tensor, and then the tensors' bytes
 * without gaps (https://huggingface.co/docs/safetensors). Pure.
 *
 * A header may be hostile: its length is checked before anything is kept. Problems are returned,
 * never thrown.
 */

import type { TensorShape } from '../contract/history.ts';
import { crc32c } from '../format/checksum.ts';
import { type Place, parseHeader } from './safetensors-header.ts';

/** The format's own limit. */
const HEADER_BYTES_MAX = 100_000_000;
const LENGTH_BYTES = 8;
/** Whether a file says by its name that it is one. */
export function isSafetensors(name: string): boolean {
  return name.endsWith('.safetensors');
}

export interface ReadTensor extends TensorShape {
  /** Place of this part in the whole tensor; `null` if the header says nothing of parts. */
  readonly offsets: readonly number[] | null;
  /** Place of its first byte in the file. */
  readonly fileOffsetBytes: number;
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
      this.#places.map(({ name, shape, offsets, startBytes }, index) => [
        name,
        {
          ...shape,
          offsets,
          fileOffsetBytes: LENGTH_BYTES + (this.#headerBytes ?? 0) + startBytes,
          crc32c: this.#sums?.of(index),
        },
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
    const statedBytes = new DataView(this.#head.buffer).getBigUint64(0, true);
    const headerBytes = Number(statedBytes);
    const limit = Math.min(HEADER_BYTES_MAX, headerBytesMax);
    if (headerBytes > limit) this.#refuse(`its header has ${statedBytes} bytes; at most ${limit} are read`);
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
