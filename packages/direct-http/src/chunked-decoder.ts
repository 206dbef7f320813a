/**
 * Decodes the chunked coding (RFC 9112, 7.1): data in blocks, all else byte by byte. Pure: bytes
 * in, body out.
 */

import type { CollectedBody } from './collected-body.ts';
import { DirectHttpError } from './errors.ts';

const CR = 0x0d;
const LF = 0x0a;
const TAB = 0x09;
const SEMICOLON = 0x3b;

/** 12 hexadecimal digits: the largest size is a safe integer. */
const SIZE_DIGITS_MAX = 12;
/** Limit for the extensions of one chunk. They are not used in practice. */
const EXTENSION_BYTES_MAX = 4096;
/** Limit for all trailers together. */
const TRAILER_BYTES_MAX = 16 * 1024;

type State =
  | 'size'
  | 'extension'
  | 'size-lf'
  | 'data'
  | 'data-cr'
  | 'data-lf'
  | 'trailer'
  | 'trailer-lf'
  | 'done';

function hexDigit(byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

function isControl(byte: number): boolean {
  return (byte < 0x20 && byte !== TAB) || byte === 0x7f;
}

export class ChunkedDecoder {
  readonly #body: CollectedBody;
  #state: State = 'size';
  #sizeBytes = 0;
  #sizeDigits = 0;
  /** Bytes of the extension or of all trailers. */
  #textBytes = 0;
  #isLineEmpty = true;

  constructor(body: CollectedBody) {
    this.#body = body;
  }

  get isDone(): boolean {
    return this.#state === 'done';
  }

  /**
   * Consumes `bytes` from `start` to `end`, or to the end of the body; returns the position
   * reached. Throws `BAD_BODY`, `TOO_LARGE`.
   */
  push(bytes: Uint8Array, start: number, end: number): number {
    let at = start;
    while (at < end && this.#state !== 'done') {
      if (this.#state === 'data') {
        const dataEnd = Math.min(end, at + this.#sizeBytes);
        this.#body.append(bytes, at, dataEnd);
        this.#sizeBytes -= dataEnd - at;
        at = dataEnd;
        if (this.#sizeBytes === 0) this.#state = 'data-cr';
      } else {
        this.#step(bytes[at++] ?? 0);
      }
    }
    return at;
  }

  #step(byte: number): void {
    switch (this.#state) {
      case 'size':
        this.#size(byte);
        return;
      case 'extension':
        this.#extension(byte);
        return;
      case 'size-lf':
        this.#expect(byte, LF);
        this.#state = this.#sizeBytes === 0 ? 'trailer' : 'data';
        this.#textBytes = 0;
        return;
      case 'data-cr':
        this.#expect(byte, CR);
        this.#state = 'data-lf';
        return;
      case 'data-lf':
        this.#expect(byte, LF);
        this.#state = 'size';
        this.#sizeDigits = 0;
        return;
      case 'trailer':
        this.#trailer(byte);
        return;
      case 'trailer-lf':
        this.#expect(byte, LF);
        this.#state = this.#isLineEmpty ? 'done' : 'trailer';
        this.#isLineEmpty = true;
        return;
      default:
        return;
    }
  }

  #size(byte: number): void {
    const digit = hexDigit(byte);
    if (digit >= 0) {
      if (++this.#sizeDigits > SIZE_DIGITS_MAX)
        throw this.#bad(`a size has more than ${SIZE_DIGITS_MAX} digits`);
      this.#sizeBytes = this.#sizeBytes * 16 + digit;
      return;
    }
    if (this.#sizeDigits === 0) throw this.#bad('a chunk does not begin with its size');
    if (byte === SEMICOLON) this.#state = 'extension';
    else if (byte === CR) this.#state = 'size-lf';
    else throw this.#bad('the size of a chunk is not hexadecimal');
    this.#textBytes = 0;
  }

  #extension(byte: number): void {
    if (byte === CR) {
      this.#state = 'size-lf';
      return;
    }
    if (isControl(byte)) throw this.#bad('a chunk extension holds a control character');
    if (++this.#textBytes > EXTENSION_BYTES_MAX) {
      throw this.#bad(`a chunk extension has more than ${EXTENSION_BYTES_MAX} bytes`);
    }
  }

  #trailer(byte: number): void {
    if (byte === CR) {
      this.#state = 'trailer-lf';
      return;
    }
    if (isControl(byte)) throw this.#bad('a trailer holds a control character');
    this.#isLineEmpty = false;
    if (++this.#textBytes > TRAILER_BYTES_MAX) {
      throw this.#bad(`the trailers have more than ${TRAILER_BYTES_MAX} bytes`);
    }
  }

  #expect(byte: number, expected: number): void {
    if (byte !== expected) throw this.#bad('a line of the chunked coding does not end in CRLF');
  }

  #bad(message: string): DirectHttpError {
    return new DirectHttpError('BAD_BODY', message, { phase: 'body', bytes: this.#body.lengthBytes });
  }
}
