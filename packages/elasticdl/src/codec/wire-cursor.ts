/**
 * Goes through a file in protobuf's wire format by way of a small window. Libraries want a whole message in memory, and a shard has
 * gigabytes of contents; here they are skipped. Nothing is allocated by a length that a file claims.
 * https://protobuf.dev/programming-guides/encoding
 */

import { type CheckpointError, type RandomSource, throwIfAborted } from '@holdfast/core/contract';
import { corrupt } from './read-errors.ts';

/** After a jump: a name, a shape and the headers around them mostly fit. */
const WINDOW_BYTES_MIN = 1024;
/** Where a file is read on and on, requests become fewer. */
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
  /** Of its tag. */
  readonly tagOffsetBytes: number;
  /** Where what it holds begins: a varint, or bytes. */
  readonly offsetBytes: number;
  /** Of bytes and fixed numbers; 0 for a varint, which has not been read yet. */
  readonly lengthBytes: number;
}

export interface CursorOptions {
  /** Of the file, in messages. */
  readonly name: string;
  readonly signal?: AbortSignal | undefined;
}

export class WireCursor {
  readonly file: string;
  readonly sizeBytes: number;
  /** In the file. Setting it costs nothing: bytes are read by `need`. */
  position = 0;
  /** What messages say of where this is: `tensor "dense/bias:0"`. */
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

  /** Has `bytes` from here on in the window, or all there are up to the end of the file. What the window has is not read again. */
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

  /** A copy of the next bytes; the position is behind them afterwards. Only for what has a limit. */
  async take(lengthBytes: number): Promise<Uint8Array> {
    await this.need(lengthBytes);
    const from = this.position - this.#windowStartBytes;
    this.position += lengthBytes;
    return this.#window.slice(from, from + lengthBytes);
  }

  /**
   * The next field, which ends at `endBytes` at the latest; what ends behind the file is then for the caller to refuse. The position is where
   * its content begins.
   */
  async header(endBytes: number): Promise<FieldHeader> {
    await this.need(HEADER_BYTES_MAX);
    const tagOffsetBytes = this.position;
    const [low, high] = this.#varint(endBytes);
    const tagBytes = this.position - tagOffsetBytes;
    const number = low >>> 3;
    const wireType = low & 7;
    if (high !== 0 || number === 0 || number > FIELD_NUMBER_MAX) {
      throw this.corrupt(tagOffsetBytes, 'this is no tag of a field');
    }
    // Runs of ids rely on it.
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

  /** The varint here, as an int64. `need` first. */
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
   * Goes over fields that follow each other with the same one-byte tag and a varint each, as far as the window reaches. Returns how many;
   * 0: there is none that ends well before the window does.
   */
  skipSame(tag: number, endBytes: number): number {
    const window = this.#window;
    let at = this.position - this.#windowStartBytes;
    // Where a tag and a varint fit, so that none is begun that cannot be ended.
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

  /** The error for a field that asks for more than there is. */
  cutOff(offsetBytes: number, number: number, lengthBytes: number, leftBytes: number): CheckpointError {
    const expected = `${lengthBytes} bytes of field ${number}`;
    return this.corrupt(offsetBytes, 'it is cut off', expected, `${leftBytes} bytes`);
  }

  /** The error that says so of this place. */
  corrupt(offsetBytes: number, problem: string, expected?: string, found?: string): CheckpointError {
    const compared = expected !== undefined && found !== undefined ? { expected, found } : {};
    return corrupt({ file: this.file, what: this.what, offsetBytes, problem, ...compared });
  }
}
