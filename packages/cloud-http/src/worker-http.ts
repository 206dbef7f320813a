/** The connections of the transfer workers, seen from the main thread. */

import { ServiceCalls, type TransferWorkers, WorkerGone } from '@holdfast/core/contract';
import { DirectHttpError, type DirectRequest, type DirectResponse } from '@holdfast/direct-http';
import type { ServiceAnswer, ServiceOptions, ServiceRequest } from './http-service.ts';
import { HTTP_SERVICE } from './service-file.ts';

/** Sends each request from the worker that has the fewest pending ones. */
export class WorkerHttp {
  readonly #calls: ServiceCalls<ServiceRequest, ServiceAnswer>;
  readonly #closing = new AbortController();
  readonly #pending = new Set<Promise<unknown>>();
  #hasAnswered = false;
  #isUsable = true;

  constructor(workers: TransferWorkers, options: ServiceOptions) {
    this.#calls = new ServiceCalls(workers, HTTP_SERVICE, options);
  }

  /** False: the service cannot even be loaded, so requests are sent from the main thread. */
  get isUsable(): boolean {
    return this.#isUsable;
  }

  /** As `DirectHttpClient.request`. Body and buffer lie in memory that the workers share. */
  async request(request: DirectRequest): Promise<DirectResponse> {
    const sent = this.#send(request);
    this.#pending.add(sent);
    return sent.finally(() => this.#pending.delete(sent));
  }

  async #send({ signal, onBytes, ...request }: DirectRequest): Promise<DirectResponse> {
    const closing = this.#closing.signal;
    const stop = signal ? AbortSignal.any([signal, closing]) : closing;
    const answer = await this.#calls.idlest
      .call(request, { signal: stop, onBytes })
      .catch((error: unknown) => {
        if (!(error instanceof WorkerGone)) throw error;
        this.#isUsable = this.#hasAnswered;
        throw new DirectHttpError('CLOSED_EARLY', error.message, { phase: 'head', cause: error });
      });
    this.#hasAnswered = true;
    if ('response' in answer) return answer.response;
    const { failure, root } = answer;
    if (failure.code === 'ABORTED' && closing.aborted)
      throw new DirectHttpError('CLIENT_CLOSED', 'the client was closed', failure);
    const cause: unknown = failure.code === 'ABORTED' ? signal?.reason : causeOf(root);
    throw new DirectHttpError(failure.code, failure.message, { ...failure, cause });
  }

  /** Stops pending requests. Resolves when no worker uses their memory any more. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#pending);
    this.#calls.close();
  }
}

function causeOf({ code, text }: { readonly code: string; readonly text: string }): Error {
  return code === '' ? new Error(text) : Object.assign(new Error(text), { code });
}
