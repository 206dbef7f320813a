/**
 * The protocol between workers and parameter servers: frames over a socket of this machine. A frame
 * consists of words of four bytes: the length of its body in words, its kind, and the body. All
 * processes run on one machine, so they share the byte order.
 */

import type { Socket } from 'node:net';

/** Two kinds of requests and two kinds of replies. */
export const KIND = { pull: 1, push: 2, done: 3, refused: 4 } as const;

const WORD_BYTES = 4;
const HEAD_BYTES = 2 * WORD_BYTES;
const BODY_BYTES_MAX = 2 ** 28;

export interface Frame {
  readonly kind: number;
  readonly body: Words;
}

/** Takes arrays from the words of a frame, one after the other. The arrays are views. */
export class Words {
  readonly #buffer: ArrayBuffer;
  #atBytes = 0;

  constructor(buffer: ArrayBuffer) {
    this.#buffer = buffer;
  }

  integers(count: number): Int32Array {
    return new Int32Array(this.#buffer, this.#take(count), count);
  }

  floats(count: number): Float32Array {
    return new Float32Array(this.#buffer, this.#take(count), count);
  }

  #take(count: number): number {
    const start = this.#atBytes;
    this.#atBytes += count * WORD_BYTES;
    return start;
  }
}

export function writeFrame(
  socket: Socket,
  kind: number,
  parts: readonly (Int32Array | Float32Array)[],
): void {
  const wordCount = parts.reduce((sum, { length }) => sum + length, 0);
  const bytes = new Uint8Array(HEAD_BYTES + wordCount * WORD_BYTES);
  new Int32Array(bytes.buffer, 0, 2).set([wordCount, kind]);
  let at = HEAD_BYTES;
  for (const part of parts) {
    bytes.set(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), at);
    at += part.byteLength;
  }
  socket.write(bytes);
}

/** Ends when the other side closes or the connection breaks. */
export async function* readFrames(socket: Socket): AsyncGenerator<Frame> {
  const head = new Uint8Array(HEAD_BYTES);
  let body: Uint8Array<ArrayBuffer> | null = null;
  let filled = 0; // bytes of the body, or of the head while `body` is null
  for await (const chunk of socket as AsyncIterable<Uint8Array>) {
    for (let rest = chunk; rest.byteLength > 0 || body?.byteLength === 0; ) {
      const part: Uint8Array = body ?? head;
      const taken = rest.subarray(0, part.byteLength - filled);
      part.set(taken, filled);
      filled += taken.byteLength;
      rest = rest.subarray(taken.byteLength);
      if (filled < part.byteLength) break;
      filled = 0;
      if (body === null) {
        body = new Uint8Array(bodyBytes(head));
      } else {
        yield { kind: words(head)[1] as number, body: new Words(body.buffer) };
        body = null;
      }
    }
  }
}

function bodyBytes(head: Uint8Array<ArrayBuffer>): number {
  const length = (words(head)[0] as number) * WORD_BYTES;
  if (length < 0 || length > BODY_BYTES_MAX)
    throw new Error(`a frame of ${length} bytes is none of the demo's`);
  return length;
}

function words(head: Uint8Array<ArrayBuffer>): Int32Array {
  return new Int32Array(head.buffer);
}
