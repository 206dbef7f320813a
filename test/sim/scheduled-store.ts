import {
  type CallOptions,
  type CompleteOptions,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type PartOptions,
  type PartReceipt,
  type ReadOptions,
  type StoreCapabilities,
  type StoredObject,
  throwIfAborted,
  type Upload,
  type UploadOptions,
} from '@holdfast/core/contract';
import type { ParkedCall, Scheduled, Scheduler } from './scheduler.ts';

interface Request<T> {
  readonly what: string;
  readonly signal?: AbortSignal | undefined;
  readonly send: () => Promise<T>;
  readonly sendAlone?: () => Promise<unknown>;
}

/**
 * A store whose calls wait for their turn. `close` does nothing: requests of a process that has
 * ended may still land.
 */
export class ScheduledStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly #store: ObjectStore;
  readonly #scheduler: Scheduler;
  readonly #process: Scheduled;

  constructor(store: ObjectStore, scheduler: Scheduler, process: Scheduled) {
    this.uri = store.uri;
    this.capabilities = store.capabilities;
    this.#store = store;
    this.#scheduler = scheduler;
    this.#process = process;
  }

  create(key: string, bytes: Uint8Array, options: CreateOptions = {}): Promise<ObjectInfo> {
    const copy = bytes.slice();
    const send = () => this.#store.create(key, copy, { crc32c: options.crc32c });
    return this.#call({ what: `create ${key}`, signal: options.signal, send, sendAlone: send });
  }

  head(key: string, options?: CallOptions): Promise<ObjectInfo> {
    return this.#call({
      what: `head ${key}`,
      signal: options?.signal,
      send: () => this.#store.head(key, options),
    });
  }

  get(key: string, options: GetOptions): Promise<StoredObject> {
    return this.#call({
      what: `get ${key}`,
      signal: options.signal,
      send: () => this.#store.get(key, options),
    });
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number> {
    const send = () => this.#store.readInto(key, offsetBytes, buffer, options);
    return this.#call({ what: `readInto ${key}`, signal: options?.signal, send });
  }

  async beginUpload(key: string, options: UploadOptions): Promise<Upload> {
    const send = () => this.#store.beginUpload(key, { ...options, signal: undefined });
    const what = `beginUpload ${key}`;
    const upload = await this.#call({ what, signal: options.signal, send, sendAlone: send });
    return new ScheduledUpload(upload, (request) => this.#call(request));
  }

  async resumeUpload(token: string, options?: CallOptions): Promise<Upload> {
    const send = () => this.#store.resumeUpload(token, options);
    const upload = await this.#call({ what: 'resumeUpload', signal: options?.signal, send });
    return new ScheduledUpload(upload, (request) => this.#call(request));
  }

  async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    const { startAfter, signal } = options;
    const pages = this.#store.list(prefix, { startAfter })[Symbol.asyncIterator]();
    for (let isLast = false; !isLast; ) {
      throwIfAborted(signal);
      const next = await this.#call({ what: `list ${prefix}`, signal, send: () => pages.next() });
      if (next.done === true) return;
      // A page that is not full is the last one, so the end of the listing costs no request.
      isLast = next.value.objects.length < this.capabilities.maxListKeys;
      yield next.value;
    }
  }

  deleteMany(keys: readonly string[], options?: CallOptions): Promise<DeleteResult[]> {
    const copy = [...keys];
    const send = () => this.#store.deleteMany(copy);
    return this.#call({ what: `deleteMany ${keys}`, signal: options?.signal, send, sendAlone: send });
  }

  async close(): Promise<void> {} // see above

  #call<T>(request: Request<T>): Promise<T> {
    const call: ParkedCall<T> = { process: this.#process, ...request };
    return this.#scheduler.call(call);
  }
}

class ScheduledUpload implements Upload {
  readonly key: string;
  readonly token: string;
  readonly partSizeBytes: number;
  readonly #upload: Upload;
  readonly #call: <T>(request: Request<T>) => Promise<T>;

  constructor(upload: Upload, call: <T>(request: Request<T>) => Promise<T>) {
    this.key = upload.key;
    this.token = upload.token;
    this.partSizeBytes = upload.partSizeBytes;
    this.#upload = upload;
    this.#call = call;
  }

  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt> {
    const copy = bytes.slice();
    const send = () => this.#upload.putPart(index, copy, { crc32c: options.crc32c });
    return this.#call({
      what: `putPart ${index} of ${this.key}`,
      signal: options.signal,
      send,
      sendAlone: send,
    });
  }

  listParts(options?: CallOptions): Promise<PartReceipt[]> {
    const send = () => this.#upload.listParts();
    return this.#call({ what: `listParts ${this.key}`, signal: options?.signal, send });
  }

  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo> {
    const copy = [...parts];
    const send = () => this.#upload.complete(copy, { ...options, signal: undefined });
    return this.#call({ what: `complete ${this.key}`, signal: options.signal, send, sendAlone: send });
  }

  abort(options?: CallOptions): Promise<void> {
    const send = () => this.#upload.abort();
    return this.#call({ what: `abort ${this.key}`, signal: options?.signal, send, sendAlone: send });
  }
}
