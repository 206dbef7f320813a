/**
 * The files of a checkpoint as they lie in its records: writer by writer, list by list, a few
 * records read ahead. So a checkpoint of a million files is gone through without holding them all.
 */

import { CheckpointError } from '../contract/errors.ts';
import {
  decodeRecord,
  type FileListRef,
  type FileRecord,
  fileListKey,
  idEquals,
  type Manifest,
  type Receipt,
  type ReceiptRef,
  type WriterLife,
} from '../format/index.ts';
import {
  listProblem,
  mayHold,
  type NameRange,
  orderProblem,
  type ReceiptPlace,
  receiptPlaces,
  referenceProblem,
  refersToReceipts,
} from '../plan/file-lists.ts';
import { clashText, type NameClash, NameOwners } from '../plan/names.ts';
import type { Engine } from './engine.ts';
import { readAhead } from './read-ahead.ts';
import { getByDigest, isUnreadable } from './records.ts';

/** Receipts, and lists beside them, that are read at once: about 1 MiB each. */
const RECORDS_AT_ONCE = 8;

/** What a writer said beside its files. */
export type Said = Pick<Receipt, 'bases' | 'metrics' | 'metadata' | 'suspicions' | 'taken' | 'directories'>;

/**
 * Files of one writer that lie in one record, sorted by name. Each writer has one slice at least,
 * which may be empty.
 */
export interface Slice extends WriterLife {
  /** Each slice of a writer has the same. */
  readonly said: Said;
  /** Of its writer. */
  readonly isFirst: boolean;
  readonly files: readonly FileRecord[];
  /** Of the file list; `undefined`: they lie in the receipt, or in the manifest itself. */
  readonly listKey: string | undefined;
}

export interface SliceOptions {
  readonly signal: AbortSignal | undefined;
  /** Only of this writer. Default: of all. */
  readonly writer?: number | undefined;
  /**
   * Only what may hold names that begin with one of these; other files may come with them. Default:
   * all.
   */
  readonly starts?: readonly string[] | undefined;
  /** With `starts`: also what has empty directories, whatever their names. */
  readonly withDirectories?: boolean | undefined;
  /**
   * Told of each record that cannot be used, which is then passed over. Default: the first is
   * thrown.
   */
  readonly onDamaged?: ((key: string, error: CheckpointError) => void) | undefined;
}

/**
 * One GET for each receipt that the manifest refers to, and one for each file list; none if it
 * repeats its files. `Corrupt`: one is missing, damaged, or not what is said of it.
 */
export async function* readSlices(
  engine: Engine,
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
    unlessDamaged(place.key, options, () => readReferred(engine, manifest, place, until)),
  );
  yield* readLists(engine, withoutNull(receipts), options);
}

/** The slices of receipts that are read already. One GET for each file list. */
export async function* readLists(
  engine: Engine,
  receipts: Iterable<Receipt> | AsyncIterable<Receipt>,
  options: SliceOptions,
): AsyncGenerator<Slice, void, void> {
  const at = { count: RECORDS_AT_ONCE, signal: options.signal };
  const slices = readAhead(places(receipts, options), at, async ({ receipt, list, isFirst }, until) => {
    const { writer, incarnation } = receipt;
    const slice = { writer, incarnation, said: receipt, isFirst };
    if (list === undefined) return { ...slice, files: receipt.files, listKey: undefined };
    const listKey = fileListKey(receipt, list.sha256);
    const read = () => readList(engine, receipt, list, until);
    const files = await unlessDamaged(listKey, options, read);
    return files && { ...slice, files, listKey };
  });
  yield* withoutNull(slices);
}

/** `null`: it is damaged, and `onDamaged` was told so. */
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
  /** `undefined`: the receipt itself. */
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

/** What all writers said together stands with the first: the manifest holds only the union. */
function* repeatedSlices(manifest: Manifest, { writer: wanted }: SliceOptions): Generator<Slice> {
  const { bases, metrics, metadata, suspicions } = manifest;
  const nothing = { bases: [], metrics: {}, metadata: {}, suspicions: [] };
  for (const [index, share] of manifest.writers.entries()) {
    const { writer, incarnation, files, taken, directories } = share;
    if (wanted !== undefined && writer !== wanted) continue;
    const all = index === 0 ? { bases, metrics, metadata, suspicions } : nothing;
    const said = { ...all, taken, directories };
    yield { writer, incarnation, said, isFirst: true, files, listKey: undefined };
  }
}

async function readReferred(
  engine: Engine,
  manifest: Manifest,
  { key, sha256, writer }: ReceiptPlace,
  signal: AbortSignal,
): Promise<Receipt> {
  const bytes = await getByDigest(engine, key, sha256, signal);
  const receipt = decodeRecord('receipt', bytes, { key, store: engine.store.uri });
  const ref = manifest.receipts[writer];
  const problem = ref && referenceProblem(manifest, writer, ref, receipt);
  if (problem) throw unusable(engine, key, problem);
  return receipt;
}

async function readList(
  engine: Engine,
  receipt: Receipt,
  ref: FileListRef,
  signal: AbortSignal,
): Promise<readonly FileRecord[]> {
  const key = fileListKey(receipt, ref.sha256);
  const bytes = await getByDigest(engine, key, ref.sha256, signal);
  const list = decodeRecord('file-list', bytes, { key, store: engine.store.uri });
  const isOfWriter =
    idEquals(list.id, receipt.id) &&
    list.writer === receipt.writer &&
    list.incarnation === receipt.incarnation;
  const problem = isOfWriter ? listProblem(ref, list.files) : 'it is of another writer or checkpoint';
  if (problem) throw unusable(engine, key, problem);
  return list.files;
}

/**
 * As `readSlices`; and no two of the files stand in each other's way, nor a file in that of an empty
 * directory. Memory: the names of all that are read.
 */
export async function* readNamedSlices(
  engine: Engine,
  manifest: Manifest,
  options: Omit<SliceOptions, 'writer'>,
): AsyncGenerator<Slice, void, void> {
  const names = new NameOwners();
  const refuse = (clash: NameClash | undefined) => {
    if (!clash) return;
    const error = unusable(engine, `version ${manifest.id.version}`, clashText(clash));
    if (!options.onDamaged) throw error;
    options.onDamaged(clash.name, error);
  };
  for await (const slice of readSlices(engine, manifest, options)) {
    refuse(names.add(slice.files, slice.writer));
    if (slice.isFirst) names.addDirectories(slice.said.directories, slice.writer);
    yield slice;
  }
  refuse(names.findDirectory());
}

/** The file of this name; `undefined`: there is none. Reads only what may hold it. */
export async function findFile(
  engine: Engine,
  manifest: Manifest,
  name: string,
  signal: AbortSignal | undefined,
): Promise<FileRecord | undefined> {
  for await (const { files } of readSlices(engine, manifest, { signal, starts: [name] })) {
    const file = files.find((each) => each.name === name);
    if (file) return file;
  }
  return undefined;
}

/** What one writer said at the commit. One GET, unless it was alone and the manifest repeats it. */
export async function readSaid(
  engine: Engine,
  manifest: Manifest,
  writer: number,
  signal: AbortSignal,
): Promise<Pick<Said, 'metrics' | 'metadata'>> {
  if (manifest.worldSize === 1 && !refersToReceipts(manifest)) return manifest;
  const place = receiptPlaces(manifest).find((each) => each.writer === writer);
  if (!place) throw new RangeError(`there is no writer ${writer}`);
  return readReferred(engine, manifest, place, signal);
}

/** All files of a checkpoint, or of one writer. Memory: about 1 KB for each. */
export async function readFiles(
  engine: Engine,
  manifest: Manifest,
  options: SliceOptions,
): Promise<FileRecord[]> {
  const all: FileRecord[] = [];
  for await (const { files } of readSlices(engine, manifest, options))
    for (const file of files) all.push(file);
  return all;
}

/** Why the files of a receipt that was not referred to cannot be used; thrown as `Corrupt`. */
export function assertOrdered(engine: Engine, key: string, receipt: Receipt): void {
  const problem = orderProblem(receipt);
  if (problem) throw unusable(engine, key, problem);
}

function unusable(engine: Engine, key: string, problem: string): CheckpointError {
  return new CheckpointError('Corrupt', `${key} cannot be used: ${problem}`, {
    context: { store: engine.store.uri, key },
  });
}
