import {
  type CallOptions,
  CheckpointError,
  type GetOptions,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type OpenUpload,
  type ReadOptions,
  type StoreCapabilities,
  type StoredObject,
} from '../contract/index.ts';

/**
 * A view of the objects below a prefix of another store, to read them. Every call that writes or
 * deletes is `ReadOnly`, and sends nothing. Closing the view does not close the other store.
 */
export class StoreBelow implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly listUploads?: NonNullable<ObjectStore['listUploads']>;
  readonly listDirectories?: NonNullable<ObjectStore['listDirectories']>;
  readonly #store: ObjectStore;
  readonly #prefix: string;

  /** `prefix`: empty, or ends with '/'. `uri`: for messages. */
  constructor(store: ObjectStore, { prefix, uri }: { readonly prefix: string; readonly uri: string }) {
    this.uri = uri;
    this.capabilities = store.capabilities;
    this.#store = store;
    this.#prefix = prefix;
    const listUploads = store.listUploads?.bind(store);
    if (listUploads)
      this.listUploads = (below, options) => this.#uploads(listUploads(prefix + below, options));
    const listDirectories = store.listDirectories?.bind(store);
    if (listDirectories) this.listDirectories = (below, options) => listDirectories(prefix + below, options);
  }

  async head(key: string, options?: CallOptions): Promise<ObjectInfo> {
    return this.#inside(await this.#store.head(this.#prefix + key, options));
  }

  async get(key: string, options: GetOptions): Promise<StoredObject> {
    return this.#inside(await this.#store.get(this.#prefix + key, options));
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number> {
    return this.#store.readInto(this.#prefix + key, offsetBytes, buffer, options);
  }

  async *list(prefix: string, options: ListOptions = {}): AsyncGenerator<ListPage, void, void> {
    const { startAfter } = options;
    const given = startAfter === undefined ? options : { ...options, startAfter: this.#prefix + startAfter };
    for await (const page of this.#store.list(this.#prefix + prefix, given))
      yield { ...page, objects: page.objects.map((object) => this.#inside(object)) };
  }

  create = (): Promise<never> => this.#refuse();
  beginUpload = (): Promise<never> => this.#refuse();
  resumeUpload = (): Promise<never> => this.#refuse();
  deleteMany = (): Promise<never> => this.#refuse();

  async close(): Promise<void> {
    // The other store belongs to the caller.
  }

  async *#uploads(uploads: AsyncIterable<OpenUpload>): AsyncGenerator<OpenUpload, void, void> {
    for await (const upload of uploads) yield this.#inside(upload);
  }

  #inside<T extends { readonly key: string }>(object: T): T {
    return { ...object, key: object.key.slice(this.#prefix.length) };
  }

  async #refuse(): Promise<never> {
    throw new CheckpointError('ReadOnly', `this view of ${this.uri} only reads`, {
      context: { store: this.uri },
    });
  }
}
