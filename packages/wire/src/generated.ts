// Generated from proto/holdfast/v1 by `pnpm --filter @holdfast/wire generate`. Do not edit.

export type CheckpointState = 'CHECKPOINT_STATE_UNSPECIFIED' | 'LIVE' | 'RETIRING' | 'QUARANTINED';

export type Consistency = 'CONSISTENCY_UNSPECIFIED' | 'PAUSED' | 'POLLUTED';

/** R/catalog/{seq, 20 digits}.json: one decision and the whole state after it. The highest is the truth. */
export interface CatalogEntry {
  readonly format?: Format | undefined;
  readonly runId: string;
  /** 1 for the first; grows by one. */
  readonly seq: number;
  /** 128 random bits, hex. */
  readonly entryId: string;
  /** entry_id of seq - 1; empty for the first. */
  readonly parentId: string;
  readonly transaction: Transaction;
  readonly state: State;
}

/**
 * R/pages/{seq, 20 digits}-{first 16 hex digits of its sha256}.json: older checkpoints of the run. Written before the entry `seq` that
 * refers to it; later entries refer to it for as long as nothing in it changes.
 */
export interface CatalogPage {
  readonly format?: Format | undefined;
  readonly runId: string;
  readonly seq: number;
  /** In order of commit. */
  readonly checkpoints: readonly Checkpoint[];
}

/** What the catalog knows of one checkpoint. */
export interface Checkpoint {
  readonly id: CheckpointId;
  readonly manifestKey: string;
  /** SHA-256 of the manifest's bytes, 32 bytes. */
  readonly manifestSha256: Uint8Array;
  readonly sizeBytes: number;
  readonly fileCount: number;
  /** Those of the manifest. What was annotated since stands among them, or in their place. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly state: CheckpointState;
  /** The seq that made it retiring; 0 when it is not. */
  readonly retiringSeq: number;
  /** Labels of people who want it kept. */
  readonly pins: readonly string[];
  /** Every byte was read and matched. */
  readonly verified: boolean;
  /** Looks stale: files that should have changed did not. */
  readonly suspect: boolean;
  /** Why it is retiring, quarantined or suspect. */
  readonly reason: string;
  /** The store's own clock shortly before the commit, milliseconds since 1970. Rules by age count from it. */
  readonly committedAtMs: number;
  readonly bases: readonly CheckpointId[];
  /** A rollback went back to before it: kept, but no longer on the path that `latest` and `get` look at. */
  readonly rolledBack: boolean;
  /** The store's own clock when it was retired; 0 when it is not retiring. */
  readonly retiringAtMs: number;
  /** Of size_bytes: what was sent for this checkpoint. The rest lies in objects of its bases. */
  readonly storedBytes: number;
  /** While it is retiring: how long from retiring_at_ms it can be taken back. */
  readonly graceMs: number;
  /** Metadata that was annotated after the commit. The manifest has what was saved; a name that both have is read from here. */
  readonly annotatedMetadata: Readonly<Record<string, string>>;
}

/** The whole name of a checkpoint. A version alone is not one: numbers repeat after a rollback. */
export interface CheckpointId {
  /** Grows by one at each rollback; the first is 1. */
  readonly lineage: number;
  /** Grows by one each time an incarnation of the job takes the run over; the first is 1. */
  readonly epoch: number;
  /** The trainer's step, 0 to 2^63 - 1. */
  readonly version: bigint;
}

/** R/writers/{lineage}.{epoch}/{writer}.{incarnation}.json: one life of one writer. */
export interface Claim {
  readonly format?: Format | undefined;
  readonly writer: number;
  readonly incarnation: number;
  /** 128 random bits, hex: tells one's own claim from another's after a lost reply. */
  readonly nonce: string;
  /** Informational: host and process id, for people who look for a lost writer. */
  readonly host: string;
  readonly pid: number;
  /**
   * Name of the trainer's process on whose behalf this one acts. Several processes of one life are one writer:
   * they share this incarnation. Absent: the process is a life by itself.
   */
  readonly life: string;
}

/** A directory in which its writer saved nothing. A restore makes it all the same. */
export interface Directory {
  /** As the name of a file. */
  readonly name: string;
  /** As of a file. */
  readonly mtimeMs: number;
}

/** One file of a checkpoint and where its bytes lie. */
export interface File {
  /** Relative path inside the checkpoint: segments joined by '/', no empty, '.' or '..' segment. */
  readonly name: string;
  /** Key of the payload object, relative to the run. */
  readonly key: string;
  readonly sizeBytes: number;
  /** CRC32C of the whole file. */
  readonly crc32c: number;
  /** The file was checksummed in parts of this size, the last one shorter; 0 for an empty file. */
  readonly partSizeBytes: number;
  /** CRC32C of each part, 4 bytes each, big-endian. */
  readonly partCrc32c: Uint8Array;
  /** BLAKE3 of the whole file, 32 bytes, when it was computed. */
  readonly blake3: Uint8Array;
  /** POSIX permission bits (0 to 0777) of the source file; 0 when it had none (buffers, streams). */
  readonly mode: number;
  /**
   * When the source file was last modified, by its file system, milliseconds since 1970; 0 when it had no such time (buffers,
   * streams). Informational. A record that has one is of minor 2 at least, a file list of minor 1.
   */
  readonly mtimeMs: number;
}

/**
 * R/version_{v}/{lineage}.{epoch}/files/{writer}.{incarnation}-{first 16 hex digits of its sha256}.json:
 * some of the files of one writer, whose receipt refers to this list instead of holding them. Always of major 2.
 */
export interface FileList {
  readonly format?: Format | undefined;
  readonly id: CheckpointId;
  readonly writer: number;
  readonly incarnation: number;
  /** Sorted by name, bytewise. At least one. */
  readonly files: readonly File[];
}

/** A file list of the same writer. Its key follows from the receipt and the digest. */
export interface FileListRef {
  /** SHA-256 of the list's bytes, 32 bytes. */
  readonly sha256: Uint8Array;
  readonly fileCount: number;
  /** Of all its files together. */
  readonly sizeBytes: number;
  /** Names of its first and its last file. */
  readonly firstName: string;
  readonly lastName: string;
}

/** What a record is and which rules it follows. */
export interface Format {
  /** "run", "catalog-entry", "catalog-page", "claim", "receipt", "file-list", "manifest", "read-lease", "upload" or "grant". */
  readonly kind: string;
  /** A reader refuses a major above its own. */
  readonly major: number;
  /** A reader carries along what a higher minor added. */
  readonly minor: number;
}

/**
 * R/elections/{seq, 20 digits}.json: one trainer may export the model for a while. The highest number counts.
 * Nothing is deleted to end it: it ends when others have seen it unchanged for long enough.
 */
export interface Grant {
  readonly format?: Format | undefined;
  /** The number in the key; the first is 1. */
  readonly seq: number;
  /** 128 random bits, hex: tells one's own grant from another's after a lost reply. */
  readonly id: string;
  readonly trainerId: string;
  readonly blockMs: number;
  /** Informational. */
  readonly host: string;
  readonly pid: number;
}

/** The best n by a metric; those without it do not count. */
export interface KeepBest {
  readonly metric: string;
  /** High values are good; else low ones. */
  readonly highest: boolean;
  readonly count: number;
}

/**
 * R/version_{v}/{lineage}.{epoch}/manifest-{first 16 hex digits of its sha256}.json: all files of one checkpoint.
 * A pure function of the receipts: every builder writes the same bytes, so it holds no time but those of receipts.
 */
export interface Manifest {
  readonly format?: Format | undefined;
  readonly id: CheckpointId;
  readonly worldSize: number;
  /** One per writer, in writer order. */
  readonly writers: readonly WriterShare[];
  /** Union over the receipts, sorted by lineage, epoch, version. */
  readonly bases: readonly CheckpointId[];
  /** Union over the receipts; where two name the same key, the lowest writer's value stands. */
  readonly metrics: Readonly<Record<string, number>>;
  readonly metadata: Readonly<Record<string, string>>;
  /** Of all receipts, in writer order, without repeats. */
  readonly suspicions: readonly string[];
  /**
   * One per writer, in writer order; then all but `id` and `world_size` is empty, and the receipts say it. A manifest that has them is of
   * major 2: an older reader would miss the files.
   */
  readonly receipts: readonly ReceiptRef[];
}

/**
 * Where checkpoints lie that a state no longer holds itself: R/pages/{seq, 20 digits}-{first 16 hex digits of sha256}.json.
 * The counts answer what a decision asks of all checkpoints without reading the page.
 */
export interface PageRef {
  /** Number of the entry that was the first to refer to it. */
  readonly seq: number;
  /** SHA-256 of the page's bytes, 32 bytes. */
  readonly sha256: Uint8Array;
  /** The oldest and the newest checkpoint in it, in order of commit. */
  readonly first: CheckpointId;
  readonly last: CheckpointId;
  readonly count: number;
  readonly liveCount: number;
  /** Of the live ones: those that were verified. */
  readonly liveVerifiedCount: number;
  /** Of the live ones: those that no rollback has left behind. */
  readonly livePathCount: number;
  /** Highest version in it that no rollback has left behind; -1 when there is none. */
  readonly topOnPath: bigint;
}

/** Which checkpoints retention keeps: each one that any rule keeps. No rule at all keeps everything. */
export interface Policy {
  /** The newest n; 0: this rule is absent. */
  readonly keepLast: number;
  /** Versions that are multiples of it; 0: absent. */
  readonly keepEvery: bigint;
  /** The first of each such span of the store's time; 0: absent. */
  readonly keepEveryMs: number;
  /** Those committed no longer ago, by the store's time; 0: absent. */
  readonly keepForMs: number;
  readonly keepBest: readonly KeepBest[];
  /** What these rules retire can be taken back for so long. */
  readonly graceMs: number;
}

/**
 * R/leases/{version}.{lineage}.{epoch}/{reader}-{nonce}.json: a reader protects one checkpoint for a while.
 * It ends ttl_ms after the store's own time of the object; a renewal is a new object.
 */
export interface ReadLease {
  readonly format?: Format | undefined;
  readonly id: CheckpointId;
  readonly reader: string;
  readonly ttlMs: number;
  /** Informational. */
  readonly host: string;
  readonly pid: number;
}

/**
 * R/version_{v}/{lineage}.{epoch}/receipts/{writer}.{incarnation}.json:
 * this writer's files of this version are durable.
 */
export interface Receipt {
  readonly format?: Format | undefined;
  readonly id: CheckpointId;
  readonly writer: number;
  readonly incarnation: number;
  readonly worldSize: number;
  /** Sorted by name, bytewise. */
  readonly files: readonly File[];
  /** Live checkpoints whose objects this receipt refers to instead of sending the bytes again. */
  readonly bases: readonly CheckpointId[];
  /** Measurements of the trainer, for choosing the best checkpoint. */
  readonly metrics: Readonly<Record<string, number>>;
  /** Free text of the caller. */
  readonly metadata: Readonly<Record<string, string>>;
  /** In words, what makes this writer's files look stale; empty: nothing does. */
  readonly suspicions: readonly string[];
  /** Absent: the writer said nothing. A record that has it is of minor 1 at least. */
  readonly taken?: Taken | undefined;
  /**
   * In the order of their files, which this writer delivered; then `files` is empty. A receipt that has one is of major 2: an older
   * reader would miss the files.
   */
  readonly fileLists: readonly FileListRef[];
  /** Sorted by name, bytewise. A receipt that has one is of minor 2 at least. */
  readonly directories: readonly Directory[];
}

/** The receipt of the writer at this place in the list. Its key follows from the id, the place and the incarnation. */
export interface ReceiptRef {
  readonly incarnation: number;
  /** SHA-256 of the receipt's bytes, 32 bytes. */
  readonly sha256: Uint8Array;
  readonly fileCount: number;
  /** Of all its files together. */
  readonly sizeBytes: number;
  /** Names of its first and its last file, each cut to the bytes that docs/format.md says; empty where there is no file. */
  readonly firstName: string;
  readonly lastName: string;
  /** Of the receipt's `directories`, whose names may lie outside these two. A manifest that has one is of minor 2 at least. */
  readonly directoryCount: number;
}

/** A checkpoint that is gone, remembered so that a late finaliser learns the truth. */
export interface Removed {
  readonly id: CheckpointId;
  readonly manifestSha256: Uint8Array;
}

/** The highest removed checkpoint that fell off the ring. */
export interface RemovedFloor {
  readonly lineage: number;
  readonly version: bigint;
}

/** R/run.json: written once, by whoever saves first. */
export interface Run {
  readonly format?: Format | undefined;
  /** 128 random bits, hex. Every catalog entry repeats it. */
  readonly runId: string;
  /** The retention rules in force until a catalog entry says otherwise. */
  readonly policy?: Policy | undefined;
  /** Informational: the creator's clock, milliseconds since 1970. */
  readonly createdAtMs: number;
}

export interface State {
  readonly lineage: number;
  readonly epoch: number;
  /** The incarnation of the job that owns the epoch. */
  readonly attempt: string;
  /** The attempt was drawn by its only process and needs no entry in past_attempts. */
  readonly attemptDrawn: boolean;
  /** First 8 bytes of the SHA-256 of each of the last 4,096 attempts given from outside, hex, oldest first. */
  readonly pastAttempts: readonly string[];
  readonly worldSize: number;
  /** Registered incarnation of each writer; a writer not named has 0. */
  readonly incarnations: Readonly<Record<string, number>>;
  /** What readers are offered; absent when there is none. */
  readonly latest?: CheckpointId | undefined;
  /** Highest version ever committed in this lineage (after a rollback: the version gone back to); -1 when none. */
  readonly top: bigint;
  /** The newest ones, and always `latest` and `resumed_from`; the others lie in pages. In order of commit. */
  readonly checkpoints: readonly Checkpoint[];
  readonly abandoned: readonly CheckpointId[];
  /** The last 256, oldest first. */
  readonly removedRing: readonly Removed[];
  readonly removedFloor?: RemovedFloor | undefined;
  /** Ids of the last 256 transactions, oldest first, the entry's own last. */
  readonly txnRing: readonly string[];
  /** The retention rules of the run; absent: everything is kept. */
  readonly policy?: Policy | undefined;
  /**
   * What a restart of the present attempt would have loaded: `latest` as it was when the attempt took the run over, or the target of a
   * rollback. Retention leaves it alone.
   */
  readonly resumedFrom?: CheckpointId | undefined;
  /** Oldest first; no two overlap. An entry that has one is of major 2: an older reader would miss checkpoints. */
  readonly pages: readonly PageRef[];
  /**
   * Keys of manifests that a rebuild of the catalog could not read and was told to skip. What they refer to is not known, so no sweep
   * deletes anything of their checkpoints or of older ones. A state that has any is of major 2: an older reader would sweep.
   */
  readonly skippedManifests: readonly string[];
}

/** What a writer said of its state when its bytes were taken. */
export interface Taken {
  readonly consistency: Consistency;
  /** Of the writer's own state, 0 to 2^63 - 1; that of the checkpoint if it was paused. */
  readonly stateVersion: bigint;
  /** Informational: the writer's clock just before the first byte was read, milliseconds since 1970. */
  readonly takenAtMs: number;
}

/** What changed the catalog: the log that people read. */
export interface Transaction {
  /** 128 random bits, hex; also in the ring of the state. */
  readonly id: string;
  /**
   * takeover, register, commit, abandon, verify, quarantine, retire, unretire, remove, pin, unpin, annotate, rollback, policy, rebuild,
   * release.
   */
  readonly kind: string;
  /** Of the state after it. */
  readonly lineage: number;
  readonly epoch: number;
  /** The checkpoint it is about, where it is about one. */
  readonly checkpoint?: CheckpointId | undefined;
  readonly reason: string;
  /** Informational: who and when. */
  readonly host: string;
  readonly pid: number;
  readonly atMs: number;
  /** The attempt that owns the run after it. */
  readonly attempt: string;
  /** The checkpoints of a decision that is taken on several at once: retire, unretire, remove. */
  readonly checkpoints: readonly CheckpointId[];
}

/** R/uploads/{id}.json: a multipart upload that is under way, written before its first part. */
export interface Upload {
  readonly format?: Format | undefined;
  readonly id: CheckpointId;
  readonly writer: number;
  readonly incarnation: number;
  /** Key of the payload object it will make. */
  readonly key: string;
  /** The store's own token, to resume or abort it. */
  readonly token: string;
  readonly partSizeBytes: number;
  /** -1 when the source's length is not known. */
  readonly sizeBytes: number;
  readonly name: string;
}

/** One writer's share of a checkpoint, as its receipt told it. */
export interface WriterShare {
  readonly writer: number;
  readonly incarnation: number;
  readonly receiptKey: string;
  /** SHA-256 of the receipt's bytes, 32 bytes. */
  readonly receiptSha256: Uint8Array;
  /** Sorted by name, bytewise. */
  readonly files: readonly File[];
  /** Absent: the writer said nothing. A manifest in which one did is of minor 1 at least. */
  readonly taken?: Taken | undefined;
  /** As in the receipt. A manifest of which a share has one is of minor 2 at least. */
  readonly directories: readonly Directory[];
}

/** A field as the codec sees it. `int64-number` is a safe integer, `int64-bigint` a bigint; `mapKey` makes it a map. */
export interface FieldSchema {
  /** In TypeScript and in JSON. */
  readonly name: string;
  readonly kind: 'scalar' | 'enum' | 'message';
  /** A scalar type, or the name of an enum or message. */
  readonly type: string;
  readonly repeated?: boolean;
  readonly mapKey?: 'string' | 'uint32';
  /** A message field that is never absent. */
  readonly required?: boolean;
}

/** Values of each enum; the first is the default. */
export const ENUMS: Readonly<Record<string, readonly string[]>> = {
  CheckpointState: ['CHECKPOINT_STATE_UNSPECIFIED', 'LIVE', 'RETIRING', 'QUARANTINED'],
  Consistency: ['CONSISTENCY_UNSPECIFIED', 'PAUSED', 'POLLUTED'],
};

/** Fields of each message, in the order of the .proto. */
export const MESSAGES: Readonly<Record<string, readonly FieldSchema[]>> = {
  CatalogEntry: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'runId', kind: 'scalar', type: 'string' },
    { name: 'seq', kind: 'scalar', type: 'int64-number' },
    { name: 'entryId', kind: 'scalar', type: 'string' },
    { name: 'parentId', kind: 'scalar', type: 'string' },
    { name: 'transaction', kind: 'message', type: 'Transaction', required: true },
    { name: 'state', kind: 'message', type: 'State', required: true },
  ],
  CatalogPage: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'runId', kind: 'scalar', type: 'string' },
    { name: 'seq', kind: 'scalar', type: 'int64-number' },
    { name: 'checkpoints', kind: 'message', type: 'Checkpoint', repeated: true },
  ],
  Checkpoint: [
    { name: 'id', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'manifestKey', kind: 'scalar', type: 'string' },
    { name: 'manifestSha256', kind: 'scalar', type: 'bytes' },
    { name: 'sizeBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'fileCount', kind: 'scalar', type: 'int64-number' },
    { name: 'metrics', kind: 'scalar', type: 'double', mapKey: 'string' },
    { name: 'state', kind: 'enum', type: 'CheckpointState' },
    { name: 'retiringSeq', kind: 'scalar', type: 'int64-number' },
    { name: 'pins', kind: 'scalar', type: 'string', repeated: true },
    { name: 'verified', kind: 'scalar', type: 'bool' },
    { name: 'suspect', kind: 'scalar', type: 'bool' },
    { name: 'reason', kind: 'scalar', type: 'string' },
    { name: 'committedAtMs', kind: 'scalar', type: 'int64-number' },
    { name: 'bases', kind: 'message', type: 'CheckpointId', repeated: true },
    { name: 'rolledBack', kind: 'scalar', type: 'bool' },
    { name: 'retiringAtMs', kind: 'scalar', type: 'int64-number' },
    { name: 'storedBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'graceMs', kind: 'scalar', type: 'int64-number' },
    { name: 'annotatedMetadata', kind: 'scalar', type: 'string', mapKey: 'string' },
  ],
  CheckpointId: [
    { name: 'lineage', kind: 'scalar', type: 'uint32' },
    { name: 'epoch', kind: 'scalar', type: 'uint32' },
    { name: 'version', kind: 'scalar', type: 'int64-bigint' },
  ],
  Claim: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'writer', kind: 'scalar', type: 'uint32' },
    { name: 'incarnation', kind: 'scalar', type: 'uint32' },
    { name: 'nonce', kind: 'scalar', type: 'string' },
    { name: 'host', kind: 'scalar', type: 'string' },
    { name: 'pid', kind: 'scalar', type: 'uint32' },
    { name: 'life', kind: 'scalar', type: 'string' },
  ],
  Directory: [
    { name: 'name', kind: 'scalar', type: 'string' },
    { name: 'mtimeMs', kind: 'scalar', type: 'int64-number' },
  ],
  File: [
    { name: 'name', kind: 'scalar', type: 'string' },
    { name: 'key', kind: 'scalar', type: 'string' },
    { name: 'sizeBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'crc32c', kind: 'scalar', type: 'uint32' },
    { name: 'partSizeBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'partCrc32c', kind: 'scalar', type: 'bytes' },
    { name: 'blake3', kind: 'scalar', type: 'bytes' },
    { name: 'mode', kind: 'scalar', type: 'uint32' },
    { name: 'mtimeMs', kind: 'scalar', type: 'int64-number' },
  ],
  FileList: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'id', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'writer', kind: 'scalar', type: 'uint32' },
    { name: 'incarnation', kind: 'scalar', type: 'uint32' },
    { name: 'files', kind: 'message', type: 'File', repeated: true },
  ],
  FileListRef: [
    { name: 'sha256', kind: 'scalar', type: 'bytes' },
    { name: 'fileCount', kind: 'scalar', type: 'int64-number' },
    { name: 'sizeBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'firstName', kind: 'scalar', type: 'string' },
    { name: 'lastName', kind: 'scalar', type: 'string' },
  ],
  Format: [
    { name: 'kind', kind: 'scalar', type: 'string' },
    { name: 'major', kind: 'scalar', type: 'uint32' },
    { name: 'minor', kind: 'scalar', type: 'uint32' },
  ],
  Grant: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'seq', kind: 'scalar', type: 'int64-number' },
    { name: 'id', kind: 'scalar', type: 'string' },
    { name: 'trainerId', kind: 'scalar', type: 'string' },
    { name: 'blockMs', kind: 'scalar', type: 'int64-number' },
    { name: 'host', kind: 'scalar', type: 'string' },
    { name: 'pid', kind: 'scalar', type: 'uint32' },
  ],
  KeepBest: [
    { name: 'metric', kind: 'scalar', type: 'string' },
    { name: 'highest', kind: 'scalar', type: 'bool' },
    { name: 'count', kind: 'scalar', type: 'uint32' },
  ],
  Manifest: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'id', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'worldSize', kind: 'scalar', type: 'uint32' },
    { name: 'writers', kind: 'message', type: 'WriterShare', repeated: true },
    { name: 'bases', kind: 'message', type: 'CheckpointId', repeated: true },
    { name: 'metrics', kind: 'scalar', type: 'double', mapKey: 'string' },
    { name: 'metadata', kind: 'scalar', type: 'string', mapKey: 'string' },
    { name: 'suspicions', kind: 'scalar', type: 'string', repeated: true },
    { name: 'receipts', kind: 'message', type: 'ReceiptRef', repeated: true },
  ],
  PageRef: [
    { name: 'seq', kind: 'scalar', type: 'int64-number' },
    { name: 'sha256', kind: 'scalar', type: 'bytes' },
    { name: 'first', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'last', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'count', kind: 'scalar', type: 'uint32' },
    { name: 'liveCount', kind: 'scalar', type: 'uint32' },
    { name: 'liveVerifiedCount', kind: 'scalar', type: 'uint32' },
    { name: 'livePathCount', kind: 'scalar', type: 'uint32' },
    { name: 'topOnPath', kind: 'scalar', type: 'int64-bigint' },
  ],
  Policy: [
    { name: 'keepLast', kind: 'scalar', type: 'uint32' },
    { name: 'keepEvery', kind: 'scalar', type: 'int64-bigint' },
    { name: 'keepEveryMs', kind: 'scalar', type: 'int64-number' },
    { name: 'keepForMs', kind: 'scalar', type: 'int64-number' },
    { name: 'keepBest', kind: 'message', type: 'KeepBest', repeated: true },
    { name: 'graceMs', kind: 'scalar', type: 'int64-number' },
  ],
  ReadLease: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'id', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'reader', kind: 'scalar', type: 'string' },
    { name: 'ttlMs', kind: 'scalar', type: 'int64-number' },
    { name: 'host', kind: 'scalar', type: 'string' },
    { name: 'pid', kind: 'scalar', type: 'uint32' },
  ],
  Receipt: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'id', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'writer', kind: 'scalar', type: 'uint32' },
    { name: 'incarnation', kind: 'scalar', type: 'uint32' },
    { name: 'worldSize', kind: 'scalar', type: 'uint32' },
    { name: 'files', kind: 'message', type: 'File', repeated: true },
    { name: 'bases', kind: 'message', type: 'CheckpointId', repeated: true },
    { name: 'metrics', kind: 'scalar', type: 'double', mapKey: 'string' },
    { name: 'metadata', kind: 'scalar', type: 'string', mapKey: 'string' },
    { name: 'suspicions', kind: 'scalar', type: 'string', repeated: true },
    { name: 'taken', kind: 'message', type: 'Taken' },
    { name: 'fileLists', kind: 'message', type: 'FileListRef', repeated: true },
    { name: 'directories', kind: 'message', type: 'Directory', repeated: true },
  ],
  ReceiptRef: [
    { name: 'incarnation', kind: 'scalar', type: 'uint32' },
    { name: 'sha256', kind: 'scalar', type: 'bytes' },
    { name: 'fileCount', kind: 'scalar', type: 'int64-number' },
    { name: 'sizeBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'firstName', kind: 'scalar', type: 'string' },
    { name: 'lastName', kind: 'scalar', type: 'string' },
    { name: 'directoryCount', kind: 'scalar', type: 'uint32' },
  ],
  Removed: [
    { name: 'id', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'manifestSha256', kind: 'scalar', type: 'bytes' },
  ],
  RemovedFloor: [
    { name: 'lineage', kind: 'scalar', type: 'uint32' },
    { name: 'version', kind: 'scalar', type: 'int64-bigint' },
  ],
  Run: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'runId', kind: 'scalar', type: 'string' },
    { name: 'policy', kind: 'message', type: 'Policy' },
    { name: 'createdAtMs', kind: 'scalar', type: 'int64-number' },
  ],
  State: [
    { name: 'lineage', kind: 'scalar', type: 'uint32' },
    { name: 'epoch', kind: 'scalar', type: 'uint32' },
    { name: 'attempt', kind: 'scalar', type: 'string' },
    { name: 'attemptDrawn', kind: 'scalar', type: 'bool' },
    { name: 'pastAttempts', kind: 'scalar', type: 'string', repeated: true },
    { name: 'worldSize', kind: 'scalar', type: 'uint32' },
    { name: 'incarnations', kind: 'scalar', type: 'uint32', mapKey: 'uint32' },
    { name: 'latest', kind: 'message', type: 'CheckpointId' },
    { name: 'top', kind: 'scalar', type: 'int64-bigint' },
    { name: 'checkpoints', kind: 'message', type: 'Checkpoint', repeated: true },
    { name: 'abandoned', kind: 'message', type: 'CheckpointId', repeated: true },
    { name: 'removedRing', kind: 'message', type: 'Removed', repeated: true },
    { name: 'removedFloor', kind: 'message', type: 'RemovedFloor' },
    { name: 'txnRing', kind: 'scalar', type: 'string', repeated: true },
    { name: 'policy', kind: 'message', type: 'Policy' },
    { name: 'resumedFrom', kind: 'message', type: 'CheckpointId' },
    { name: 'pages', kind: 'message', type: 'PageRef', repeated: true },
    { name: 'skippedManifests', kind: 'scalar', type: 'string', repeated: true },
  ],
  Taken: [
    { name: 'consistency', kind: 'enum', type: 'Consistency' },
    { name: 'stateVersion', kind: 'scalar', type: 'int64-bigint' },
    { name: 'takenAtMs', kind: 'scalar', type: 'int64-number' },
  ],
  Transaction: [
    { name: 'id', kind: 'scalar', type: 'string' },
    { name: 'kind', kind: 'scalar', type: 'string' },
    { name: 'lineage', kind: 'scalar', type: 'uint32' },
    { name: 'epoch', kind: 'scalar', type: 'uint32' },
    { name: 'checkpoint', kind: 'message', type: 'CheckpointId' },
    { name: 'reason', kind: 'scalar', type: 'string' },
    { name: 'host', kind: 'scalar', type: 'string' },
    { name: 'pid', kind: 'scalar', type: 'uint32' },
    { name: 'atMs', kind: 'scalar', type: 'int64-number' },
    { name: 'attempt', kind: 'scalar', type: 'string' },
    { name: 'checkpoints', kind: 'message', type: 'CheckpointId', repeated: true },
  ],
  Upload: [
    { name: 'format', kind: 'message', type: 'Format' },
    { name: 'id', kind: 'message', type: 'CheckpointId', required: true },
    { name: 'writer', kind: 'scalar', type: 'uint32' },
    { name: 'incarnation', kind: 'scalar', type: 'uint32' },
    { name: 'key', kind: 'scalar', type: 'string' },
    { name: 'token', kind: 'scalar', type: 'string' },
    { name: 'partSizeBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'sizeBytes', kind: 'scalar', type: 'int64-number' },
    { name: 'name', kind: 'scalar', type: 'string' },
  ],
  WriterShare: [
    { name: 'writer', kind: 'scalar', type: 'uint32' },
    { name: 'incarnation', kind: 'scalar', type: 'uint32' },
    { name: 'receiptKey', kind: 'scalar', type: 'string' },
    { name: 'receiptSha256', kind: 'scalar', type: 'bytes' },
    { name: 'files', kind: 'message', type: 'File', repeated: true },
    { name: 'taken', kind: 'message', type: 'Taken' },
    { name: 'directories', kind: 'message', type: 'Directory', repeated: true },
  ],
};
