import type { CheckpointError } from './errors.ts';

/**
 * What an adapter implements. The whole engine rests on these promises; `testkit` checks every one of them.
 *
 * Demands on the provider:
 * - **Create-if-absent is atomic.** Of any number of concurrent creates of one key exactly one succeeds, whoever sends them.
 * - **Whole or not at all.** No reader, listing included, ever observes a part of an object.
 * - **Read after write.** Once a create has resolved, every `head`, `get`, `readInto` and `list` from anywhere shows it.
 * - **Durable when acknowledged.** What a resolved create or `complete` wrote survives the loss of the
 *   process and of power. So does what `head`, `get`, `list` or `AlreadyExists` has shown, also if
 *   another process made it: a commit may rest on it at once.
 * - **Never replaced.** Nothing in this interface changes an object. The engine never uses a key twice.
 *
 * Demands on the adapter:
 * - It sends each request once. Repeating is the business of the engine, which knows what may be repeated.
 * - A write that fails with a `permanent` error had no effect, `Aborted` excepted. One that fails with another may have had it,
 *   and may have it later.
 * - A buffer passed in belongs to the store until the promise settles, not longer: after that nobody reads from it or
 *   writes to it, abort included. (Over a socket that means: settle on 'close', not at `destroy()`.)
 * - Each call takes an AbortSignal; after it has fired the call rejects soon, with `Aborted`. A store whose requests may have to wait for
 *   a free connection tells `requestWatchOf(signal)`: that wait is not taken for silence.
 * - Errors are `CheckpointError`s: `NotFound`, `AlreadyExists`, `Denied`, `ReadOnly`, `StorageFull`, `Throttled`, `Unavailable`,
 *   `Corrupt` (the store's own checksum refused the bytes), `Unsupported`, `InvalidArgument`, `Aborted`; what the adapter does not know is `Unexpected`.
 *
 * Keys: segments of 1 to 255 bytes of UTF-8 joined by '/', at most 1,024 bytes together with the store's own prefix; no segment is '.'
 * or '..', none holds a control character (U+0000 to U+001F, U+007F). Another key is refused with `InvalidArgument` before anything is
 * sent. No key of a run is a proper prefix, at a '/', of another. Everything is below the store's root; an adapter may keep files of its
 * own there if their keys start with `.holdfast-`, and never lists them.
 */
export interface ObjectStore {
  /** For messages: the URI without credentials. */
  readonly uri: string;
  readonly capabilities: StoreCapabilities;

  /**
   * Writes a new object of at most `capabilities.maxCreateBytes`.
   * `AlreadyExists`: there is an object under this key, which may be the effect of an earlier call of one's own. Repeating after a
   * temporary error is safe only if the caller can tell its own object from another's.
   */
  create(key: string, bytes: Uint8Array, options?: CreateOptions): Promise<ObjectInfo>;

  /** Size, version and, where it can, checksum of one object. `NotFound` if there is none. One request. Safe to repeat. */
  head(key: string, options?: CallOptions): Promise<ObjectInfo>;

  /**
   * The whole of a small object. An object larger than `maxBytes` is refused with `Corrupt` before it is read.
   * One request where the provider allows. Safe to repeat.
   */
  get(key: string, options: GetOptions): Promise<StoredObject>;

  /**
   * Fills `buffer` with the bytes of the object from `offsetBytes` on, in place: on the hot path nothing is copied.
   * Resolves to the number of bytes written, which is less than `buffer.byteLength` only where the object ends, and 0 at or past its
   * end. Bytes of `buffer` past that number are undefined. Safe to repeat into the same buffer once the promise has settled.
   * Fastest with `offsetBytes`, address and length multiples of `capabilities.alignmentBytes`.
   */
  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number>;

  /**
   * Begins an object that is sent in parts. Nothing is visible under `key` before `complete`.
   * The engine uses it only for keys that no other process uses.
   */
  beginUpload(key: string, options: UploadOptions): Promise<Upload>;

  /**
   * Goes on with an upload of another process, by its token. `NotFound`: it is completed, aborted or expired, or the store cannot rule out
   * that the other process still writes to it; the message says which.
   * `Unsupported` where `capabilities.resumesUploads` is false.
   */
  resumeUpload(token: string, options?: CallOptions): Promise<Upload>;

  /**
   * Uploads under keys that start with `prefix` which were begun and neither completed nor aborted, as far as the store can tell: whoever
   * deletes by it asks its own records too. Each is shown once, in no order. Absent where it cannot be. One request per page of uploads;
   * on some providers one more per upload.
   */
  listUploads?(prefix: string, options?: CallOptions): AsyncIterable<OpenUpload>;

  /**
   * Objects whose keys start with `prefix`, in ascending order of the key's UTF-8 bytes, in pages. The first page is requested at the
   * first `next()`. Every object whose create had resolved before that request is shown (unless it is deleted meanwhile); one created
   * or deleted later may or may not be. A key is shown at most once. No match: one empty page or none.
   */
  list(prefix: string, options?: ListOptions): AsyncIterable<ListPage>;

  /**
   * Deletes objects; one that does not exist counts as deleted. Resolves to one result per key, in the order given: a failure of one
   * key does not stop the others. Rejects only if the request as a whole failed, in which case any of them may be gone.
   * Safe to repeat. One request per `capabilities.maxDeleteKeys`, or one per key where the provider has no batch.
   */
  deleteMany(keys: readonly string[], options?: CallOptions): Promise<DeleteResult[]>;

  /**
   * Copies an object of `source` into this store under a new key, without its bytes passing through this process. `null`, and nothing
   * is written, where the provider cannot: another provider or account, or credentials that do not reach both. Otherwise as `create`,
   * except that the size has no limit but the provider's. `crc32c` of the result is only what the store computed over the copy: whoever
   * copies compares it or, where it is absent, reads the copy back.
   */
  copyFrom?(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null>;

  /**
   * Gives up what the store keeps back for the day when it is full: room for the decisions without which nothing may be deleted. True: there
   * is more room than before. The store keeps it back again as soon as something was deleted.
   */
  makeRoom?(options?: CallOptions): Promise<boolean>;

  /**
   * What the bucket's own settings mean for checkpoints: versioning, locks, soft delete, lifecycle rules. For people who ask whether a
   * store can be trusted; nothing is decided by it. What the credentials may not read is a fact that says so, not an error.
   */
  inspect?(options?: CallOptions): Promise<readonly StoreFact[]>;

  /** Releases connections and files. Calls under way are stopped. Safe to call again. */
  close(): Promise<void>;
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

/** Of a request that carries payload. */
export interface PayloadOptions extends CallOptions {
  /**
   * Called whenever bytes of the payload have moved, by a store that can tell: a request that moves is not silent, however slow it is.
   * Cheap, and never throws.
   */
  onBytes?: (() => void) | undefined;
}

export interface CreateOptions extends PayloadOptions {
  /** CRC32C of `bytes`; the store verifies it where `capabilities.verifiesChecksums`. */
  crc32c?: number | undefined;
}

export interface GetOptions extends CallOptions {
  maxBytes: number;
}

export interface ReadOptions extends PayloadOptions {
  /** From an earlier `head`, `get` or `list`: if the object is another by now, the call fails with `Corrupt` instead of mixing the two. */
  etag?: string | undefined;
}

export interface UploadOptions extends CallOptions {
  /** Every part but the last has exactly this size; between `capabilities.minPartBytes` and `maxPartBytes`. */
  partSizeBytes: number;
  /** When known: lets the store reserve room. */
  sizeBytes?: number | undefined;
}

export interface CopyOptions extends CallOptions {
  /** Of the source. */
  sizeBytes: number;
  /** Called as the copy goes on, with the bytes copied so far, by a store that can tell. Cheap, and never throws. */
  onProgress?: ((copiedBytes: number) => void) | undefined;
}

export interface ListOptions extends CallOptions {
  /** Only keys after this one (exclusive), by UTF-8 bytes. It need not exist. */
  startAfter?: string | undefined;
}

export interface ObjectInfo {
  readonly key: string;
  readonly sizeBytes: number;
  /** Equal for equal state of an object; says nothing about another object. */
  readonly etag: string;
  /** When the store's own clock says it was created, milliseconds since 1970. */
  readonly createdAtMs: number;
  /**
   * Of the whole object, as the store has it: computed by it, or kept by it from the write. Only `head` tells it, where it can, and
   * `copyFrom` what was computed; absent elsewhere.
   */
  readonly crc32c?: number | undefined;
}

export interface StoreFact {
  /** Kept: programs know the fact by it. In kebab-case, such as `versioning`. */
  readonly id: string;
  /** For people; at most 17 characters. */
  readonly title: string;
  /** What was found. */
  readonly seen: string;
  /** Present where that is worth a warning: what it means for checkpoints, and what to do. */
  readonly concern?: { readonly meaning: string; readonly advice: string } | undefined;
}

export interface StoredObject extends ObjectInfo {
  readonly bytes: Uint8Array;
}

export interface ListPage {
  readonly objects: readonly ObjectInfo[];
  /** The store's own clock when it answered. Ages are this, of the first page, minus `createdAtMs`. */
  readonly storeTimeMs: number;
}

export interface DeleteResult {
  readonly key: string;
  /** Absent: the key is gone. */
  readonly error?: CheckpointError;
}

/** An upload that has not ended. */
export interface OpenUpload {
  readonly key: string;
  /** For `resumeUpload`. */
  readonly token: string;
  /** By the clock of the store or, where it keeps no such time, of whoever began it; milliseconds since 1970. */
  readonly beganAtMs: number;
  /** Of the parts it holds. Present where the store tells it without another request. */
  readonly sizeBytes?: number | undefined;
}

/** One object on its way. Parts may be sent in any order and at the same time. */
export interface Upload {
  readonly key: string;
  /** Everything another process needs to resume or abort it. May be a bearer secret: it is stored, never logged. */
  readonly token: string;
  /** 0: resumed by the token of a listing that does not tell it. Such an upload lists its parts and aborts; the rest is `InvalidArgument`. */
  readonly partSizeBytes: number;

  /**
   * Sends part `index` (0-based): bytes `index * partSizeBytes` onward. Sending a part again replaces it, so it is safe to repeat.
   * Not visible and not yet durable when it resolves. What completes by its receipt has these bytes, whoever sent the part as well.
   */
  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt>;

  /**
   * The parts the store has, each index once, in order. Of a part that was sent with different bytes it may show either. Safe to repeat.
   */
  listParts(options?: CallOptions): Promise<PartReceipt[]>;

  /**
   * Makes the object out of `parts`, which are 0..n-1 without a gap. When it resolves, the object is visible and durable.
   * May be repeated after a temporary error; `NotFound` then may mean that the first call succeeded: look at the object.
   */
  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo>;

  /**
   * Nothing comes of the upload any more, whoever resumes it; the parts are freed, at once or, where the provider has no such call, when
   * they expire. Safe to repeat, also after `complete`, which it does not undo.
   */
  abort(options?: CallOptions): Promise<void>;
}

export interface PartOptions extends PayloadOptions {
  crc32c: number;
}

export interface CompleteOptions extends CallOptions {
  sizeBytes: number;
  crc32c: number;
}

export interface PartReceipt {
  readonly index: number;
  readonly sizeBytes: number;
  /** Absent where the store does not keep it. */
  readonly crc32c?: number | undefined;
  /** 32 lower-case hex digits. Only told by stores that keep no `crc32c`, and may be something else there: unequal says nothing. */
  readonly md5?: string | undefined;
  /** The store's name for the part. */
  readonly etag: string;
}

/** Facts about a store, fixed for its life. The engine plans with them; the conformance suite asserts each. */
export interface StoreCapabilities {
  /** Largest object of one `create`, and the least at which the engine prefers parts. At least 16 MiB: the largest record. */
  readonly maxCreateBytes: number;
  readonly minPartBytes: number;
  readonly maxPartBytes: number;
  readonly maxParts: number;
  readonly maxDeleteKeys: number;
  /** Keys of one list page, at most. */
  readonly maxListKeys: number;
  /** The store compares the checksum it is given with the bytes it got. */
  readonly verifiesChecksums: boolean;
  readonly resumesUploads: boolean;
  /** Memory and offsets aligned so are read and written without another copy; 1 where it does not matter. */
  readonly alignmentBytes: number;
  /** Requests that one process should keep in flight: of objects that are one request each, and of everything that moves no payload. */
  readonly preferredConcurrency: number;
  /** The same for parts of large files, which occupy the medium and the memory. */
  readonly preferredPartConcurrency: number;
}
