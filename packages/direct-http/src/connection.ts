/**
 * One connection: connecting → idle → busy → done → idle or dead.
 *
 * Node keeps the view that `buffer()` returned last as a raw pointer and uses it for whatever it
 * reads next. Over TLS it continues to write there after `destroy()`, until the socket's 'close':
 * one read of ciphertext holds several records, which it decrypts in a loop that nothing stops. So
 * a failure is kept, the socket destroyed, and the request settled on 'close', never before. An
 * answer that is complete needs no such wait: the reader has left the destination in the callback
 * that took the last byte.
 */

import type { Socket } from 'node:net';
import { type Answer, AnswerReader } from './answer-reader.ts';
import { BodySender } from './body-sender.ts';
import {
  connectError,
  DirectHttpError,
  type DirectHttpErrorCode,
  type Phase,
  toDirectHttpError,
} from './errors.ts';
import type { Exchange, Holder } from './exchange.ts';
import { type Endpoint, openSocket } from './open-socket.ts';

export interface ConnectionOwner {
  readonly endpoint: Endpoint;
  readonly connectTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly keepAliveMs: number;
  /** The connection waits for `start` or `park`. */
  released(connection: Connection): void;
  /** The socket is closed. `repeat` must be sent on a new connection. */
  closed(connection: Connection, repeat: Exchange | undefined): void;
}

function settleLater(connection: Connection): void {
  connection.settle();
}

export class Connection implements Holder {
  readonly #owner: ConnectionOwner;
  readonly #socket: Socket;
  readonly #reader = new AnswerReader();
  readonly #sender: BodySender;
  readonly #connectTimer: NodeJS.Timeout;
  #state: 'connecting' | 'idle' | 'busy' | 'done' | 'dead' = 'connecting';
  #exchange: Exchange | undefined;
  #answer: Answer | undefined;
  #failure: DirectHttpError | undefined;
  /** The view that Node holds. */
  #view: Uint8Array = this.#reader.scratch;
  #requests = 0;
  #isTcpConnected = false;
  #hasEnded = false;
  /** Progress of the sender when the timer last fired. */
  #slicesAtTimeout: number | undefined;
  #keepAliveMs = 0;
  #idleUntilMs = 0;

  /** Connects, then sends `exchange`. Throws if the attempt cannot even start. */
  constructor(owner: ConnectionOwner, exchange: Exchange) {
    this.#owner = owner;
    this.#exchange = exchange;
    const socket = openSocket(owner.endpoint, {
      buffer: () => this.#nextView(),
      callback: (bytes, view) => this.#onRead(bytes, view),
    });
    this.#socket = socket;
    this.#sender = new BodySender(socket, owner.endpoint.protocol === 'https:');
    this.#connectTimer = setTimeout(() => this.#onTimeout(), owner.connectTimeoutMs);
    exchange.holder = this;
    socket.once('connect', () => {
      this.#isTcpConnected = true;
    });
    socket.once(owner.endpoint.protocol === 'https:' ? 'secureConnect' : 'connect', () => this.#onReady());
    socket.on('end', () => this.#onEnd());
    socket.on('error', (error) => this.#onError(error));
    socket.on('timeout', () => this.#onTimeout());
    socket.once('close', () => this.#onClose());
  }

  /**
   * True if it can take a request now. False after its time, even if the timer is late because the
   * process was busy.
   */
  get isUsable(): boolean {
    return this.#state === 'idle' && performance.now() < this.#idleUntilMs;
  }

  /** Sends a request, on a connection that is new, released or parked. */
  start(exchange: Exchange): void {
    this.#exchange = exchange;
    exchange.holder = this;
    this.#state = 'busy';
    this.#requests++;
    this.#slicesAtTimeout = undefined;
    this.#reader.begin(exchange.request);
    this.#socket.ref();
    this.#socket.setTimeout(exchange.request.idleTimeoutMs ?? this.#owner.idleTimeoutMs);
    const { body, onBytes } = exchange.request;
    this.#sender.send(exchange.head, body, onBytes);
  }

  /** Waits for the next request without keeping the process alive. */
  park(): void {
    this.#idleUntilMs = performance.now() + this.#keepAliveMs;
    this.#socket.setTimeout(this.#keepAliveMs);
    this.#socket.unref();
  }

  abort(exchange: Exchange): void {
    this.#fail(exchange.abortError(this.#phase, this.#reader.bodyBytes));
  }

  /** Ends the connection, and its request with `code`. The owner is notified by `closed`. */
  close(code: DirectHttpErrorCode, message: string): void {
    this.#failWith(code, message);
  }

  get #phase(): Phase {
    return this.#state === 'connecting' ? 'connect' : this.#reader.phase;
  }

  // Reading

  #nextView(): Uint8Array {
    try {
      this.#view = this.#state === 'dead' ? this.#reader.scratch : this.#reader.view();
    } catch (error) {
      // The destination was detached. An exception here would end the process.
      this.#failWithThrown(error);
      this.#view = this.#reader.scratch;
    }
    return this.#view;
  }

  #onRead(bytes: number, view: Uint8Array): boolean {
    try {
      if (view !== this.#view) this.#failWith('NOT_NODE', 'this runtime does not read into the given buffer');
      else if (this.#state !== 'dead') {
        this.#exchange?.request.onBytes?.();
        this.#take(bytes);
      }
    } catch (error) {
      this.#failWithThrown(error);
    }
    return true;
  }

  #take(bytes: number): void {
    const answer = this.#reader.take(bytes);
    // A destination may be of a class with the caller's own code, which may have aborted the
    // request.
    if (answer !== undefined && this.#state === 'busy') this.#finish(answer);
    else if (this.#reader.hasSurplus && this.#state === 'idle') this.#destroy();
  }

  // Ending well

  /**
   * The answer is complete. It is handed over in the check phase of this turn of the loop, for
   * three reasons:
   * - Bytes after the body would be taken for the next answer. If they came with it, they have been
   *   seen by then.
   * - The body may have been sent after the answer arrived. Over TLS, Node reports its end in the
   *   check phase.
   * - The connection is free before the caller can send another request.
   */
  #finish(answer: Answer): void {
    this.#answer = answer;
    this.#state = 'done';
    setImmediate(settleLater, this);
  }

  /** Called after `#finish`, when this turn's reads are done. */
  settle(): void {
    const exchange = this.#exchange;
    const answer = this.#answer;
    if (this.#state !== 'done' || exchange === undefined || answer === undefined) return;
    if (this.#sender.isSending) {
      // The answer came early. Node reads the request body until 'close', and the answer is handed
      // over only then.
      this.#destroy();
      return;
    }
    this.#exchange = undefined;
    this.#answer = undefined;
    const isReused = this.#requests > 1;
    if (this.#canGoOn(answer)) {
      this.#state = 'idle';
      this.#owner.released(this);
    } else {
      this.#destroy();
    }
    exchange.resolve(answer, isReused);
  }

  #canGoOn({ head }: Answer): boolean {
    this.#keepAliveMs = head.keepAliveMs ?? this.#owner.keepAliveMs;
    return head.keepsAlive && this.#keepAliveMs > 0 && !this.#reader.hasSurplus && !this.#hasEnded;
  }

  // Ending badly

  /** Only the first failure is kept. */
  #fail(error: DirectHttpError): void {
    if (this.#state !== 'dead') this.#failure = error;
    this.#destroy();
  }

  #failWith(code: DirectHttpErrorCode, message: string, cause?: unknown): void {
    const bytes = this.#reader.bodyBytes;
    this.#fail(new DirectHttpError(code, message, { phase: this.#phase, bytes, cause }));
  }

  #failWithThrown(error: unknown): void {
    this.#fail(toDirectHttpError(error, this.#phase, this.#reader.bodyBytes));
  }

  #closedEarly(cause?: unknown): void {
    const details = {
      phase: this.#phase,
      bytes: this.#reader.bodyBytes,
      isStale: this.#reader.isUnanswered && this.#requests > 1,
      cause,
    };
    this.#fail(
      new DirectHttpError(
        'CLOSED_EARLY',
        'the connection was closed before the answer was complete',
        details,
      ),
    );
  }

  #destroy(): void {
    this.#state = 'dead';
    this.#socket.destroy();
  }

  #onReady(): void {
    clearTimeout(this.#connectTimer);
    if (this.#state === 'connecting' && this.#exchange !== undefined) this.start(this.#exchange);
  }

  #onEnd(): void {
    // A truncated handshake has its own error, which follows.
    if (this.#state === 'connecting' || this.#state === 'dead') return;
    this.#hasEnded = true;
    if (this.#state === 'done') return;
    const answer = this.#reader.takeEnd();
    if (answer === undefined) this.#closedEarly();
    else this.#finish(answer);
  }

  #onError(error: Error): void {
    if (this.#state === 'connecting')
      this.#fail(connectError(error, this.#owner.endpoint, this.#isTcpConnected));
    else if ('code' in error && String(error.code).startsWith('ERR_SSL')) {
      this.#failWith('TLS_FAILED', `TLS failed: ${error.message}`, error);
    } else this.#closedEarly(error);
  }

  /**
   * If the loop was blocked, the timer fires although bytes wait to be read. They get two turns to
   * appear.
   */
  #onTimeout(): void {
    if (this.#state === 'idle') {
      this.#destroy();
      return;
    }
    const { bytesRead } = this.#socket;
    const { slicesSent } = this.#sender;
    // Two turns do not empty a slice. Node checks what is left of it whenever the timer fires, so
    // another round of the timer decides.
    if (this.#sender.isSending && this.#slicesAtTimeout !== slicesSent) {
      this.#slicesAtTimeout = slicesSent;
      this.#socket.setTimeout(this.#socket.timeout ?? this.#owner.idleTimeoutMs);
      return;
    }
    const state = this.#state;
    const exchange = this.#exchange;
    const check = (): void => {
      const hasMoved = this.#socket.bytesRead !== bytesRead || this.#sender.slicesSent !== slicesSent;
      if (hasMoved || this.#state !== state || this.#exchange !== exchange || state === 'done') return;
      this.#failWith(
        'TIMED_OUT',
        state === 'connecting'
          ? 'no connection within the time limit'
          : 'no byte was sent or received within the time limit',
      );
    };
    setImmediate(() => setImmediate(check));
  }

  #onClose(): void {
    clearTimeout(this.#connectTimer);
    if (this.#state !== 'dead') this.#closedEarly();
    const exchange = this.#exchange;
    const answer = this.#answer;
    const failure = this.#failure;
    this.#exchange = undefined;
    const repeats = failure !== undefined && answer === undefined && exchange?.mayRepeat(failure) === true;
    this.#owner.closed(this, repeats ? exchange : undefined);
    if (exchange === undefined || repeats) return;
    if (answer !== undefined) exchange.resolve(answer, this.#requests > 1);
    else if (failure !== undefined) exchange.reject(failure);
  }
}
