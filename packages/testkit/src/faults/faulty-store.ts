import {
  abortError,
  type CallOptions,
  CheckpointError,
  type CompleteOptions,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type OpenUpload,
  type PartOptions,
  type PartReceipt,
  type ReadOptions,
  type StoreCapabilities,
  type StoredObject,
  throwIfAborted,
  type Upload,
  type UploadOptions,
} from '@holdfast/core/contract';
import type { StoreOperation } from '@holdfast/core/store';
import type { Fault, FaultPlan, PlannedCall } from './fault.ts';
import { LateEffects } from './late-effects.ts';

/**
 * Rejects the calls of a stopped process, if they settle at all. It is not a `CheckpointError`, so
 * that no code handles it.
 */
export class ProcessStopped extends Error {
  override readonly name = 'ProcessStopped';
}

export interface FaultyStoreOptions {
  /** Shared by the processes of one test. Default: a new one. */
  readonly lateEffects?: LateEffects | undefined;
  /**
   * What calls of a stopped process do. `hang`, the default, simulates death: no code after the
   * call runs. `reject`: they throw `ProcessStopped`, for tests that wait for the caller's end.
   */
  readonly whenStopped?: 'hang' | 'reject' | undefined;
}

export interface CallRecord extends PlannedCall {
  /** `undefined`: none. */
  readonly fault: Fault | undefined;
}

interface Request<T> {
  readonly operation: StoreOperation;
  readonly key: string;
  readonly partIndex?: number;
  readonly signal?: AbortSignal | undefined;
  readonly send: () => Promise<T>;
  /**
   * Makes the same request without signal, with copies of the caller's bytes. Absent: it only
   * reads.
   */
  readonly freeze?: () => () => Promise<unknown>;
}

/** A store as one process sees it, with a plan of faults. Calls without a fault pass unchanged. */
export class FaultyStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly lateEffects: LateEffects;
  readonly listUploads?: NonNullable<ObjectStore['listUploads']>;
  readonly listDirectories?: NonNullable<ObjectStore['listDirectories']>;
  /**
   * Every call made, in order. Each page of a listing counts as one call. A listing of uploads is a
   * single call.
   */
  readonly calls: CallRecord[] = [];
  /** Resolves when the process is dead and its last effects are done. */
  readonly stopped: Promise<void>;

  readonly #store: ObjectStore;
  readonly #plan: FaultPlan;
  readonly #whenStopped: 'hang' | 'reject';
  #isStopped = false;
  #resolveStopped: () => void;

  constructor(store: ObjectStore, plan: FaultPlan = () => undefined, options: FaultyStoreOptions = {}) {
    this.uri = store.uri;
    this.capabilities = store.capabilities;
    this.lateEffects = options.lateEffects ?? new LateEffects();
    this.#store = store;
    this.#plan = plan;
    this.#whenStopped = options.whenStopped ?? 'hang';
    const { promise, resolve } = Promise.withResolvers<void>();
    this.stopped = promise;
    this.#resolveStopped = resolve;
    const listUploads = store.listUploads?.bind(store);
    if (listUploads)
      this.listUploads = (prefix, options) =>
        this.#uploads(prefix, options, () => listUploads(prefix, options));
    const listDirectories = store.listDirectories?.bind(store);
    if (listDirectories)
      this.listDirectories = (prefix, options) =>
        this.#pages('listDirectories', prefix, options, listDirectories(prefix, options));
  }

  get isStopped(): boolean {
    return this.#isStopped;
  }

  /** Kills the process between two calls. Pending calls may still take effect. */
  stop(): void {
    this.#isStopped = true;
    this.#resolveStopped();
  }

  create(key: string, bytes: Uint8Array, options?: CreateOptions): Promise<ObjectInfo> {
    return this.#request({
      operation: 'create',
      key,
      signal: options?.signal,
      send: () => this.#store.create(key, bytes, options),
      freeze: () => {
        const copy = bytes.slice();
        return () => this.#store.create(key, copy, { ...options, signal: undefined });
      },
    });
  }

  head(key: string, options?: CallOptions): Promise<ObjectInfo> {
    const send = () => this.#store.head(key, options);
    return this.#request({ operation: 'head', key, signal: options?.signal, send });
  }

  get(key: string, options: GetOptions): Promise<StoredObject> {
    const send = () => this.#store.get(key, options);
    return this.#request({ operation: 'get', key, signal: options.signal, send });
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number> {
    const send = () => this.#store.readInto(key, offsetBytes, buffer, options);
    return this.#request({ operation: 'readInto', key, signal: options?.signal, send });
  }

  async beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    const upload = await this.#request({
      operation: 'beginUpload',
      key,
      signal: options.signal,
      send: () => this.#store.beginUpload(key, options),
      freeze: () => () => this.#store.beginUpload(key, { ...options, signal: undefined }),
    });
    return new FaultyUpload(upload, (request) => this.#request(request));
  }

  async resumeUpload(token: string, options?: CallOptions): Promise<Upload> {
    const send = () => this.#store.resumeUpload(token, options);
    const upload = await this.#request({ operation: 'resumeUpload', key: '', signal: options?.signal, send });
    return new FaultyUpload(upload, (request) => this.#request(request));
  }

  list(prefix: string, options?: ListOptions): AsyncGenerator<ListPage, void, void> {
    return this.#pages('list', prefix, options, this.#store.list(prefix, options));
  }

  async *#pages<Page>(
    operation: StoreOperation,
    prefix: string,
    options: CallOptions | undefined,
    listed: AsyncIterable<Page>,
  ): AsyncGenerator<Page, void, void> {
    const pages = listed[Symbol.asyncIterator]();
    try {
      for (let pageCount = 0; ; pageCount++) {
        await this.#beforeRequest(options?.signal);
        // Fetch before asking the plan: the end of the pages is not a call. A read that the plan
        // then rejects has changed nothing.
        const fetched = await settle(() => pages.next());
        if (pageCount > 0 && fetched.status === 'fulfilled' && fetched.value.done === true) return;
        const send = () => unsettle(fetched);
        const next = await this.#carryOut({ operation, key: prefix, signal: options?.signal, send });
        if (next.done === true) return;
        yield next.value;
      }
    } finally {
      await pages.return?.();
    }
  }

  deleteMany(keys: readonly string[], options?: CallOptions): Promise<DeleteResult[]> {
    return this.#request({
      operation: 'deleteMany',
      key: keys[0] ?? '',
      signal: options?.signal,
      send: () => this.#store.deleteMany(keys, options),
      freeze: () => {
        const copy = [...keys];
        return () => this.#store.deleteMany(copy);
      },
    });
  }

  async *#uploads(
    prefix: string,
    { signal }: CallOptions = {},
    list: () => AsyncIterable<OpenUpload>,
  ): AsyncGenerator<OpenUpload, void, void> {
    const send = async () => {
      const uploads: OpenUpload[] = [];
      for await (const upload of list()) uploads.push(upload);
      return uploads;
    };
    yield* await this.#request({ operation: 'listUploads', key: prefix, signal, send });
  }

  /** Closes the underlying store, even if the process is stopped, so that the test can clean up. */
  close(): Promise<void> {
    return this.#store.close();
  }

  async #request<T>(request: Request<T>): Promise<T> {
    await this.#beforeRequest(request.signal);
    return this.#carryOut(request);
  }

  async #beforeRequest(signal: AbortSignal | undefined): Promise<void> {
    if (this.#isStopped) await this.#death();
    throwIfAborted(signal);
    await this.lateEffects.tick();
    if (this.#isStopped) await this.#death();
  }

  async #carryOut<T>(request: Request<T>): Promise<T> {
    const { operation, key, partIndex } = request;
    const call: PlannedCall = {
      number: this.calls.length,
      operation,
      key,
      ...(partIndex !== undefined && { partIndex }),
    };
    const fault = this.#plan(call);
    this.calls.push({ ...call, fault });
    if (fault === undefined) return unsettle(await this.#aliveAfter(settle(request.send)));
    // Before the effect: other pending calls get no answer either.
    if (fault.reply === 'stop') this.#isStopped = true;
    const settled = await this.#applyEffect(request, fault);
    if (fault.reply === 'stop') this.#resolveStopped();
    return this.#reply(request, fault, await this.#aliveAfter(settled));
  }

  /** The provider's answer for each time that it carried the request out at once. */
  async #applyEffect<T>(request: Request<T>, fault: Fault): Promise<PromiseSettledResult<T>[]> {
    const isLate = fault.effect === 'late' || fault.effect === 'once-and-late';
    const late = isLate ? request.freeze?.() : undefined;
    const answers: PromiseSettledResult<T>[] = [];
    if (fault.effect !== 'none' && fault.effect !== 'late') answers.push(await settle(request.send));
    if (fault.effect === 'twice' && request.freeze !== undefined) answers.push(await settle(request.send));
    if (late !== undefined) this.lateEffects.add(late, fault.lateAfterCalls);
    return answers;
  }

  async #reply<T>(request: Request<T>, fault: Fault, answers: PromiseSettledResult<T>[]): Promise<T> {
    const { operation, key, signal } = request;
    if (fault.reply === 'stall') return await this.#stall(signal);
    const answer = fault.reply === 'second' ? answers.at(-1) : answers[0];
    if (fault.reply !== 'error' && answer !== undefined) return unsettle(answer);
    const code = (fault.reply === 'error' ? fault.error : undefined) ?? 'Unavailable';
    const message = `${operation} of ${key} in ${this.uri}: a fault of the test's plan`;
    throw new CheckpointError(code, message, { context: { store: this.uri, key } });
  }

  #stall(signal: AbortSignal | undefined): Promise<never> {
    const aborted = new Promise<never>((_, reject) => {
      const stop = () => {
        if (signal && !this.#isStopped) reject(abortError(signal));
      };
      if (signal?.aborted) stop();
      signal?.addEventListener('abort', stop, { once: true });
    });
    return Promise.race([aborted, this.stopped.then(() => this.#death())]);
  }

  /** A dead process learns nothing, even of a request that was pending when it died. */
  async #aliveAfter<R>(answer: R | Promise<R>): Promise<R> {
    const result = await answer;
    if (this.#isStopped) await this.#death();
    return result;
  }

  #death(): Promise<never> {
    if (this.#whenStopped === 'reject')
      return Promise.reject(new ProcessStopped('the process was stopped by the test'));
    return new Promise(() => undefined);
  }
}

class FaultyUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #upload: Upload;
  readonly #request: <T>(request: Request<T>) => Promise<T>;

  constructor(upload: Upload, request: <T>(request: Request<T>) => Promise<T>) {
    this.key = upload.key;
    this.token = upload.token;
    this.partSizeBytes = upload.partSizeBytes;
    this.#upload = upload;
    this.#request = request;
  }

  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    return this.#request({
      operation: 'putPart',
      key: this.key,
      partIndex: index,
      signal: options.signal,
      send: () => this.#upload.putPart(index, bytes, options),
      freeze: () => {
        const copy = bytes.slice();
        return () => this.#upload.putPart(index, copy, { ...options, signal: undefined });
      },
    });
  }

  listParts(options?: CallOptions): Promise<PartReceipt[]> {
    const send = () => this.#upload.listParts(options);
    return this.#request({ operation: 'listParts', key: this.key, signal: options?.signal, send });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#request({
      operation: 'complete',
      key: this.key,
      signal: options.signal,
      send: () => this.#upload.complete(parts, options),
      freeze: () => {
        const copy = [...parts];
        return () => this.#upload.complete(copy, { ...options, signal: undefined });
      },
    });
  }

  abort(options?: CallOptions): Promise<void> {
    return this.#request({
      operation: 'abort',
      key: this.key,
      signal: options?.signal,
      send: () => this.#upload.abort(options),
      freeze: () => () => this.#upload.abort(),
    });
  }
}

function settle<T>(send: () => Promise<T>): Promise<PromiseSettledResult<T>> {
  return Promise.allSettled([send()]).then(([result]) => result);
}

async function unsettle<T>(result: PromiseSettledResult<T>): Promise<T> {
  if (result.status === 'rejected') throw result.reason;
  return result.value;
}
