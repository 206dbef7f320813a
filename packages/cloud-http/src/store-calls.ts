import {
  abortError,
  assertObjectKey,
  CheckpointError,
  isCheckpointError,
  throwIfAborted,
} from '@holdfast/core/contract';
import { HttpRefusal, isAbort, objectError } from './errors.ts';

export interface CallSubject {
  /** For messages, with the subject after it: "read", "create". */
  readonly action: string;
  readonly key?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/**
 * The calls of one store. Each is rejected when the store is closed, and its errors are translated.
 * `close` aborts pending calls and waits for them.
 */
export class StoreCalls {
  readonly #uri: string;
  readonly #toStoreError: (error: unknown, call: CallSubject) => CheckpointError;
  readonly #running = new Set<Promise<unknown>>();
  #isClosed = false;
  /** The provider has answered, so another server in its place is a fault that may pass. */
  #hasSucceeded = false;

  constructor(uri: string, toStoreError: (error: unknown, call: CallSubject) => CheckpointError) {
    this.#uri = uri;
    this.#toStoreError = toStoreError;
  }

  async run<T>(call: CallSubject, work: () => Promise<T>): Promise<T> {
    const { key, signal } = call;
    const store = { store: this.#uri };
    if (this.#isClosed) throw objectError('InvalidArgument', store, 'is closed');
    throwIfAborted(signal);
    if (key !== undefined) assertObjectKey(key, this.#uri);
    const running = work();
    this.#running.add(running);
    try {
      const result = await running;
      this.#hasSucceeded = true;
      return result;
    } catch (error) {
      if (signal?.aborted && isAbort(error)) throw abortError(signal);
      if (this.#isClosed && !(error instanceof HttpRefusal) && !isCheckpointError(error))
        throw objectError('Aborted', store, 'was closed', error);
      throw this.#judged(this.#toStoreError(error, call));
    } finally {
      this.#running.delete(running);
    }
  }

  #judged(error: CheckpointError): CheckpointError {
    const isForeign = error.cause instanceof HttpRefusal && error.cause.isForeign;
    if (!isForeign || error.code !== 'InvalidConfig' || !this.#hasSucceeded) return error;
    const { message, context, cause } = error;
    return new CheckpointError('Unavailable', `for now, ${message}`, { context, cause });
  }

  /** `release`: frees what the calls wait for. */
  async close(release: () => Promise<void>): Promise<void> {
    this.#isClosed = true;
    await release();
    await Promise.allSettled(this.#running);
  }
}
