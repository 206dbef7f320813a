import type { CheckpointError } from './errors.ts';

/**
 * What an adapter implements. The whole engine relies on these promises; `testkit` checks every one
 * of them.
 *
 * Demands on the provider:
 * - **Create-if-absent is atomic.** Exactly one of any number of concurrent creates of one key
 *   succeeds, also across processes.
 * - **Whole or not at all.** No reader, listing included, ever observes a part of an object.
 * - **Read after write.** Once a create has resolved, every `head`, `get`, `readInto` and `list`
 *   from anywhere shows it.
 * - **Durable when acknowledged.** What a resolved create or `complete` wrote survives the loss of
 *   the process and of power. So does what `head`, `get`, `list` or `AlreadyExists` has shown, even
 *   if another process wrote it: a commit may rely on it at once.
 * - **Never replaced.** Nothing in this interface changes an object. The engine never uses a key
 *   twice.
 *
 * Demands on the adapter:
 * - It sends each request once. The engine does the retries, because it knows what may be repeated.
 * - A write that fails with a `permanent` error had no effect, except with `Aborted`. A write that
 *   fails with any other status may have had its effect, or may have it later.
 * - A buffer passed in belongs to the store until the promise settles, and no longer. After that
 *   the store neither reads nor writes it, not even after an abort. (Over a socket that means:
 *   settle on 'close', not at `destroy()`.)
 * - Each call takes an AbortSignal. After it fires, the call rejects soon, with `Aborted`. If
 *   requests of a store may wait for a free connection, the store reports that to
 *   `requestWatchOf(signal)`: the engine then does not count that wait as a stall.
 * - Errors are `CheckpointError`s: `NotFound`, `AlreadyExists`, `Denied`, `ReadOnly`,
 *   `StorageFull`, `Throttled`, `Unavailable`, `Corrupt` (the store's own checksum rejected the
 *   bytes), `Unsupported`, `InvalidArgument`, `Aborted`. An error that the adapter does not know is
 *   `Unexpected`.
 *
 * Keys: segments of 1 to 255 bytes of UTF-8 joined by '/', at most 1,024 bytes together with the
 * store's own prefix. No segment is '.' or '..', and none holds a control character (U+0000 to
 * U+001F, U+007F). Any other key is rejected with `InvalidArgument` before a request is sent. No
 * key of a run is a proper prefix, at a '/', of another. Every key is below the store's root. An
 * adapter may keep files of its own there if their keys start with `.holdfast-`; it never lists
 * them.
 */
export interface ObjectStore {
  /** For messages: the URI without credentials. */
  readonly uri: string;
  readonly capabilities: StoreCapabilities;

  /**
   * Writes a new object of at most `capabilities.maxCreateBytes`. `AlreadyExists`: there is an
   * object under this key, which an earlier call of the same caller may have written. A retry after
   * a temporary error is safe only if the caller can recognise its own object.
   */
  create(key: string, bytes: Uint8Array, options?: CreateOptions): Promise<ObjectInfo>;

  /**
   * Size, version and, if the store knows it, checksum of one object. `NotFound` if there is no
   * object. One request. Safe to repeat.
   */
  head(key: string, options?: CallOptions): Promise<ObjectInfo>;

  /**
   * The whole of a small object. An object larger than `maxBytes` is rejected with `Corrupt` before
   * it is read. One request where the provider allows. Safe to repeat.
   */
  get(key: string, options: GetOptions): Promise<StoredObject>;

  /**
   * Fills `buffer` with the bytes of the object from `offsetBytes` on, in place: nothing is copied
   * on the hot path. Resolves to the number of bytes written. It is less than `buffer.byteLength`
   * only if the object ends there, and 0 at or past the end. Bytes of `buffer` past that number are
   * undefined. Safe to repeat into the same buffer once the promise has settled. Fastest if
   * `offsetBytes`, address and length are multiples of `capabilities.alignmentBytes`.
   */
  readInto(key: string, offsetBytes: number, buffer: Uint8Array, options?: ReadOptions): Promise<number>;

  /**
   * Begins an object that is sent in parts. Nothing is visible under `key` before `complete`. The
   * engine uses it only for keys that no other process uses.
   */
  beginUpload(key: string, options: UploadOptions): Promise<Upload>;

  /**
   * Resumes an upload of another process, by its token. `NotFound`: the upload is completed,
   * aborted or expired, or the store cannot rule out that the other process still writes to it. The
   * message says which. `Unsupported` where `capabilities.resumesUploads` is false.
   */
  resumeUpload(token: string, options?: CallOptions): Promise<Upload>;

  /**
   * Uploads under keys that start with `prefix` that were begun and neither completed nor aborted,
   * as far as the store can tell. A caller that deletes by this list must check its own records
   * too. Each upload is shown once, in no order. Absent if the provider cannot list uploads. One
   * request per page of uploads; on some providers one more per upload.
   */
  listUploads?(prefix: string, options?: CallOptions): AsyncIterable<OpenUpload>;

  /**
   * Objects whose keys start with `prefix`, in ascending order of the key's UTF-8 bytes, in pages.
   * The first page is requested at the first `next()`. Every object whose create had resolved
   * before that request is shown, unless it is deleted meanwhile. An object created or deleted
   * later may or may not be shown. A key is shown at most once. Without a match there is one empty
   * page or none.
   */
  list(prefix: string, options?: ListOptions): AsyncIterable<ListPage>;

  /**
   * Names of the directories directly below `prefix`, which is empty or ends with '/'. A directory
   * is what comes before the next '/' in a key. It exists as long as it holds an object, and a
   * store with real directories may also show an empty one. Each name is shown once, in pages and
   * in no order. The first page is requested at the first `next()`; what is shown follows the rules
   * of `list`. One request per `capabilities.maxListKeys` directories and objects directly below
   * `prefix`, whatever the directories hold. Absent if the provider has no such listing: the engine
   * then uses `list`.
   */
  listDirectories?(prefix: string, options?: CallOptions): AsyncIterable<readonly string[]>;

  /**
   * Deletes objects; a key without an object counts as deleted. Resolves to one result per key, in
   * the order given: a failure of one key does not stop the others. Rejects only if the request as
   * a whole failed; any of the objects may then be gone. Safe to repeat. One request per
   * `capabilities.maxDeleteKeys`, or one per key where the provider has no batch.
   */
  deleteMany(keys: readonly string[], options?: CallOptions): Promise<DeleteResult[]>;

  /**
   * Copies an object of `source` into this store under a new key, without its bytes passing through
   * this process. Resolves to `null`, and writes nothing, if the provider cannot do so: another
   * provider or account, or credentials that do not reach both. Otherwise it behaves as `create`,
   * but only the provider limits the size. `crc32c` of the result is present only if the store
   * computed it over the copy. The caller compares it or, if it is absent, reads the copy back.
   */
  copyFrom?(
    source: ObjectStore,
    sourceKey: string,
    key: string,
    options: CopyOptions,
  ): Promise<ObjectInfo | null>;

  /**
   * Releases the space that the store reserves for the time when it is full, so that the engine can
   * still write the decisions that deletion needs. True: there is more space than before. The store
   * reserves it again as soon as something was deleted.
   */
  makeRoom?(options?: CallOptions): Promise<boolean>;

  /**
   * What the bucket's own settings mean for checkpoints: versioning, locks, soft delete, lifecycle
   * rules. For people who judge whether a store is safe; the engine decides nothing by it. A
   * setting that the credentials may not read is reported as a fact, not as an error.
   */
  inspect?(options?: CallOptions): Promise<readonly StoreFact[]>;

  /** Releases connections and files, and stops calls in progress. Safe to call again. */
  close(): Promise<void>;
}

export interface CallOptions {
  signal?: AbortSignal | undefined;
}

/** Options of a request that carries payload. */
export interface PayloadOptions extends CallOptions {
  /**
   * Called whenever bytes of the payload have moved, by a store that can tell. A request whose
   * bytes move is never treated as stalled, however slow it is. The callback is cheap and never
   * throws.
   */
  onBytes?: (() => void) | undefined;
}

export interface CreateOptions extends PayloadOptions {
  /** CRC32C of `bytes`; the store verifies it if `capabilities.verifiesChecksums` is true. */
  crc32c?: number | undefined;
}

export interface GetOptions extends CallOptions {
  maxBytes: number;
}

export interface ReadOptions extends PayloadOptions {
  /**
   * From an earlier `head`, `get` or `list`. If the object has changed since, the call fails with
   * `Corrupt` instead of mixing two objects.
   */
  etag?: string | undefined;
}

export interface UploadOptions extends CallOptions {
  /**
   * Every part but the last has exactly this size; between `capabilities.minPartBytes` and
   * `maxPartBytes`.
   */
  partSizeBytes: number;
  /** Size of the whole object, if known: lets the store reserve space. */
  sizeBytes?: number | undefined;
}

export interface CopyOptions extends CallOptions {
  /** Size of the source object. */
  sizeBytes: number;
  /**
   * Called during the copy, with the bytes copied so far, by a store that can tell. Cheap, and
   * never throws.
   */
  onProgress?: ((copiedBytes: number) => void) | undefined;
}

export interface ListOptions extends CallOptions {
  /** Only keys after this one (exclusive), by UTF-8 bytes. It need not exist. */
  startAfter?: string | undefined;
}

export interface ObjectInfo {
  readonly key: string;
  readonly sizeBytes: number;
  /** Equal for the same state of one object. Etags of different objects cannot be compared. */
  readonly etag: string;
  /** Creation time by the store's own clock, milliseconds since 1970. */
  readonly createdAtMs: number;
  /**
   * CRC32C of the whole object, as the store has it: computed by the store, or kept from the write.
   * Only `head` returns it, where the store can, and `copyFrom` if the store computed it. Absent
   * elsewhere.
   */
  readonly crc32c?: number | undefined;
}

export interface StoreFact {
  /** Stable: programs identify the fact by it. In kebab-case, such as `versioning`. */
  readonly id: string;
  /** For people; at most 17 characters. */
  readonly title: string;
  /** The value found. */
  readonly seen: string;
  /** Present if the fact deserves a warning: what it means for checkpoints, and what to do. */
  readonly concern?: { readonly meaning: string; readonly advice: string } | undefined;
}

export interface StoredObject extends ObjectInfo {
  readonly bytes: Uint8Array;
}

export interface ListPage {
  readonly objects: readonly ObjectInfo[];
  /**
   * The store's own clock when it answered. The age of an object is this time, on the first page,
   * minus `createdAtMs`.
   */
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
  /**
   * When the upload began, milliseconds since 1970: by the store's clock or, if the store keeps no
   * such time, by the clock of the process that began it.
   */
  readonly beganAtMs: number;
  /** Total size of the parts it holds. Present if the store returns it without another request. */
  readonly sizeBytes?: number | undefined;
}

/** One object being uploaded. Parts may be sent in any order and at the same time. */
export interface Upload {
  readonly key: string;
  /**
   * Everything another process needs to resume or abort the upload. Different for each upload, also
   * where `capabilities.resumesUploads` is false. May be a bearer secret: it is stored, never
   * logged.
   */
  readonly token: string;
  /**
   * 0: resumed by the token of a listing that does not return the part size. Such an upload can
   * only list its parts and abort; every other call is `InvalidArgument`.
   */
  readonly partSizeBytes: number;

  /**
   * Sends part `index` (0-based): bytes `index * partSizeBytes` onward. Safe to repeat: sending a
   * part again replaces it. When it resolves, the part is neither visible nor durable yet. An
   * upload completed with its receipt holds these bytes, even if another process sent the same part
   * too.
   */
  putPart(index: number, bytes: Uint8Array, options: PartOptions): Promise<PartReceipt>;

  /**
   * The parts the store has, each index once, in order. If a part was sent with different bytes,
   * either may be shown. Safe to repeat.
   */
  listParts(options?: CallOptions): Promise<PartReceipt[]>;

  /**
   * Makes the object out of `parts`, which are 0..n-1 without a gap. When it resolves, the object
   * is visible and durable. May be repeated after a temporary error. `NotFound` may then mean that
   * the first call succeeded: check with `head`.
   */
  complete(parts: readonly PartReceipt[], options: CompleteOptions): Promise<ObjectInfo>;

  /**
   * Ends the upload for every process: no process can complete it afterwards. The parts are freed
   * at once or, if the provider has no such call, when they expire. Safe to repeat, also after
   * `complete`, which it does not undo.
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
  /**
   * 32 lower-case hex digits. Present only in stores that keep no `crc32c`. It may be something
   * other than an MD5 there, so a difference proves nothing.
   */
  readonly md5?: string | undefined;
  /** The store's name for the part. */
  readonly etag: string;
}

/**
 * Facts about a store, fixed for its life. The engine plans with them; the conformance suite
 * asserts each.
 */
export interface StoreCapabilities {
  /**
   * Largest object of one `create`; the engine sends larger files in parts. At least 16 MiB: the
   * largest record.
   */
  readonly maxCreateBytes: number;
  readonly minPartBytes: number;
  readonly maxPartBytes: number;
  readonly maxParts: number;
  readonly maxDeleteKeys: number;
  /** Maximum number of keys in one list page. */
  readonly maxListKeys: number;
  /** The store compares the checksum it is given with the bytes it received. */
  readonly verifiesChecksums: boolean;
  readonly resumesUploads: boolean;
  /**
   * Memory and offsets with this alignment are read and written without another copy; 1 if
   * alignment does not matter.
   */
  readonly alignmentBytes: number;
  /**
   * Requests that one process should keep in flight for objects that take one request each, and for
   * all requests without payload.
   */
  readonly preferredConcurrency: number;
  /** The same for parts of large files, which occupy the medium and the memory. */
  readonly preferredPartConcurrency: number;
  /**
   * Bytes that it is given, and buffers that it fills, may lie in a `SharedArrayBuffer`. Only then
   * transfer workers are used. Default: false.
   */
  readonly takesSharedMemory?: boolean | undefined;
}
