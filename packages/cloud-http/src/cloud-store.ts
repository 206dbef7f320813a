/** The part of an object store over HTTP that is the same for every provider. */

import {
  assertObjectKey,
  type CallOptions,
  type CheckpointError,
  type CopyOptions,
  type CreateOptions,
  type DeleteResult,
  type GetOptions,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectStore,
  type ReadOptions,
  type StoreCapabilities,
  type StoredObject,
  type StoreFact,
  type Upload,
  type UploadOptions,
} from '@holdfast/core/contract';
import { DirectHttpError } from '@holdfast/direct-http';
import { deleteEach } from './delete-each.ts';
import { HttpRefusal, type StoreSubject } from './errors.ts';
import {
  assertCreateSize,
  assertOffset,
  assertUntouched,
  isTooLarge,
  larger,
  type ObjectPlace,
  refuseUnasked,
  replaced,
} from './object-answers.ts';
import { type CallSubject, StoreCalls } from './store-calls.ts';
import type { Into, TransportAnswer } from './transport.ts';
import { assertPartSize } from './upload-parts.ts';

export interface ReadRequest extends CallOptions {
  /** Only the object with this etag. */
  readonly etag?: string | undefined;
  /** As in a header: `bytes=0-99`. Absent: the whole object. */
  readonly range?: string | undefined;
  readonly into?: Into | undefined;
  readonly bodyBytesMax?: number | undefined;
  readonly onBytes?: (() => void) | undefined;
}

export interface ReadAnswer extends TransportAnswer {
  readonly etag: string;
  readonly createdAtMs: number;
}

/** One provider's requests about objects. Each is sent once; refusals are thrown as they are. */
export interface ObjectRequests {
  create(place: ObjectPlace, bytes: Uint8Array, options: CreateOptions): Promise<Omit<ObjectInfo, 'key'>>;
  head(place: ObjectPlace, signal: AbortSignal | undefined): Promise<Omit<ObjectInfo, 'key'>>;
  read(place: ObjectPlace, request: ReadRequest): Promise<ReadAnswer>;
  /** A missing object counts as deleted. */
  remove(place: ObjectPlace, signal: AbortSignal | undefined): Promise<unknown>;
  /**
   * Tells whether a read failed because it begins at or past the end of the object. Default: its
   * status is 416.
   */
  isAtEnd?(error: unknown, place: ObjectPlace, offsetBytes: number, signal?: AbortSignal): Promise<boolean>;
}

export interface CloudStoreParts {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  readonly objects: ObjectRequests;
  readonly connection: { close(): Promise<void> };
  /** The provider's rules for names; throws `InvalidArgument`. */
  readonly pathOf: (key: string) => string;
  readonly toStoreError: (error: unknown, call: CallSubject) => CheckpointError;
}

/** Objects of one bucket below one prefix. */
export abstract class CloudStore implements ObjectStore {
  readonly uri: string;
  readonly capabilities: StoreCapabilities;
  protected readonly calls: StoreCalls;
  readonly #parts: CloudStoreParts;

  constructor(parts: CloudStoreParts) {
    this.uri = parts.uri;
    this.capabilities = parts.capabilities;
    this.#parts = parts;
    this.calls = new StoreCalls(parts.uri, parts.toStoreError);
  }

  create(key: string, bytes: Uint8Array, options: CreateOptions = {}): Promise<ObjectInfo> {
    return this.calls.run({ action: 'create', key, signal: options.signal }, async () => {
      assertCreateSize(this.#subject(key), bytes.byteLength, this.capabilities.maxCreateBytes);
      return { key, ...(await this.#parts.objects.create(this.placeOf(key), bytes, options)) };
    });
  }

  head(key: string, { signal }: CallOptions = {}): Promise<ObjectInfo> {
    return this.calls.run({ action: 'look at', key, signal }, async () => ({
      key,
      ...(await this.#head(this.placeOf(key), signal)),
    }));
  }

  get(key: string, { maxBytes, signal }: GetOptions): Promise<StoredObject> {
    return this.calls.run({ action: 'read', key, signal }, async () => {
      const { objects } = this.#parts;
      const place = this.placeOf(key);
      const { status, headers, body, etag, createdAtMs } = await objects
        .read(place, { bodyBytesMax: maxBytes, signal })
        .catch(async (error: unknown) => {
          if (!isTooLarge(error)) return refuseUnasked(error);
          const { sizeBytes } = await this.#head(place, signal);
          throw larger(this.#subject(key), { sizeBytes, maxBytes, cause: error });
        });
      assertUntouched(status, headers);
      return { key, sizeBytes: body.byteLength, etag, createdAtMs, bytes: body };
    });
  }

  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options: ReadOptions = {}): Promise<number> {
    const { etag, onBytes, signal } = options;
    return this.calls.run({ action: 'read', key, signal }, async () => {
      const subject = this.#subject(key);
      assertOffset(subject, offsetBytes);
      if (buffer.byteLength === 0) return 0;
      const place = this.placeOf(key);
      try {
        const range = `bytes=${offsetBytes}-${offsetBytes + buffer.byteLength - 1}`;
        const into = { buffer, startBytes: offsetBytes };
        const answer = await this.#parts.objects.read(place, { etag, range, into, onBytes, signal });
        const bytes = bytesOf(answer);
        // Some servers and proxies ignore the condition.
        if (etag !== undefined && answer.etag !== etag) throw replaced(subject, etag);
        return bytes;
      } catch (error) {
        const status = error instanceof HttpRefusal ? error.status : undefined;
        if (error instanceof HttpRefusal && error.isForeign) throw error;
        if (status === 412 && etag !== undefined) throw replaced(subject, etag, error);
        const isAtEnd = await (this.#parts.objects.isAtEnd?.(error, place, offsetBytes, signal) ??
          status === 416);
        if (isAtEnd) return 0;
        throw error;
      }
    });
  }

  beginUpload(key: string, { partSizeBytes, signal }: UploadOptions): Promise<Upload> {
    return this.calls.run({ action: 'begin an upload to', key, signal }, async () => {
      assertPartSize(this.#subject(key), this.capabilities, partSizeBytes);
      return this.begin(this.placeOf(key), partSizeBytes, signal);
    });
  }

  resumeUpload(token: string, { signal }: CallOptions = {}): Promise<Upload> {
    return this.calls.run({ action: 'resume an upload to', signal }, async () => {
      const upload = this.uploadOf(token);
      await upload.listParts({ signal }); // Fails if the upload is gone.
      return upload;
    });
  }

  deleteMany(keys: readonly string[], { signal }: CallOptions = {}): Promise<DeleteResult[]> {
    return this.calls.run({ action: 'delete from', signal }, async () => {
      const places = keys.map((key) => {
        assertObjectKey(key, this.uri);
        return this.placeOf(key);
      });
      return this.removeAll(places, signal);
    });
  }

  inspect({ signal }: CallOptions = {}): Promise<readonly StoreFact[]> {
    return this.calls.run({ action: 'inspect', signal }, () => this.factsOf(signal));
  }

  close(): Promise<void> {
    return this.calls.close(() => this.#parts.connection.close());
  }

  abstract list(prefix: string, options?: ListOptions): AsyncGenerator<ListPage, void, void>;

  abstract copyFrom(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null>;

  /** Begins an upload whose part size was checked. */
  protected abstract begin(
    place: ObjectPlace,
    partSizeBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<Upload>;

  /** The upload of a token. Sends nothing. `InvalidArgument`: no token of this store. */
  protected abstract uploadOf(token: string): Upload;

  /** See `ObjectStore.inspect`. */
  protected abstract factsOf(signal: AbortSignal | undefined): Promise<readonly StoreFact[]>;

  /** One request per object. Stores with a useful batch delete override it. */
  protected removeAll(
    places: readonly ObjectPlace[],
    signal: AbortSignal | undefined,
  ): Promise<DeleteResult[]> {
    return deleteEach(
      places,
      signal,
      (place) => this.#parts.objects.remove(place, signal),
      (error, { key }) => this.deleteError(error, key),
    );
  }

  protected deleteError(error: unknown, key: string): CheckpointError {
    return this.#parts.toStoreError(error, { action: 'delete', key });
  }

  protected placeOf(key: string): ObjectPlace {
    return { key, path: this.#parts.pathOf(key) };
  }

  #head(place: ObjectPlace, signal: AbortSignal | undefined): Promise<Omit<ObjectInfo, 'key'>> {
    return this.#parts.objects
      .head(place, signal)
      .catch((error: unknown) => this.#explain(error, place, signal));
  }

  /**
   * An answer to HEAD has no body, and a load balancer's looks like the store's. The answer to a
   * GET tells which of them it is, so an object is not taken for missing that is there.
   */
  async #explain(error: unknown, place: ObjectPlace, signal: AbortSignal | undefined): Promise<never> {
    if (!(error instanceof HttpRefusal) || !error.mayBeForeign) throw error;
    const { objects } = this.#parts;
    await objects.read(place, { bodyBytesMax: 0, signal }).catch(orLarger);
    const what = `HEAD was answered with HTTP ${error.status}, but GET has the object; another server may have answered`;
    throw new DirectHttpError('BAD_HEAD', what, { phase: 'head' });
  }

  #subject(key: string): StoreSubject {
    return { store: this.uri, key };
  }
}

/** An answer without a body, such as 204, does not say that the object ends. */
function bytesOf({ status, bytesInto }: ReadAnswer): number {
  if (bytesInto !== undefined) return bytesInto;
  throw new DirectHttpError('BAD_HEAD', `a read was answered with HTTP ${status}`, { phase: 'head' });
}

/** The object is there, and its bytes are of no interest. */
function orLarger(error: unknown): void {
  if (!isTooLarge(error)) throw error;
}
