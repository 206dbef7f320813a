/**
 * Rules for field values beyond their types. They are checked when a record is written and again
 * when it is read. Code that uses a decoded record can therefore rely on them: no file has a
 * negative size, and no name leads out of its directory.
 */

import type { Checkpoint, File, FileList, Manifest, Receipt, Taken, WriterShare } from '@holdfast/wire';
import {
  compareUtf8,
  DIRECTORY_COUNT_MAX,
  LEASE_TTL_MS_MAX,
  LIFE_ACCEPTED,
  lifeProblem,
  SPAN_MS_MAX,
  TIME_MS_MAX,
  WORLD_SIZE_MAX,
} from '../contract/index.ts';
import { parseManifestKey, parsePayloadKey } from './keys.ts';
import { logicalNameProblem } from './logical-name.ts';

/** A file, or a record part that refers to files. Absent fields have their defaults. */
type Sized = Partial<Pick<File, 'sizeBytes'>>;

export interface FieldRule {
  readonly accepted: string;
  holds(value: unknown): boolean;
}

const atLeast = (least: number): FieldRule => ({
  accepted: `at least ${least}`,
  holds: (value) => (value as number | bigint) >= least,
});

const within = (least: number, most: number): FieldRule => ({
  accepted: `at least ${least} and at most ${most}`,
  holds: (value) => (value as number) >= least && (value as number) <= most,
});

const SPAN = within(0, SPAN_MS_MAX);
/** Times that every calendar library can represent, also after a span is added. */
const TIME = within(0, TIME_MS_MAX);
const WORLD_SIZE = within(1, WORLD_SIZE_MAX);
const WRITER = within(0, WORLD_SIZE_MAX - 1);

/** 30,000 years at a thousand decisions a second. Numbers somewhat above it are exact too. */
export const SEQ_MAX = 10 ** 15;

/** Maximum time for which an election may block the run. */
const BLOCK_MS_MAX = 7 * 24 * 60 * 60_000;

const SHA256: FieldRule = {
  accepted: '32 bytes',
  holds: (value) => (value as Uint8Array).length === 32,
};

const NAME: FieldRule = {
  accepted: "a relative path without empty, '.' and '..' segments, control characters and backslashes",
  holds: (value) => logicalNameProblem(value as string) === null,
};

const MANIFEST_KEY: FieldRule = {
  accepted: 'the key of a manifest',
  holds: (value) => parseManifestKey(value as string) !== null,
};

/**
 * By message and field. Applied to every value, including defaults, and to each element of a
 * repeated field.
 */
export const FIELD_RULES: Readonly<Record<string, FieldRule>> = {
  'CatalogEntry.seq': within(1, SEQ_MAX),
  'CatalogPage.seq': within(1, SEQ_MAX),
  'Checkpoint.committedAtMs': TIME,
  'Checkpoint.fileCount': atLeast(0),
  'Checkpoint.graceMs': SPAN,
  'Checkpoint.manifestKey': MANIFEST_KEY,
  'Checkpoint.manifestSha256': SHA256,
  'Checkpoint.retiringSeq': atLeast(0),
  'Checkpoint.retiringAtMs': TIME,
  'Checkpoint.sizeBytes': atLeast(0),
  'Checkpoint.state': {
    accepted: 'LIVE, RETIRING or QUARANTINED',
    holds: (value) => (value as Checkpoint['state']) !== 'CHECKPOINT_STATE_UNSPECIFIED',
  },
  'Checkpoint.storedBytes': atLeast(0),
  'CheckpointId.version': atLeast(0),
  'Claim.life': {
    accepted: `${LIFE_ACCEPTED}, or none`,
    holds: (value) => value === '' || lifeProblem(value as string) === null,
  },
  'Claim.writer': WRITER,
  'Directory.mtimeMs': TIME,
  'Directory.name': NAME,
  'File.blake3': {
    accepted: '32 bytes or none',
    holds: (value) => [0, 32].includes((value as Uint8Array).length),
  },
  'File.key': {
    accepted: 'the key of a payload',
    holds: (value) => parsePayloadKey(value as string) !== null,
  },
  'File.mode': { accepted: 'permission bits, 0 to 0777 octal', holds: (value) => (value as number) <= 0o777 },
  'File.mtimeMs': TIME,
  'File.name': NAME,
  'File.partSizeBytes': atLeast(0),
  'File.sizeBytes': atLeast(0),
  'FileListRef.fileCount': atLeast(1),
  'FileListRef.firstName': NAME,
  'FileListRef.lastName': NAME,
  'FileListRef.sha256': SHA256,
  'FileListRef.sizeBytes': atLeast(0),
  'Grant.blockMs': {
    accepted: `1 to ${BLOCK_MS_MAX}`,
    holds: (value) => (value as number) >= 1 && (value as number) <= BLOCK_MS_MAX,
  },
  'Grant.seq': atLeast(1),
  'FileList.writer': WRITER,
  'KeepBest.count': atLeast(1),
  'Manifest.worldSize': WORLD_SIZE,
  'PageRef.count': atLeast(1),
  'PageRef.seq': within(1, SEQ_MAX),
  'PageRef.sha256': SHA256,
  'PageRef.topOnPath': atLeast(-1),
  'Policy.graceMs': SPAN,
  'Policy.keepEvery': atLeast(0),
  'Policy.keepEveryMs': SPAN,
  'Policy.keepForMs': SPAN,
  'ReadLease.ttlMs': within(1, LEASE_TTL_MS_MAX),
  'Receipt.worldSize': WORLD_SIZE,
  'Receipt.writer': WRITER,
  'ReceiptRef.directoryCount': within(0, DIRECTORY_COUNT_MAX),
  'ReceiptRef.fileCount': atLeast(0),
  'ReceiptRef.sha256': SHA256,
  'ReceiptRef.sizeBytes': atLeast(0),
  'Removed.manifestSha256': SHA256,
  'RemovedFloor.version': atLeast(0),
  'Run.createdAtMs': TIME,
  'State.skippedManifests': MANIFEST_KEY,
  'State.top': atLeast(-1),
  'State.worldSize': WORLD_SIZE,
  'Taken.consistency': {
    accepted: 'PAUSED or POLLUTED',
    holds: (value) => (value as Taken['consistency']) !== 'CONSISTENCY_UNSPECIFIED',
  },
  'Taken.stateVersion': atLeast(0),
  'Taken.takenAtMs': TIME,
  'Transaction.atMs': TIME,
  'Upload.partSizeBytes': atLeast(1),
  'Upload.sizeBytes': atLeast(-1),
  'Upload.writer': WRITER,
  'WriterShare.receiptSha256': SHA256,
  'WriterShare.writer': WRITER,
};

/**
 * Maximum number of elements of a list or map, by message and field. Other fields: as many as the
 * record's limits allow.
 */
export const COUNTS_MAX: Readonly<Record<string, number>> = {
  'Receipt.directories': DIRECTORY_COUNT_MAX,
  'State.abandoned': 256,
  'State.incarnations': WORLD_SIZE_MAX,
  'State.pastAttempts': 4096,
  'State.removedRing': 256,
  'State.skippedManifests': 4096,
  'State.txnRing': 256,
  'WriterShare.directories': DIRECTORY_COUNT_MAX,
};

const BYTES_PER_CRC = 4;
const NO_BYTES = new Uint8Array(0);

export interface MessageRule extends FieldRule {
  /** The field by which an error names the message. */
  readonly field: string;
}

/**
 * Limits the total of all sizes, so that their sum is exact wherever it is computed, as in the
 * catalog.
 */
const sumOfSizes = (field: string, sizesOf: (message: never) => readonly Sized[]): MessageRule => ({
  field,
  accepted: 'files of at most 2^53 - 1 bytes in total',
  holds: (message) =>
    sizesOf(message as never).reduce((sum, { sizeBytes = 0 }) => sum + sizeBytes, 0) <=
    Number.MAX_SAFE_INTEGER,
});

const ORDERED_DIRECTORIES: MessageRule = {
  field: 'directories',
  accepted: 'in the order of their names, each name once',
  holds: (message) => isAscending((message as Partial<Receipt | WriterShare>).directories ?? []),
};

/** Rules across the fields of one message. Each field has passed its own rules before. */
export const MESSAGE_RULES: Readonly<Record<string, readonly MessageRule[]>> = {
  File: [
    {
      field: 'partCrc32c',
      accepted: '4 bytes for each part of partSizeBytes bytes in sizeBytes (both 0 for an empty file)',
      holds(message) {
        // Absent fields have their defaults.
        const { sizeBytes = 0, partSizeBytes = 0, partCrc32c = NO_BYTES } = message as Partial<File>;
        if (sizeBytes === 0 || partSizeBytes === 0)
          return sizeBytes === 0 && partSizeBytes === 0 && partCrc32c.length === 0;
        return partCrc32c.length === Math.ceil(sizeBytes / partSizeBytes) * BYTES_PER_CRC;
      },
    },
  ],
  FileList: [
    {
      field: 'files',
      accepted: 'at least one file, in the order of their names, each name once',
      holds(message) {
        const { files = [] } = message as Partial<FileList>;
        return files.length > 0 && isAscending(files);
      },
    },
    sumOfSizes('files', ({ files = [] }: Partial<FileList>) => files),
  ],
  Manifest: [
    {
      field: 'receipts',
      accepted: 'absent if the manifest itself has the contents of its receipts',
      holds(message) {
        const { receipts = [], ...own } = message as Partial<Manifest>;
        const { writers = [], bases = [], metrics = {}, metadata = {}, suspicions = [] } = own;
        if (receipts.length === 0) return true;
        const count = writers.length + bases.length + suspicions.length;
        return count + Object.keys(metrics).length + Object.keys(metadata).length === 0;
      },
    },
    sumOfSizes('receipts', ({ receipts = [] }: Partial<Manifest>) => receipts),
    sumOfSizes('writers', ({ writers = [] }: Partial<Manifest>) =>
      writers.flatMap(({ files = [] }) => files),
    ),
  ],
  Receipt: [
    {
      field: 'fileLists',
      accepted: 'absent if the receipt itself holds files',
      holds(message) {
        const { files = [], fileLists = [] } = message as Partial<Receipt>;
        return files.length === 0 || fileLists.length === 0;
      },
    },
    sumOfSizes('files', ({ files = [], fileLists = [] }: Partial<Receipt>) => [...files, ...fileLists]),
    ORDERED_DIRECTORIES,
  ],
  WriterShare: [ORDERED_DIRECTORIES],
};

function isAscending(named: readonly { readonly name: string }[]): boolean {
  return named.every(({ name }, index) => {
    const before = named[index - 1];
    return before === undefined || compareUtf8(before.name, name) < 0;
  });
}
