import type {
  BytesInMemory,
  InputStreamOptions,
  ObjectStore,
  RandomSink,
  RandomSource,
  Upload,
} from '../contract/index.ts';
import type { KnownFile, KnownFiles } from '../plan/known-files.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { LentFile } from './lent-file.ts';
import type { Items, TransferOptions } from './options.ts';
import type { RetryPolicy } from './retry.ts';

/**
 * Moves bytes between sources, one store and sinks. Each call is one transfer. All transfers
 * together stay within one byte budget (`settings.bufferBytes`).
 *
 * In every call the first error stops the rest at once. The error is thrown only after everything
 * in progress has settled, all buffers are back in the pool, and sources and sinks are closed. A
 * stop by the caller's signal is such an error (`Aborted`).
 *
 * A store call may continue after it was told to stop. It is then abandoned: after another
 * `stallTimeoutMs`, or after half a second if the caller has stopped. Its buffer stays unused until
 * the call ends.
 */
export interface Transfers {
  /**
   * The store, with retries of `head`, `get`, `readInto`, `list` and `deleteMany` after temporary
   * errors. A listing that breaks is resumed after the last key it has returned. `create` is sent
   * again only after a checksum mismatch; `beginUpload` and `resumeUpload` are sent once. Their
   * callers know what may be repeated. Requests other than `readInto` and the uploads are stopped
   * when the store is silent for too long.
   */
  readonly records: ObjectStore;
  /**
   * For requests outside `records` that the caller repeats with `retrying`. They share the retry
   * budget of all transfers.
   */
  retryPolicy(what: string, caller: Pick<TransferOptions, 'signal' | 'onRetry'>): RetryPolicy;
  /**
   * Maximum number of streams that are uploaded at once, over all calls; at least 1. Further
   * streams wait unread. If producers wait for each other, there must be no more of them than this.
   */
  readonly streamCountMax: number;
  /** Use of the pool, for figures and tests. */
  readonly memory: MemoryUse;

  /**
   * Sends each item to an object of its own, unless a known file is equal to it. Resolves when all
   * are durable, in the order given. Deletes nothing.
   */
  upload(items: readonly UploadItem[], options?: TransferOptions): Promise<UploadedFile[]>;
  /**
   * The result of `upload` without sending anything: sources are read, streams are consumed, and
   * `key` is empty.
   */
  checksum(items: readonly UploadItem[], options?: TransferOptions): Promise<UploadedFile[]>;
  /**
   * Reads each file, compares every byte with its checksum, and only then writes it to its sink.
   * `Corrupt` names file and range.
   */
  download(items: Items<DownloadItem>, options?: TransferOptions): Promise<void>;
  /**
   * Reads and compares. Damaged or missing files are reported, not thrown. Other errors, such as an
   * unreachable store, are thrown.
   */
  verify(items: Items<VerifyItem>, options?: TransferOptions): Promise<VerifyReport>;
  /**
   * The bytes of one file in order, each verified before it is returned, in chunks of at least one
   * part. A few chunks are read ahead, outside the pool: at most a quarter of `bufferBytes` for all
   * streams together. The reader owns each chunk. Nothing is read before the first `read()`.
   * `part`: only these bytes, which lie in the file; the parts at its ends are read whole.
   */
  stream(
    file: StoredFile,
    options?: TransferOptions & { readonly part?: InputStreamOptions | undefined },
  ): ReadableStream<Uint8Array>;
  /**
   * The bytes of one file at any position, unverified until `assertUnchanged`; see
   * `Checkpoint.openSource`. `Corrupt`: the record contradicts itself.
   */
  source(file: StoredFile, options?: Pick<TransferOptions, 'signal' | 'onRetry'>): RandomSource;
  /** As `source`, for an object without a record; see `openObjectSource`. */
  objectSource(key: string, options?: Pick<TransferOptions, 'signal' | 'onRetry'>): Promise<RandomSource>;
  /**
   * Offers stored files to uploads of another `Transfers`, until `end`. Reading counts among the
   * requests of this one, and is repeated by its rules; the memory is that of the other. A failed
   * upload ends the loan: its other reads stop too.
   */
  lend(options?: Pick<TransferOptions, 'signal' | 'onRetry'>): FileLoan;
  /**
   * Stops all calls (`Aborted`), waits for them to settle and releases the memory. Store requests
   * delay it by less than a second; a source or sink may delay it longer. The store stays open.
   * Safe to call again.
   */
  close(): Promise<void>;
}

export interface FileLoan {
  lend(file: StoredFile): LentFile;
  /** Call it after the uploads have settled. */
  end(): Promise<void>;
}

export interface MemoryUse {
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** The most that was ever in use at once. */
  readonly peakBytes: number;
}

export interface UploadItem {
  /** Logical name, for messages and progress. */
  readonly name: string;
  /** Called once for each try to send the object. It must return a new key each time. */
  readonly key: () => string;
  readonly source: UploadSource;
  /**
   * As `key`, for a lent file that the store can copy by itself. An object that was not compared
   * may be left under such a key. Absent: the store is not asked to copy.
   */
  readonly copyKey?: (() => string) | undefined;
  /**
   * Files that the store has already. A file equal to one of them is not sent, if that one may be
   * referred to. A file is hashed only as far as it has the checksums of one of them. Absent: the
   * file is sent and not hashed. Streams are always sent, and lent files copied or sent: neither
   * are hashed.
   */
  readonly known?: KnownFiles | undefined;
  /**
   * Other processes may send to an upload of this file while it is in progress. The finished object
   * is then compared with the source as a whole. If it differs or is gone, the file is sent again
   * under a fresh key. Default: true only for an upload that another process left.
   */
  readonly isShared?: boolean | undefined;
  /**
   * An upload in parts has begun. No part is sent before this resolves. If it rejects, the upload
   * is aborted and the try fails with that error. `signal`: the caller has stopped, or another
   * file has failed.
   */
  readonly onBegun?:
    | ((
        upload: Upload,
        about: { readonly sizeBytes: number | undefined; readonly signal: AbortSignal },
      ) => Promise<void>)
    | undefined;
  /**
   * Returns uploads of this file that a former process has left, one per call; `undefined`: no
   * more. Called before an upload of known size is begun. A resumed upload keeps the parts that are
   * equal to the source, and `onBegun` is not called for it.
   */
  readonly takeLeft?:
    | ((about: {
        readonly sizeBytes: number;
        readonly partSizeBytes: number;
        readonly signal: AbortSignal;
      }) => Promise<LeftUpload | undefined>)
    | undefined;
  /**
   * Returns objects that a former process has finished for this file. Called before a file of known
   * size is sent. If one has the CRC32C of the source, it is used and nothing is sent.
   */
  readonly findFinished?:
    | ((about: {
        readonly sizeBytes: number;
        readonly signal: AbortSignal;
      }) => Promise<readonly FinishedObject[]>)
    | undefined;
  /**
   * The object is there, and a former process had sent this many of its bytes. They were compared,
   * and not sent again. More than 0.
   */
  readonly onKept?: ((keptBytes: number) => void) | undefined;
  /**
   * An upload that was passed to `onBegun` or `onResumed` is completed, or its abort is confirmed.
   * Not called if the upload could be neither completed nor aborted.
   */
  readonly onEnded?: ((upload: Upload) => void) | undefined;
}

/** An object of the requested size. */
export interface FinishedObject {
  readonly key: string;
  /** The checksum that the store keeps. */
  readonly crc32c: number;
}

export interface LeftUpload {
  /** See `Upload.token`. */
  readonly token: string;
  /** Key of the object that the upload makes. */
  readonly key: string;
  /** Called when the upload is resumed. From then on this process treats it as its own. */
  readonly onResumed: (upload: Upload) => void;
}

export type UploadSource =
  /** Opened when its turn comes; the transfer closes it. */
  | { open(): Promise<RandomSource> }
  /** Read once, in order. Each chunk is copied before the next one is requested. */
  | { readonly stream: AsyncIterable<Uint8Array> }
  | BytesInMemory
  /**
   * A file of another store. Every byte is compared with its record: `Corrupt` names file and
   * range.
   */
  | { readonly lent: LentFile };

export interface UploadedFile extends StoredFile {
  /** BLAKE3 of the whole file; only if a file of `known` has its checksums. */
  readonly blake3?: Uint8Array | undefined;
  /** The known file that this one is equal to. Nothing was sent: `key` names the known object. */
  readonly known?: KnownFile | undefined;
  /** POSIX permission bits, if the source has them. */
  readonly mode?: number | undefined;
  /** Modification time of the source, if it has one. */
  readonly mtimeMs?: number | undefined;
}

export interface DownloadItem {
  readonly file: StoredFile;
  /** Called when the file's turn comes. The transfer closes the sink, also after a failure. */
  readonly sink: () => Promise<RandomSink>;
}

export interface VerifyItem {
  readonly file: StoredFile;
  /**
   * - 0: size and, if the store keeps it, the checksum of the whole object.
   * - 1: also samples, among them the first and the last part.
   * - 2: every byte.
   */
  readonly level: 0 | 1 | 2;
}

export interface VerifyReport {
  /** Bytes read and compared. */
  readonly bytesRead: number;
  /** Files whose checksum in the store was compared. */
  readonly storedChecksumCount: number;
  /** In the order of the items; empty: no problem. At most 10 per file. */
  readonly problems: readonly { readonly name: string; readonly message: string }[];
}
