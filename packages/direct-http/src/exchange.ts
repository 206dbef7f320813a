import type { Answer } from './answer-reader.ts';
import { DirectHttpError, type Phase } from './errors.ts';
import type { DirectRequest, DirectResponse } from './message.ts';

/** Who has a request at the moment: the queue, or a connection. */
export interface Holder {
  /** Stops the request. The holder settles it when nobody touches its buffers any more. */
  abort(exchange: Exchange): void;
}

const ONCE = { once: true };

/**
 * A request under way, from `request()` until its promise settles. It listens to its signal itself,
 * which saves a closure.
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
   * The request may be sent again after it failed with `error`, on a new connection. No failure
   * there is stale, so that it is not repeated twice.
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
