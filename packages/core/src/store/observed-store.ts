import {
  type CallOptions,
  type Clock,
  type CompleteOptions,
  type CreateOptions,
  type DeleteResult,
  type ErrorCode,
  type GetOptions,
  isCheckpointError,
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
  type Upload,
  type UploadOptions,
} from '../contract/index.ts';

/** The calls of `ObjectStore` and `Upload` that send requests to the provider. */
export type StoreOperation =
  | 'create'
  | 'head'
  | 'get'
  | 'readInto'
  | 'beginUpload'
  | 'resumeUpload'
  | 'listUploads'
  | 'list'
  | 'listDirectories'
  | 'deleteMany'
  | 'putPart'
  | 'listParts'
  | 'complete'
  | 'abort';

/**
 * One completed call. A listing of objects or directories is reported page by page; a listing of
 * uploads as a whole.
 */
export interface StoreCall {
  readonly operation: StoreOperation;
  /**
   * For a listing the prefix; for `deleteMany` the first key; for `resumeUpload` empty, because a
   * token is never shown.
   */
  readonly key: string;
  /** Number of objects of the call: keys to delete, names on a page, uploads shown, else 1. */
  readonly keyCount: number;
  /** Bytes of objects sent, or received by a call that succeeded. */
  readonly bytes: number;
  readonly outcome: 'ok' | ErrorCode;
  readonly durationMs: number;
}

export interface ObservedStoreOptions {
  readonly clock: Clock;
  /** Called when a call has ended, before its caller learns of it. Must not throw. */
  readonly onCall: (call: StoreCall) => void;
}

interface Measure<T> {
  readonly operation: StoreOperation;
  readonly key: string;
  readonly keyCount?: number;
  readonly sentBytes?: number;
  readonly receivedBytes?: (result: T) => number;
}

/**
 * A store that reports every call and does not change it. It offers neither `copyFrom` nor
 * `inspect`: copied bytes pass through this process.
 */
export class ObservedStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly listUploads?: NonNullable<ObjectStore['listUploads']>;
  readonly listDirectories?: NonNullable<ObjectStore['listDirectories']>;
  readonly #store: ObjectStore;
  readonly #observer: Observer;

  constructor(store: ObjectStore, options: ObservedStoreOptions) {
    this.uri = store.uri;
    this.capabilities = store.capabilities;
    this.#store = store;
    this.#observer = new Observer(options);
    const listUploads = store.listUploads?.bind(store);
    if (listUploads)
      this.listUploads = (prefix, ...rest) =>
        this.#observer.observeUploads(prefix, listUploads(prefix, ...rest));
    const listDirectories = store.listDirectories?.bind(store);
    if (listDirectories)
      this.listDirectories = (prefix, ...rest) =>
        this.#observer.observePages(
          'listDirectories',
          prefix,
          listDirectories(prefix, ...rest),
          (names) => names.length,
        );
  }

  create(key: string, bytes: Uint8Array, options?: CreateOptions): Promise<ObjectInfo> {
    const measure = { operation: 'create', key, sentBytes: bytes.byteLength } as const;
    return this.#observer.observe(measure, () => this.#store.create(key, bytes, options));
  }

  head(key: string, options?: CallOptions): Promise<ObjectInfo> {
    return this.#observer.observe({ operation: 'head', key }, () => this.#store.head(key, options));
  }

  get(key: string, options: GetOptions): Promise<StoredObject> {
    const receivedBytes = (object: StoredObject) => object.bytes.byteLength;
    return this.#observer.observe({ operation: 'get', key, receivedBytes }, () =>
      this.#store.get(key, options),
    );
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number> {
    const receivedBytes = (count: number) => count;
    return this.#observer.observe({ operation: 'readInto', key, receivedBytes }, () =>
      this.#store.readInto(key, offsetBytes, buffer, options),
    );
  }

  async beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    const run = () => this.#store.beginUpload(key, options);
    return new ObservedUpload(
      await this.#observer.observe({ operation: 'beginUpload', key }, run),
      this.#observer,
    );
  }

  async resumeUpload(token: string, options?: CallOptions): Promise<Upload> {
    const run = () => this.#store.resumeUpload(token, options);
    return new ObservedUpload(
      await this.#observer.observe({ operation: 'resumeUpload', key: '' }, run),
      this.#observer,
    );
  }

  async *list(prefix: string, options?: ListOptions): AsyncGenerator<ListPage, void, void> {
    const pages = this.#store.list(prefix, options);
    yield* this.#observer.observePages('list', prefix, pages, ({ objects }) => objects.length);
  }

  deleteMany(keys: readonly string[], options?: CallOptions): Promise<DeleteResult[]> {
    const measure = { operation: 'deleteMany', key: keys[0] ?? '', keyCount: keys.length } as const;
    return this.#observer.observe(measure, () => this.#store.deleteMany(keys, options));
  }

  close(): Promise<void> {
    return this.#store.close();
  }
}

class ObservedUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #upload: Upload;
  readonly #observer: Observer;

  constructor(upload: Upload, observer: Observer) {
    this.key = upload.key;
    this.token = upload.token;
    this.partSizeBytes = upload.partSizeBytes;
    this.#upload = upload;
    this.#observer = observer;
  }

  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    const measure = { operation: 'putPart', key: this.key, sentBytes: bytes.byteLength } as const;
    return this.#observer.observe(measure, () => this.#upload.putPart(index, bytes, options));
  }

  listParts(options?: CallOptions): Promise<PartReceipt[]> {
    return this.#observer.observe({ operation: 'listParts', key: this.key }, () =>
      this.#upload.listParts(options),
    );
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    return this.#observer.observe({ operation: 'complete', key: this.key }, () =>
      this.#upload.complete(parts, options),
    );
  }

  abort(options?: CallOptions): Promise<void> {
    return this.#observer.observe({ operation: 'abort', key: this.key }, () => this.#upload.abort(options));
  }
}

class Observer {
  readonly #options: ObservedStoreOptions;

  constructor(options: ObservedStoreOptions) {
    this.#options = options;
  }

  async observe<T>(measure: Measure<T>, run: () => Promise<T>): Promise<T> {
    const report = this.#start(measure.operation, measure.key);
    const keyCount = measure.keyCount ?? 1;
    const sentBytes = measure.sentBytes ?? 0;
    try {
      const result = await run();
      report('ok', keyCount, sentBytes + (measure.receivedBytes?.(result) ?? 0));
      return result;
    } catch (error) {
      report(outcomeOf(error), keyCount, sentBytes);
      throw error;
    }
  }

  async *observePages<Page>(
    operation: StoreOperation,
    prefix: string,
    pages: AsyncIterable<Page>,
    countOf: (page: Page) => number,
  ): AsyncGenerator<Page, void, void> {
    const iterator = pages[Symbol.asyncIterator]();
    let isFirst = true;
    let isDone = false;
    try {
      for (;;) {
        const report = this.#start(operation, prefix);
        const next = await iterator.next().catch((error: unknown) => {
          isDone = true;
          report(outcomeOf(error), 0, 0);
          throw error;
        });
        isDone = next.done === true;
        // The end of a listing is no request of its own, unless the listing is empty.
        if (next.done !== true || isFirst) report('ok', next.done === true ? 0 : countOf(next.value), 0);
        if (next.done === true) return;
        isFirst = false;
        yield next.value;
      }
    } finally {
      if (!isDone) await iterator.return?.();
    }
  }

  async *observeUploads(
    prefix: string,
    uploads: AsyncIterable<OpenUpload>,
  ): AsyncGenerator<OpenUpload, void, void> {
    const report = this.#start('listUploads', prefix);
    let count = 0;
    let outcome: StoreCall['outcome'] = 'ok';
    try {
      for await (const upload of uploads) {
        count++;
        yield upload;
      }
    } catch (error) {
      outcome = outcomeOf(error);
      throw error;
    } finally {
      report(outcome, count, 0);
    }
  }

  #start(
    operation: StoreOperation,
    key: string,
  ): (outcome: StoreCall['outcome'], keyCount: number, bytes: number) => void {
    const { clock, onCall } = this.#options;
    const startedMs = clock.monotonicMs();
    return (outcome, keyCount, bytes) => {
      onCall({ operation, key, keyCount, bytes, outcome, durationMs: clock.monotonicMs() - startedMs });
    };
  }
}

function outcomeOf(error: unknown): ErrorCode {
  return isCheckpointError(error) ? error.code : 'Unexpected';
}
