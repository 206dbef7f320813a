/**
 * Reads protobuf's wire format through a small window. Libraries need a whole message in memory,
 * but a shard has gigabytes of contents; here they are skipped. Memory is never allocated by a
 * length that the file claims. https://protobuf.dev/programming-guides/encoding
 */

import { type CheckpointError, type RandomSource, throwIfAborted } from '@holdfast/core/contract';
import { corrupt } from './read-errors.ts';

/** Read size after a jump: usually enough for a name, a shape and the headers around them. */
const WINDOW_BYTES_MIN = 1024;
/** Largest read size when reading sequentially, to save requests. */
const WINDOW_BYTES_MAX = 262_144;
/** 64 bits, 7 in each byte. */
export const VARINT_BYTES_MAX = 10;
/** A tag, and a length or value. */
const HEADER_BYTES_MAX = 2 * VARINT_BYTES_MAX;
const FIELD_NUMBER_MAX = 536_870_911;
const TWO_TO_32 = 4_294_967_296;

export const WIRE = { varint: 0, fixed64: 1, bytes: 2, fixed32: 5 } as const;

export interface FieldHeader {
  readonly number: number;
  readonly wireType: (typeof WIRE)[keyof typeof WIRE];
  /** Offset of its tag. */
  readonly tagOffsetBytes: number;
  /** Offset of its content: a varint, or bytes. */
  readonly offsetBytes: number;
  /** Length of bytes and fixed numbers; 0 for a varint, which is not read yet. */
  readonly lengthBytes: number;
}

export interface CursorOptions {
  /** Name of the file in messages. */
  readonly name: string;
  readonly signal?: AbortSignal | undefined;
}

export class WireCursor {
  readonly file: string;
  readonly sizeBytes: number;
  /** Offset in the file. Setting it reads nothing; `need` reads. */
  position = 0;
  /** The subject for messages: `tensor "dense/bias:0"`. */
  what: string | null = null;
  readonly #source: RandomSource;
  readonly #signal: AbortSignal | undefined;
  #window = new Uint8Array(0);
  #windowStartBytes = 0;
  #aheadBytes = WINDOW_BYTES_MIN;

  constructor(source: RandomSource, options: CursorOptions) {
    this.#source = source;
    this.#signal = options.signal;
    this.file = options.name;
    this.sizeBytes = source.sizeBytes;
  }

  /**
   * Ensures that the window has `bytes` from the position on, or all up to the end of the file.
   * Bytes in the window are not read again.
   */
  async need(bytes: number): Promise<void> {
    const wantedEnd = Math.min(this.position + bytes, this.sizeBytes);
    const windowEnd = this.#windowStartBytes + this.#window.byteLength;
    const goesOn = this.position >= this.#windowStartBytes && this.position <= windowEnd;
    if (goesOn && wantedEnd <= windowEnd) return;
    throwIfAborted(this.#signal);
    this.#aheadBytes = goesOn ? Math.min(2 * this.#aheadBytes, WINDOW_BYTES_MAX) : WINDOW_BYTES_MIN;
    const kept = goesOn
      ? this.#window.subarray(this.position - this.#windowStartBytes)
      : this.#window.subarray(0, 0);
    const readFrom = this.position + kept.byteLength;
    const readTo = Math.min(Math.max(wantedEnd, readFrom + this.#aheadBytes), this.sizeBytes);
    const window = new Uint8Array(readTo - this.position);
    window.set(kept);
    await this.#source.readInto(readFrom, window.subarray(kept.byteLength));
    this.#window = window;
    this.#windowStartBytes = this.position;
  }

  /**
   * Copies the next bytes and moves the position behind them. Only for lengths that are limited.
   */
  async take(lengthBytes: number): Promise<Uint8Array> {
    await this.need(lengthBytes);
    const from = this.position - this.#windowStartBytes;
    this.position += lengthBytes;
    return this.#window.slice(from, from + lengthBytes);
  }

  /**
   * Reads the next field's header. The field must end at `endBytes` or before; the caller must
   * reject one that ends after the file. The position is then the start of its content.
   */
  async header(endBytes: number): Promise<FieldHeader> {
    await this.need(HEADER_BYTES_MAX);
    const tagOffsetBytes = this.position;
    const [low, high] = this.#varint(endBytes);
    const tagBytes = this.position - tagOffsetBytes;
    const number = low >>> 3;
    const wireType = low & 7;
    if (high !== 0 || number === 0 || number > FIELD_NUMBER_MAX) {
      throw this.corrupt(tagOffsetBytes, 'this is not the tag of a field');
    }
    // Runs of ids rely on a tag of minimal length.
    if (tagBytes > 1 && low < 2 ** (7 * (tagBytes - 1))) {
      throw this.corrupt(tagOffsetBytes, `the tag of field ${number} is longer than it has to be`);
    }
    const lengthBytes = this.#length(wireType, number, tagOffsetBytes, endBytes);
    const offsetBytes = this.position;
    return {
      number,
      wireType: wireType as FieldHeader['wireType'],
      tagOffsetBytes,
      offsetBytes,
      lengthBytes,
    };
  }

  #length(wireType: number, number: number, tagOffsetBytes: number, endBytes: number): number {
    if (wireType === WIRE.varint) return 0;
    if (wireType !== WIRE.bytes && wireType !== WIRE.fixed32 && wireType !== WIRE.fixed64) {
      throw this.corrupt(tagOffsetBytes, `field ${number} has wire type ${wireType}, which no form has`);
    }
    let lengthBytes = wireType === WIRE.fixed32 ? 4 : 8;
    if (wireType === WIRE.bytes) {
      const [low, high] = this.#varint(endBytes);
      lengthBytes = high * TWO_TO_32 + low;
    }
    const leftBytes = endBytes - this.position;
    if (lengthBytes > leftBytes) throw this.cutOff(tagOffsetBytes, number, lengthBytes, leftBytes);
    return lengthBytes;
  }

  /** Reads the varint at the position as an int64. Call `need` first. */
  int64(endBytes: number): bigint {
    const [low, high] = this.#varint(endBytes);
    return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low));
  }

  /** Whether the next byte is this tag. */
  async isNext(tag: number): Promise<boolean> {
    await this.need(HEADER_BYTES_MAX);
    return this.#window[this.position - this.#windowStartBytes] === tag;
  }

  /**
   * Skips consecutive fields of one varint each with the same one-byte tag, as far as the window
   * reaches. Returns how many; 0 if no such field ends well before the window does.
   */
  skipSame(tag: number, endBytes: number): number {
    const window = this.#window;
    let at = this.position - this.#windowStartBytes;
    // The last position at which a whole tag and varint fit, so that no field is started that
    // cannot be finished.
    const last = Math.min(endBytes - this.#windowStartBytes, window.byteLength) - VARINT_BYTES_MAX - 1;
    let count = 0;
    while (at <= last && window[at] === tag) {
      const limit = at + VARINT_BYTES_MAX;
      let next = at + 1;
      while (next < limit && (window[next] ?? 0) >= 0x80) next++;
      if ((window[next] ?? 0) >= 0x80) break;
      at = next + 1;
      count++;
    }
    this.position = at + this.#windowStartBytes;
    return count;
  }

  /** Low and high 32 bits, unsigned. */
  #varint(endBytes: number): readonly [number, number] {
    const start = this.position;
    let low = 0;
    let high = 0;
    for (let index = 0; index < VARINT_BYTES_MAX; index++) {
      if (this.position >= Math.min(endBytes, this.sizeBytes)) {
        throw this.corrupt(start, 'it is cut off', 'the rest of a varint', 'the end');
      }
      const byte = this.#window[this.position - this.#windowStartBytes] ?? 0;
      this.position++;
      const bits = byte & 0x7f;
      if (index < 4) low |= bits << (7 * index);
      else if (index === 4) {
        low |= bits << 28;
        high = bits >>> 4;
      } else high |= bits << (7 * index - 32);
      if (byte < 0x80) {
        if (index === VARINT_BYTES_MAX - 1 && byte > 1) break;
        return [low >>> 0, high >>> 0];
      }
    }
    throw this.corrupt(start, `a varint has more than 64 bits`);
  }

  /** The error for a field that needs more bytes than there are. */
  cutOff(offsetBytes: number, number: number, lengthBytes: number, leftBytes: number): CheckpointError {
    const expected = `${lengthBytes} bytes of field ${number}`;
    return this.corrupt(offsetBytes, 'it is cut off', expected, `${leftBytes} bytes`);
  }

  /** The error for damage at this place. */
  corrupt(offsetBytes: number, problem: string, expected?: string, found?: string): CheckpointError {
    const compared = expected !== undefined && found !== undefined ? { expected, found } : {};
    return corrupt({ file: this.file, what: this.what, offsetBytes, problem, ...compared });
  }
}
