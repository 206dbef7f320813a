import type { Socket } from 'node:net';

/**
 * The first slice. TLS copies each write whole before it encrypts it, so there all slices have this
 * size: larger ones cost memory.
 */
const SLICE_BYTES = 512 * 1024;
/**
 * On a fast plain connection slices grow up to this size, because each costs calls. A count of the
 * slices sent shows progress, so they stay small where they take long.
 */
const SLICE_BYTES_MAX = 2 * 1024 * 1024;
const FAST_MS = 50;
const SLOW_MS = 500;

/** Copying this little costs less than a system call. */
const COPIED_BYTES_MAX = 16 * 1024;

/**
 * Sends one request at a time. A large body is sent in slices: each after Node has finished with
 * the previous one.
 */
export class BodySender {
  readonly #socket: Socket;
  readonly #sliceBytesMax: number;
  #sliceBytes = SLICE_BYTES;
  #sliceMs = 0;
  #body: Uint8Array | undefined;
  #handedBytes = 0;
  #slicesSent = 0;
  #onBytes: (() => void) | undefined;
  readonly #onSent = (error?: Error | null): void => this.#next(error);

  constructor(socket: Socket, isEncrypted: boolean) {
    this.#socket = socket;
    this.#sliceBytesMax = isEncrypted ? SLICE_BYTES : SLICE_BYTES_MAX;
  }

  /** Node or the system may still read from the body. */
  get isSending(): boolean {
    return this.#body !== undefined;
  }

  /**
   * Number of slices sent, of all bodies, to see progress. Small bodies are sent with the head, in
   * one piece, and are not counted.
   */
  get slicesSent(): number {
    return this.#slicesSent;
  }

  /** The head is in latin1. A small body is copied, so it is no longer used when this returns. */
  send(head: string, body: Uint8Array | undefined, onBytes?: () => void): void {
    if (body !== undefined && body.byteLength > 0 && body.byteLength <= COPIED_BYTES_MAX) {
      this.#socket.write(headAndBody(head, body));
      return;
    }
    this.#socket.write(head, 'latin1');
    if (body === undefined || body.byteLength === 0) return;
    this.#body = body;
    this.#onBytes = onBytes;
    this.#handedBytes = 0;
    this.#writeSlice(body);
  }

  #next(error: Error | null | undefined): void {
    // After an error there is nothing to do here: the socket's 'error' event reports the cause, and
    // its 'close' event the end.
    if (error || this.#body === undefined) return;
    this.#slicesSent++;
    this.#fitSlices(performance.now() - this.#sliceMs);
    this.#onBytes?.();
    if (this.#handedBytes === this.#body.byteLength) this.#body = undefined;
    else this.#writeSlice(this.#body);
  }

  #fitSlices(tookMs: number): void {
    if (tookMs < FAST_MS) this.#sliceBytes = Math.min(2 * this.#sliceBytes, this.#sliceBytesMax);
    else if (tookMs > SLOW_MS) this.#sliceBytes = Math.max(this.#sliceBytes / 2, SLICE_BYTES);
  }

  #writeSlice(body: Uint8Array): void {
    const slice = body.subarray(this.#handedBytes, this.#handedBytes + this.#sliceBytes);
    this.#handedBytes += slice.byteLength;
    this.#sliceMs = performance.now();
    this.#socket.write(slice, this.#onSent);
  }
}

function headAndBody(head: string, body: Uint8Array): Buffer {
  const both = Buffer.allocUnsafe(head.length + body.byteLength);
  both.write(head, 'latin1');
  both.set(body, head.length);
  return both;
}
