import type {
  Clock,
  Logger,
  ObjectStore,
  Random,
  RandomSink,
  RandomSource,
  Settings,
  Throttle,
  Upload,
} from '../contract/index.ts';
import type { KnownFile, KnownFiles } from '../plan/known-files.ts';
import type { StoredFile } from '../plan/stored-file.ts';
import type { LentFile } from './lent-file.ts';
import type { RetryPolicy } from './retry.ts';

/** Those that come one after the other are asked for as they are needed. */
export type Items<I> = Iterable<I> | AsyncIterable<I>;

export interface TransferParts {
  readonly store: ObjectStore;
  readonly settings: Settings;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** For payload that `upload` sends; absent: no limit. */
  readonly throttle?: Throttle | undefined;
}

/**
 * Moves bytes between sources, one store and sinks, within one byte budget (`settings.bufferBytes`) for all calls together.
 *
 * Every call: the first error stops the rest at once, everything in flight is settled, buffers are back in the pool, sources and sinks
 * are closed, and only then that first error is thrown. A caller's signal is such an error (`Aborted`). A call that the store does not
 * end even after it was told to stop is left behind: after a second `stallTimeoutMs`, or after half a second if the caller has stopped.
 * Its buffer stays out of use until it ends.
 */
export interface Transfer {
  /**
   * The store with `head`, `get`, `readInto`, `list` and `deleteMany` repeated after temporary errors. A listing that breaks is taken up
   * again after the last key it has shown. `create`, `beginUpload` and `resumeUpload` are sent once: the caller knows what may be
   * repeated. All but `readInto` and the uploads are stopped when the store is silent for too long.
   */
  readonly records: ObjectStore;
  /** For a request that is none of `records`, and that its caller repeats with `retrying`: within the budget of this transfer. */
  retryPolicy(what: string, caller: Pick<TransferOptions, 'signal' | 'onRetry'>): RetryPolicy;
  /**
   * So many streams are uploaded at the same time, over all calls; further ones wait unread. Of producers that wait for each other there
   * must be no more than this. At least 1.
   */
  readonly streamCountMax: number;
  /** Of the pool, for figures and tests. */
  readonly memory: MemoryUse;

  /**
   * Sends each item to an object of its own, unless it is like one that is known. Resolves in the order given, when all are durable.
   * Deletes nothing.
   */
  upload(items: readonly UploadItem[], options?: TransferOptions): Promise<UploadedFile[]>;
  /** What `upload` would answer, without sending anything: sources are read (a stream is used up by it), `key` is empty. */
  checksum(items: readonly UploadItem[], options?: TransferOptions): Promise<UploadedFile[]>;
  /** Reads each file, compares every byte with its checksum, and only then writes it to its sink. `Corrupt` names file and range. */
  download(items: Items<DownloadItem>, options?: TransferOptions): Promise<void>;
  /** Reads and compares; what is damaged or missing is reported, not thrown. Other errors (an unreachable store) are thrown. */
  verify(items: Items<VerifyItem>, options?: TransferOptions): Promise<VerifyReport>;
  /**
   * The bytes of one file in order, each verified before it is handed out, in chunks of at least one part. A few are read ahead, outside
   * the pool: at most a quarter of `bufferBytes` for all streams together. A chunk is the reader's own. Nothing is read before the first
   * `read()`.
   */
  stream(file: StoredFile, options?: TransferOptions): ReadableStream<Uint8Array>;
  /**
   * The bytes of one file at any position, not compared before `assertUnchanged`; see `Checkpoint.openSource`. `Corrupt`: the record does
   * not hold together.
   */
  source(file: StoredFile, options?: Pick<TransferOptions, 'signal' | 'onRetry'>): RandomSource;
  /** The same of an object without a record; see `openObjectSource`. */
  objectSource(key: string, options?: Pick<TransferOptions, 'signal' | 'onRetry'>): Promise<RandomSource>;
  /**
   * Offers stored files to uploads of another transfer, until `end`. They are read in turns of this transfer, with its repeats, into the
   * memory of the other. An upload that fails ends the loan: its other reads stop too.
   */
  lend(options?: Pick<TransferOptions, 'signal' | 'onRetry'>): Loan;
  /**
   * Stops what is under way (`Aborted`), waits for it to settle and gives the memory back. No request to the store keeps it waiting for a
   * second; a source or sink may. The store stays open. Safe to call again.
   */
  close(): Promise<void>;
}

export interface Loan {
  lend(file: StoredFile): LentFile;
  /** After the uploads have settled. */
  end(): Promise<void>;
}

export interface MemoryUse {
  readonly totalBytes: number;
  readonly freeBytes: number;
  /** Most that was ever in use at once. */
  readonly peakBytes: number;
}

export interface UploadItem {
  /** Logical name, for messages and progress. */
  readonly name: string;
  /** Called once for each attempt to send the object; a key that was never used before, each time. */
  readonly key: () => string;
  readonly source: UploadSource;
  /**
   * The same for a lent file that the store copies by itself, where it can; absent: it is not asked. Under such a key an object may be
   * left that was not compared.
   */
  readonly copyKey?: (() => string) | undefined;
  /**
   * Files that are there already: one like any of them is not sent. Absent: it is sent, and no BLAKE3 is computed. Streams are hashed, and
   * always sent. Lent files are neither hashed nor compared.
   */
  readonly known?: KnownFiles | undefined;
  /**
   * Other processes may send to an upload of this file while it is under way. So what became of it is compared with the source as a
   * whole, and where it is something else, or gone, the file is sent again under a fresh key. Default: only where it was left by another.
   */
  readonly isShared?: boolean | undefined;
  /**
   * An upload in parts has begun. No part is sent before this resolves; if it rejects, the upload is aborted and the error is the
   * attempt's own. `signal`: the caller has stopped, or another file has failed.
   */
  readonly onBegun?:
    | ((
        upload: Upload,
        about: { readonly sizeBytes: number | undefined; readonly signal: AbortSignal },
      ) => Promise<void>)
    | undefined;
  /**
   * Uploads of this file that a former process has left, one at each call; `undefined`: there are no more. Asked before an upload of known
   * size is begun. One that can be gone on with keeps the parts that are what the source holds, and `onBegun` is not called for it.
   */
  readonly takeLeft?:
    | ((about: {
        readonly sizeBytes: number;
        readonly partSizeBytes: number;
        readonly signal: AbortSignal;
      }) => Promise<LeftUpload | undefined>)
    | undefined;
  /**
   * Objects that a former process has finished for this file. Asked before a file of known size is sent: one with the CRC32C of the source is
   * taken, and nothing is sent.
   */
  readonly findFinished?:
    | ((about: {
        readonly sizeBytes: number;
        readonly signal: AbortSignal;
      }) => Promise<readonly FinishedObject[]>)
    | undefined;
  /** The object is there, and so many of its bytes were left by a former process: they were compared, and not sent. More than 0. */
  readonly onKept?: ((keptBytes: number) => void) | undefined;
  /** An upload that `onBegun` or `onResumed` was told of is completed, or aborted and confirmed so; of one that can be neither, nothing more is heard. */
  readonly onEnded?: ((upload: Upload) => void) | undefined;
}

/** Of the size that was asked for. */
export interface FinishedObject {
  readonly key: string;
  /** As the store keeps it. */
  readonly crc32c: number;
}

export interface LeftUpload {
  /** See `Upload.token`. */
  readonly token: string;
  /** Of the object that it makes. */
  readonly key: string;
  /** From now on it is as one that was begun by this process. */
  readonly onResumed: (upload: Upload) => void;
}

export type UploadSource =
  /** Opened when its turn comes and closed by the transfer. */
  | { open(): Promise<RandomSource> }
  /** Read once, in order. Chunks are copied before the next one is asked for. */
  | { readonly stream: AsyncIterable<Uint8Array> }
  | { readonly bytes: Uint8Array }
  /** A file of another store. Every byte is compared with its record: `Corrupt` names file and range. */
  | { readonly lent: LentFile };

export interface UploadedFile extends StoredFile {
  /** Of the whole file; where `known` was given. */
  readonly blake3?: Uint8Array | undefined;
  /** It was not sent, for this one is like it: `key` is of its object. */
  readonly known?: KnownFile | undefined;
  /** POSIX permission bits, where the source has some. */
  readonly mode?: number | undefined;
  /** As of its source, where that has one. */
  readonly mtimeMs?: number | undefined;
}

export interface DownloadItem {
  readonly file: StoredFile;
  /** Called when the file's turn comes; the transfer closes what it resolves to, also after a failure. */
  readonly sink: () => Promise<RandomSink>;
}

export interface VerifyItem {
  readonly file: StoredFile;
  /** 0: size and, where the store tells it, its checksum of the whole; 1: samples too, the first and the last part among them; 2: every byte. */
  readonly level: 0 | 1 | 2;
}

export interface VerifyReport {
  /** Bytes read and compared. */
  readonly bytesRead: number;
  /** Files of which the store told its own checksum, which was compared. */
  readonly storedChecksumCount: number;
  /** In the order of the items; empty: all is well. At most 10 of one file. */
  readonly problems: readonly { readonly name: string; readonly message: string }[];
}

export interface TransferOptions {
  readonly signal?: AbortSignal | undefined;
  /** After `signal` has fired all requests end within a second, those that tidy up included. Default: tidying up may take seconds. */
  readonly endsFast?: boolean | undefined;
  /**
   * Bytes of `name` that are in the store, or verified and written. Never goes back; the last call of a file, once it is complete, has
   * `doneBytes` equal to `totalBytes`, and no other has. Of a stream, `totalBytes` is unknown (`doneBytes + 1` at least) until it ends.
   */
  readonly onBytes?: ((name: string, doneBytes: number, totalBytes: number) => void) | undefined;
  /** A request is about to be repeated; in words, why. */
  readonly onRetry?: ((detail: string) => void) | undefined;
}
