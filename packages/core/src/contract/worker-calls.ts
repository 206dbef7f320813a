/** Calls of a service in another thread: a request, an answer, progress and a stop. */

import type { TransferWorkers, WorkerPort } from './transfer-workers.ts';

/** Progress is reported at most this often. Stalls are looked for in seconds. */
const PROGRESS_MS = 200;

export interface WorkerCallOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called while bytes move. */
  readonly onBytes?: (() => void) | undefined;
}

type ToService<Request> = { readonly id: number; readonly request: Request } | { readonly id: number };
type FromService<Answer> =
  | { readonly id: number; readonly answer: Answer }
  | { readonly id: number; readonly error: unknown }
  | { readonly id: number };

interface Pending<Answer> {
  readonly settle: (message: FromService<Answer>) => void;
  readonly fail: (error: Error) => void;
}

/** The thread has ended. Its memory is no longer used by it. */
export class WorkerGone extends Error {
  override readonly name = 'WorkerGone';
}

/** The calls on one channel. It keeps the process alive only while a call is pending. */
export class WorkerCalls<Request, Answer> {
  readonly #port: WorkerPort;
  readonly #pending = new Map<number, Pending<Answer>>();
  #lastId = 0;
  #isGone = false;

  constructor(port: WorkerPort) {
    this.#port = port;
    port.on('message', (message: FromService<Answer>) => this.#pending.get(message.id)?.settle(message));
    port.on('close', () => this.#end());
    port.unref();
  }

  get pendingCount(): number {
    return this.#pending.size;
  }

  /** The channel is closed: every call fails. */
  get isGone(): boolean {
    return this.#isGone;
  }

  /**
   * Settles when the service has answered. Until then, memory in `request` belongs to the service,
   * also after `signal` has fired: it only asks the service to stop. `WorkerGone`: the thread has
   * ended.
   */
  call(request: Request, { signal, onBytes }: WorkerCallOptions = {}): Promise<Answer> {
    return new Promise((resolve, reject) => {
      if (this.#isGone) {
        reject(new WorkerGone('the thread has ended'));
        return;
      }
      const id = ++this.#lastId;
      const stop = () => this.#port.postMessage({ id });
      const release = () => {
        signal?.removeEventListener('abort', stop);
        this.#pending.delete(id);
        if (this.#pending.size === 0) this.#port.unref();
      };
      const settle = (message: FromService<Answer>) => {
        if ('answer' in message) resolve(message.answer);
        else if ('error' in message) reject(message.error);
        else {
          onBytes?.();
          return;
        }
        release();
      };
      const fail = (error: Error) => {
        release();
        reject(error);
      };
      this.#port.ref();
      this.#pending.set(id, { settle, fail });
      this.#port.postMessage({ id, request });
      if (signal?.aborted) stop();
      else signal?.addEventListener('abort', stop, { once: true });
    });
  }

  /** Fails pending calls. The service is told by the closed channel. */
  close(): void {
    this.#port.close();
    this.#end();
  }

  #end(): void {
    this.#isGone = true;
    for (const { fail } of [...this.#pending.values()]) fail(new WorkerGone('the thread has ended'));
  }
}

/** The calls of one service in all workers. */
export class ServiceCalls<Request, Answer> {
  readonly #connect: (index: number) => WorkerPort;
  readonly #count: number;
  /** By worker. */
  readonly #calls: WorkerCalls<Request, Answer>[] = [];

  /** `options`: see `TransferWorkers.connect`. */
  constructor(workers: TransferWorkers, service: URL, options?: unknown) {
    this.#connect = (index) => workers.connect(index, service, options);
    this.#count = workers.count;
  }

  /** Those of the worker with the fewest pending calls. A worker that has ended is replaced. */
  get idlest(): WorkerCalls<Request, Answer> {
    for (let index = 0; index < this.#count; index += 1)
      if (this.#calls[index]?.isGone !== false) this.#calls[index] = new WorkerCalls(this.#connect(index));
    return this.#calls.reduce((a, b) => (b.pendingCount < a.pendingCount ? b : a));
  }

  close(): void {
    for (const calls of this.#calls.splice(0)) calls.close();
  }
}

/** What a service is given beside the request. */
export interface ServedCall {
  /** The caller needs no answer any more. */
  readonly signal: AbortSignal;
  readonly onBytes: () => void;
}

/** Answers calls on `port`. An error that `answer` throws is copied to the caller. */
export function serveCalls<Request, Answer>(
  port: WorkerPort,
  answer: (request: Request, call: ServedCall) => Promise<Answer> | Answer,
): void {
  const stops = new Map<number, AbortController>();
  const serveOne = async (id: number, request: Request) => {
    const stop = new AbortController();
    stops.set(id, stop);
    let toldMs = Number.NEGATIVE_INFINITY;
    const onBytes = () => {
      const nowMs = performance.now();
      if (nowMs - toldMs < PROGRESS_MS) return;
      toldMs = nowMs;
      port.postMessage({ id });
    };
    try {
      port.postMessage({ id, answer: await answer(request, { signal: stop.signal, onBytes }) });
    } catch (error) {
      port.postMessage({ id, error });
    } finally {
      stops.delete(id);
    }
  };
  port.on('message', (message: ToService<Request>) => {
    if ('request' in message) void serveOne(message.id, message.request);
    else stops.get(message.id)?.abort();
  });
}
