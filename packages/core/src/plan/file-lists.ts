/**
 * Splits records that hold many files, so that a checkpoint of any size fits its records. The files
 * of a writer go into lists beside its receipt, and a manifest refers to receipts instead of
 * repeating them. Pure.
 */

import { compareUtf8 } from '../contract/object-key.ts';
import {
  type FileListRef,
  type FileRecord,
  idEquals,
  idText,
  type Manifest,
  type Receipt,
  type ReceiptRef,
  receiptKey,
  type WriterIncarnation,
} from '../format/index.ts';
import { totalBytes } from './stored-file.ts';

const MIB = 1024 * 1024;

export interface RecordLimits {
  /** A receipt or file list whose files take more bytes is split; one file alone may take more. */
  readonly filesBytesMax: number;
  /**
   * A manifest repeats receipts while they have together at most this many bytes. Part of the
   * format: all processes that build a manifest must use the same value.
   */
  readonly repeatedBytesMax: number;
}

export const RECORD_LIMITS: RecordLimits = { filesBytesMax: MIB, repeatedBytesMax: 4 * MIB };

/** Field names, punctuation, and numbers of usual length. */
const FILE_BYTES = 150;

/** The modification time. */
const TIME_BYTES = 28;

/** Approximate bytes of a file in a record. An upper bound, except for quotes in its name. */
function recordedBytes({ name, key, partCrc32c, blake3, mtimeMs }: FileRecord): number {
  const base64Bytes = (4 / 3) * (partCrc32c.byteLength + blake3.byteLength);
  const fixedBytes = FILE_BYTES + (mtimeMs > 0 ? TIME_BYTES : 0);
  return fixedBytes + Buffer.byteLength(name) + Buffer.byteLength(key) + base64Bytes;
}

/**
 * `files` in their order, split so that each slice takes at most `bytesMax` in a record, or holds
 * one file.
 */
export function sliceFiles(files: readonly FileRecord[], bytesMax: number): (readonly FileRecord[])[] {
  const slices: (readonly FileRecord[])[] = [];
  let start = 0;
  let bytes = 0;
  for (const [index, file] of files.entries()) {
    const more = recordedBytes(file);
    if (index > start && bytes + more > bytesMax) {
      slices.push(files.slice(start, index));
      start = index;
      bytes = 0;
    }
    bytes += more;
  }
  if (start < files.length) slices.push(files.slice(start));
  return slices;
}

/** `files`: at least one, sorted. */
export function fileListRef(files: readonly FileRecord[], sha256: Uint8Array): FileListRef {
  const firstName = files[0]?.name ?? '';
  const lastName = files.at(-1)?.name ?? '';
  return { sha256, fileCount: files.length, sizeBytes: totalBytes(files), firstName, lastName };
}

/** The number of files of a receipt, and their total size. */
export function countOf({ files, fileLists }: Pick<Receipt, 'files' | 'fileLists'>): {
  readonly fileCount: number;
  readonly sizeBytes: number;
} {
  const listedCount = fileLists.reduce((sum, list) => sum + list.fileCount, 0);
  return { fileCount: files.length + listedCount, sizeBytes: totalBytes(files) + totalBytes(fileLists) };
}

/** A manifest's reference to a receipt. */
export function receiptRef(
  { receipt, sha256 }: { readonly receipt: Receipt; readonly sha256: Uint8Array },
  worldSize: number,
): ReceiptRef {
  const { incarnation, files, fileLists, directories } = receipt;
  const bytesMax = nameBytesMax(worldSize);
  const firstName = cut(files[0]?.name ?? fileLists[0]?.firstName ?? '', bytesMax);
  const lastName = cut(files.at(-1)?.name ?? fileLists.at(-1)?.lastName ?? '', bytesMax);
  const directoryCount = directories.length;
  return { incarnation, sha256, ...countOf(receipt), firstName, lastName, directoryCount };
}

/** Bytes of a manifest available for the names of all its writers; two names for each. */
const NAMES_BYTES = MIB;

function nameBytesMax(worldSize: number): number {
  return Math.floor(NAMES_BYTES / 2 / worldSize);
}

/** The beginning of `name`: whole characters, at most `bytesMax` bytes of UTF-8. */
function cut(name: string, bytesMax: number): string {
  if (name.length * 3 <= bytesMax) return name;
  const bytes = new TextEncoder().encodeInto(name, new Uint8Array(bytesMax));
  return name.slice(0, bytes.read);
}

/** A range of names from first to last; both may be cut. */
export type NameRange = Pick<ReceiptRef, 'fileCount' | 'firstName' | 'lastName'>;

/** True if the range may hold a name that begins with `start`. */
export function mayHold({ fileCount, firstName, lastName }: NameRange, start: string): boolean {
  const isBelow = compareUtf8(lastName, start) < 0 && !start.startsWith(lastName);
  const isAbove = compareUtf8(firstName, start) > 0 && !firstName.startsWith(start);
  return fileCount > 0 && !isBelow && !isAbove;
}

/** Why a receipt is not the one that the manifest refers to for `writer`; `undefined`: it is. */
export function referenceProblem(
  manifest: Pick<Manifest, 'id' | 'worldSize'>,
  writer: number,
  ref: ReceiptRef,
  receipt: Receipt,
): string | undefined {
  const { id, worldSize } = manifest;
  if (!idEquals(receipt.id, id) || receipt.writer !== writer || receipt.incarnation !== ref.incarnation)
    return `it is of writer ${receipt.writer}.${receipt.incarnation} of ${idText(receipt.id)}`;
  if (receipt.worldSize !== worldSize) return `it says ${receipt.worldSize} writers, not ${worldSize}`;
  const said = receiptRef({ receipt, sha256: ref.sha256 }, worldSize);
  const isSaid =
    said.fileCount === ref.fileCount &&
    said.sizeBytes === ref.sizeBytes &&
    said.firstName === ref.firstName &&
    said.lastName === ref.lastName;
  return isSaid ? orderProblem(receipt) : 'it has other files than the manifest says';
}

/** Why the files of a receipt are not in the order of their names; `undefined`: they are. */
export function orderProblem({ files, fileLists }: Pick<Receipt, 'files' | 'fileLists'>): string | undefined {
  const ranges = [...files.map(({ name }) => ({ firstName: name, lastName: name })), ...fileLists];
  const wrong = ranges.find(({ firstName, lastName }, index) => {
    const before = ranges[index - 1];
    return compareUtf8(firstName, lastName) > 0 || (before && compareUtf8(before.lastName, firstName) >= 0);
  });
  return wrong && `"${wrong.firstName}" is not in the order of the names`;
}

/** Why the files of a list differ from what its receipt says; `undefined`: they do not. */
export function listProblem(ref: FileListRef, files: readonly FileRecord[]): string | undefined {
  const said = fileListRef(files, ref.sha256);
  const isSaid =
    said.fileCount === ref.fileCount &&
    said.sizeBytes === ref.sizeBytes &&
    said.firstName === ref.firstName &&
    said.lastName === ref.lastName;
  return isSaid ? undefined : 'it has other files than its receipt says';
}

/** True if the files of a checkpoint are outside its manifest. */
export function refersToReceipts({ receipts }: Pick<Manifest, 'receipts'>): boolean {
  return receipts.length > 0;
}

/** The key of a writer's receipt. */
export interface ReceiptPlace extends WriterIncarnation {
  readonly key: string;
  readonly sha256: Uint8Array;
}

/** One for each writer, in their order. */
export function receiptPlaces({ id, writers, receipts }: Manifest): ReceiptPlace[] {
  const repeated = writers.map(({ writer, incarnation, receiptKey: key, receiptSha256: sha256 }) => {
    return { writer, incarnation, key, sha256 };
  });
  const referred = receipts.map(({ incarnation, sha256 }, writer) => {
    return { writer, incarnation, key: receiptKey(id, writer, incarnation), sha256 };
  });
  return [...repeated, ...referred];
}
