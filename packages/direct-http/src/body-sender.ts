import type { Socket } from 'node:net';

/**
 * Over TLS a write is copied whole before it is encrypted, so large ones cost memory; small ones cost calls. On plain sockets it does not
 * matter, and what has been sent so far can be seen.
 */
const SLICE_BYTES = 512 * 1024;

/** Sends one body at a time, slice after slice: the next when the one before is out of our hands. Never more than one is queued. */
export class BodySender {
  readonly #socket: Socket;
  #body: Uint8Array | undefined;
  #handedBytes = 0;
  #slicesSent = 0;
  #onBytes: (() => void) | undefined;
  readonly #onSent = (error?: Error | null): void => this.#next(error);

  constructor(socket: Socket) {
    this.#socket = socket;
  }

  /** Node or the system may still read from the body. */
  get isSending(): boolean {
    return this.#body !== undefined;
  }

  /** Of all bodies: it grows when something was sent. */
  get slicesSent(): number {
    return this.#slicesSent;
  }

  send(body: Uint8Array, onBytes?: () => void): void {
    this.#body = body;
    this.#onBytes = onBytes;
    this.#handedBytes = 0;
    this.#writeSlice(body);
  }

  #next(error: Error | null | undefined): void {
    // The socket's 'error' says why, its 'close' when it is over.
    if (error || this.#body === undefined) return;
    this.#slicesSent++;
    this.#onBytes?.();
    if (this.#handedBytes === this.#body.byteLength) this.#body = undefined;
    else this.#writeSlice(this.#body);
  }

  #writeSlice(body: Uint8Array): void {
    const slice = body.subarray(this.#handedBytes, this.#handedBytes + SLICE_BYTES);
    this.#handedBytes += slice.byteLength;
    this.#socket.write(slice, this.#onSent);
  }
}
