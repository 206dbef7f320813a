/**
 * Messages of a rendezvous: 4 bytes length of the header, 4 bytes length of the body (both
 * big-endian), the header as JSON, the body unchanged. Lengths are checked before any of the
 * message is kept.
 */

import type { Writable } from 'node:stream';
import { CheckpointError } from '@holdfast/core/contract';

/** Limit for the bytes of all workers in one group operation together. */
export const BODY_BYTES_MAX = 2 ** 30;
/** A header needs about 10 bytes for each worker. */
const HEADER_BYTES_MAX = 64 * 1024;
const PREFIX_BYTES = 8;

export interface Frame {
  readonly header: Readonly<Record<string, unknown>>;
  readonly body: Uint8Array;
}

/** Sends one frame; `bodyParts` in order, without a copy. */
export function writeFrame(
  stream: Writable,
  header: Readonly<Record<string, unknown>>,
  bodyParts: readonly Uint8Array[],
): void {
  const headerBytes = Buffer.from(JSON.stringify(header));
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(headerBytes.length, 0);
  prefix.writeUInt32BE(
    bodyParts.reduce((sum, part) => sum + part.length, 0),
    4,
  );
  stream.cork();
  stream.write(prefix);
  stream.write(headerBytes);
  for (const part of bodyParts) if (part.length > 0) stream.write(part);
  stream.uncork();
}

/**
 * Turns incoming chunks of any size into frames. After it has thrown, do not use the rest of the
 * stream.
 */
export class FrameReader {
  #chunks: Buffer[] = [];
  #heldBytes = 0;
  #neededBytes = PREFIX_BYTES;
  #lengths: { readonly header: number; readonly body: number } | null = null;

  /**
   * Returns the frames that this chunk completes. `InvalidArgument`: the sender does not speak this
   * protocol.
   */
  push(chunk: Buffer): Frame[] {
    this.#chunks.push(chunk);
    this.#heldBytes += chunk.length;
    const frames: Frame[] = [];
    while (this.#heldBytes >= this.#neededBytes) {
      const frame = this.#step(this.#take(this.#neededBytes));
      if (frame !== null) frames.push(frame);
    }
    return frames;
  }

  #step(bytes: Buffer): Frame | null {
    if (this.#lengths === null) {
      this.#lengths = checkedLengths(bytes.readUInt32BE(0), bytes.readUInt32BE(4));
      this.#neededBytes = this.#lengths.header + this.#lengths.body;
      return null;
    }
    const header = parseHeader(bytes.subarray(0, this.#lengths.header));
    const body = bytes.subarray(this.#lengths.header);
    this.#lengths = null;
    this.#neededBytes = PREFIX_BYTES;
    return { header, body };
  }

  #take(sizeBytes: number): Buffer {
    // Joined once per frame, not per chunk: a large body comes in thousands of chunks.
    const held = this.#chunks.length === 1 ? this.#chunks[0] : undefined;
    const all = held ?? Buffer.concat(this.#chunks, this.#heldBytes);
    this.#chunks = all.length > sizeBytes ? [all.subarray(sizeBytes)] : [];
    this.#heldBytes = all.length - sizeBytes;
    return all.subarray(0, sizeBytes);
  }
}

function checkedLengths(header: number, body: number): { header: number; body: number } {
  if (header < 2 || header > HEADER_BYTES_MAX || body > BODY_BYTES_MAX) {
    throw new CheckpointError(
      'InvalidArgument',
      `a message of ${header} + ${body} bytes: at most ${HEADER_BYTES_MAX} + ${BODY_BYTES_MAX} are accepted in a rendezvous`,
    );
  }
  return { header, body };
}

function parseHeader(bytes: Buffer): Record<string, unknown> {
  let header: unknown;
  try {
    header = JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    throw new CheckpointError('InvalidArgument', 'the header of a message is not JSON', { cause });
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header)) {
    throw new CheckpointError('InvalidArgument', 'the header of a message is not a JSON object');
  }
  return header as Record<string, unknown>;
}
