import type { Answer } from './answer-reader.ts';
import { DirectHttpError, type Phase } from './errors.ts';
import type { DirectRequest, DirectResponse } from './message.ts';

/** Current holder of a request: the queue, or a connection. */
export interface Holder {
  /** Stops the request. The holder settles it when its buffers are no longer in use. */
  abort(exchange: Exchange): void;
}

const ONCE = { once: true };

/**
 * A pending request, from `request()` until its promise settles. It is its own listener for the
 * signal, which saves a closure.
 */
export class Exchange {
  readonly request: DirectRequest;
  /** The request's head as it is sent. */
  readonly head: string;
  readonly promise: Promise<DirectResponse>;
  holder: Holder | undefined;
  #resolve!: (response: DirectResponse) => void;
  #reject!: (error: DirectHttpError) => void;

  constructor(request: DirectRequest, head: string) {
    this.request = request;
    this.head = head;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    request.signal?.addEventListener('abort', this, ONCE);
  }

  /** The signal has fired. */
  handleEvent(): void {
    this.holder?.abort(this);
  }

  abortError(phase: Phase, bytes: number): DirectHttpError {
    const cause: unknown = this.request.signal?.reason;
    return new DirectHttpError('ABORTED', 'the caller stopped the request', { phase, bytes, cause });
  }

  /**
   * Tells whether the request may be sent again, on a new connection, after it failed with `error`.
   * No failure there is stale, so it is not sent a third time.
   */
  mayRepeat(error: DirectHttpError): boolean {
    const { isRepeatable, signal } = this.request;
    return error.isStale && isRepeatable === true && signal?.aborted !== true;
  }

  resolve({ head, body, bytesInto }: Answer, isReused: boolean): void {
    this.#release();
    this.#resolve({ status: head.status, headers: head.headers, body, bytesInto, isReused });
  }

  reject(error: DirectHttpError): void {
    this.#release();
    this.#reject(error);
  }

  #release(): void {
    this.holder = undefined;
    this.request.signal?.removeEventListener('abort', this);
  }
}
