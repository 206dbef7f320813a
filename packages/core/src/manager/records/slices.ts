/**
 * Reads the files of a checkpoint as its records hold them: writer by writer, list by list, with a
 * few records read ahead. A checkpoint of a million files can be read without holding them all in
 * memory.
 */

import { CheckpointError } from '../../contract/errors.ts';
import {
  decodeRecord,
  type FileListRef,
  type FileRecord,
  fileListKey,
  idEquals,
  type Manifest,
  type Receipt,
  type ReceiptRef,
  type WriterIncarnation,
} from '../../format/index.ts';
import {
  listProblem,
  mayHold,
  type NameRange,
  orderProblem,
  type ReceiptPlace,
  receiptPlaces,
  referenceProblem,
  refersToReceipts,
} from '../../plan/file-lists.ts';
import { clashText, type NameClash, NameOwners } from '../../plan/names.ts';
import type { RunParts } from './parts.ts';
import { readAhead } from './read-ahead.ts';
import { getByDigest, isUnreadable } from './records.ts';

/** Receipts and file lists that are read at once. Each has about 1 MiB. */
const RECORDS_AT_ONCE = 8;

/** What a writer recorded besides its files. */
export type Said = Omit<
  Receipt,
  'format' | 'id' | 'writer' | 'incarnation' | 'worldSize' | 'files' | 'fileLists'
>;

/**
 * Files of one writer that one record holds, sorted by name. Each writer has at least one slice,
 * which may be empty.
 */
export interface Slice extends WriterIncarnation {
  /** The same in all slices of a writer. */
  readonly said: Said;
  /** The first slice of its writer. */
  readonly isFirst: boolean;
  readonly files: readonly FileRecord[];
  /** Key of the file list; `undefined`: the receipt or the manifest itself holds the files. */
  readonly listKey: string | undefined;
}

export interface SliceOptions {
  readonly signal: AbortSignal | undefined;
  /** Only this writer. Default: all. */
  readonly writer?: number | undefined;
  /**
   * Only records that may hold names with one of these beginnings. Such a record may hold other
   * files too. Default: all.
   */
  readonly starts?: readonly string[] | undefined;
  /** With `starts`: also records with empty directories, whatever their names. */
  readonly withDirectories?: boolean | undefined;
  /**
   * Called for each record that cannot be used, which is then skipped. Default: the first one is
   * thrown as an error.
   */
  readonly onDamaged?: ((key: string, error: CheckpointError) => void) | undefined;
}

/**
 * One GET for each receipt that the manifest refers to, and one for each file list. No GET if the
 * manifest holds the files itself. `Corrupt`: a record is missing, damaged, or contradicts its
 * reference.
 */
export async function* readSlices(
  run: RunParts,
  manifest: Manifest,
  options: SliceOptions,
): AsyncGenerator<Slice, void, void> {
  if (!refersToReceipts(manifest)) {
    yield* repeatedSlices(manifest, options);
    return;
  }
  const { signal } = options;
  const places = receiptPlaces(manifest).filter(({ writer }) => {
    const ref = manifest.receipts[writer] as ReceiptRef;
    if (options.writer !== undefined) return writer === options.writer;
    return isWanted(ref, options) || (options.withDirectories === true && ref.directoryCount > 0);
  });
  const at = { count: RECORDS_AT_ONCE, signal };
  const receipts = readAhead(places, at, (place, until) =>
    unlessDamaged(place.key, options, () => readReferred(run, manifest, place, until)),
  );
  yield* readLists(run, withoutNull(receipts), options);
}

/** The slices of receipts that are already read. One GET for each file list. */
export async function* readLists(
  run: RunParts,
  receipts: Iterable<Receipt> | AsyncIterable<Receipt>,
  options: SliceOptions,
): AsyncGenerator<Slice, void, void> {
  const at = { count: RECORDS_AT_ONCE, signal: options.signal };
  const slices = readAhead(places(receipts, options), at, async ({ receipt, list, isFirst }, until) => {
    const { writer, incarnation } = receipt;
    const slice = { writer, incarnation, said: receipt, isFirst };
    if (list === undefined) return { ...slice, files: receipt.files, listKey: undefined };
    const listKey = fileListKey(receipt, list.sha256);
    const read = () => readList(run, receipt, list, until);
    const files = await unlessDamaged(listKey, options, read);
    return files && { ...slice, files, listKey };
  });
  yield* withoutNull(slices);
}

/** `null`: the record is damaged, and `onDamaged` was called. */
async function unlessDamaged<T>(
  key: string,
  { onDamaged }: SliceOptions,
  read: () => Promise<T>,
): Promise<T | null> {
  try {
    return await read();
  } catch (error) {
    if (!onDamaged || !isUnreadable(error)) throw error;
    onDamaged(key, error);
    return null;
  }
}

async function* withoutNull<T>(items: AsyncIterable<T | null>): AsyncGenerator<T, void, void> {
  for await (const item of items) if (item !== null) yield item;
}

interface Place {
  readonly receipt: Receipt;
  /** `undefined`: the receipt itself holds the files. */
  readonly list: FileListRef | undefined;
  readonly isFirst: boolean;
}

async function* places(
  receipts: Iterable<Receipt> | AsyncIterable<Receipt>,
  options: SliceOptions,
): AsyncGenerator<Place, void, void> {
  for await (const receipt of receipts) {
    const lists = receipt.fileLists.filter((list) => isWanted(list, options));
    if (lists.length === 0) yield { receipt, list: undefined, isFirst: true };
    for (const [index, list] of lists.entries()) yield { receipt, list, isFirst: index === 0 };
  }
}

function isWanted(range: NameRange, { starts }: SliceOptions): boolean {
  return starts === undefined || starts.some((start) => mayHold(range, start));
}

/**
 * The manifest holds only the union of what the writers recorded, so that is given with the first
 * writer.
 */
function* repeatedSlices(manifest: Manifest, { writer: wanted }: SliceOptions): Generator<Slice> {
  const { bases, metrics, metadata, suspicions } = manifest;
  const nothing = { bases: [], metrics: {}, metadata: {}, suspicions: [] };
  for (const [index, share] of manifest.writers.entries()) {
    const { writer, incarnation, files, taken, directories } = share;
    if (wanted !== undefined && writer !== wanted) continue;
    const all = index === 0 ? { bases, metrics, metadata, suspicions } : nothing;
    const said: Required<Said> = { ...all, taken, directories };
    yield { writer, incarnation, said, isFirst: true, files, listKey: undefined };
  }
}

async function readReferred(
  run: RunParts,
  manifest: Manifest,
  { key, sha256, writer }: ReceiptPlace,
  signal: AbortSignal,
): Promise<Receipt> {
  const bytes = await getByDigest(run, key, sha256, signal);
  const receipt = decodeRecord('receipt', bytes, { key, store: run.store.uri });
  const ref = manifest.receipts[writer];
  const problem = ref && referenceProblem(manifest, writer, ref, receipt);
  if (problem) throw unusable(run, key, problem);
  return receipt;
}

async function readList(
  run: RunParts,
  receipt: Receipt,
  ref: FileListRef,
  signal: AbortSignal,
): Promise<readonly FileRecord[]> {
  const key = fileListKey(receipt, ref.sha256);
  const bytes = await getByDigest(run, key, ref.sha256, signal);
  const list = decodeRecord('file-list', bytes, { key, store: run.store.uri });
  const isOfWriter =
    idEquals(list.id, receipt.id) &&
    list.writer === receipt.writer &&
    list.incarnation === receipt.incarnation;
  const problem = isOfWriter ? listProblem(ref, list.files) : 'it belongs to another writer or checkpoint';
  if (problem) throw unusable(run, key, problem);
  return list.files;
}

/**
 * As `readSlices`, but also checks that no names clash: neither two files, nor a file and an empty
 * directory. Memory: all names that are read.
 */
export async function* readNamedSlices(
  run: RunParts,
  manifest: Manifest,
  options: Omit<SliceOptions, 'writer'>,
): AsyncGenerator<Slice, void, void> {
  const names = new NameOwners();
  const refuse = (clash: NameClash | undefined) => {
    if (!clash) return;
    const error = unusable(run, `version ${manifest.id.version}`, clashText(clash));
    if (!options.onDamaged) throw error;
    options.onDamaged(clash.name, error);
  };
  for await (const slice of readSlices(run, manifest, options)) {
    refuse(names.add(slice.files, slice.writer));
    if (slice.isFirst) names.addDirectories(slice.said.directories, slice.writer);
    yield slice;
  }
  refuse(names.findDirectory());
}

/**
 * The file of this name; `undefined`: there is no such file. Reads only the records that may hold
 * it.
 */
export async function findFile(
  run: RunParts,
  manifest: Manifest,
  name: string,
  signal: AbortSignal,
): Promise<FileRecord | undefined> {
  for await (const { files } of readSlices(run, manifest, { signal, starts: [name] })) {
    const file = files.find((each) => each.name === name);
    if (file) return file;
  }
  return undefined;
}

/**
 * What one writer recorded at the commit. One GET, unless it was the only writer and the manifest
 * holds it.
 */
export async function readSaid(
  run: RunParts,
  manifest: Manifest,
  writer: number,
  signal: AbortSignal,
): Promise<Pick<Said, 'metrics' | 'metadata'>> {
  if (manifest.worldSize === 1 && !refersToReceipts(manifest)) return manifest;
  const place = receiptPlaces(manifest).find((each) => each.writer === writer);
  if (!place) throw new RangeError(`there is no writer ${writer}`);
  return readReferred(run, manifest, place, signal);
}

/** All files of a checkpoint, or of one writer. Memory: about 1 KB for each file. */
export async function readFiles(
  run: RunParts,
  manifest: Manifest,
  options: SliceOptions,
): Promise<FileRecord[]> {
  const all: FileRecord[] = [];
  for await (const { files } of readSlices(run, manifest, options)) for (const file of files) all.push(file);
  return all;
}

/**
 * Throws `Corrupt` if the files of a receipt cannot be used. For receipts that no manifest refers
 * to.
 */
export function assertOrdered(run: RunParts, key: string, receipt: Receipt): void {
  const problem = orderProblem(receipt);
  if (problem) throw unusable(run, key, problem);
}

function unusable(run: RunParts, key: string, problem: string): CheckpointError {
  return new CheckpointError('Corrupt', `${key} cannot be used: ${problem}`, {
    context: { store: run.store.uri, key },
  });
}
