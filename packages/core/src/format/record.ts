/**
 * Records ⇄ bytes. A record is one line of JSON:
 *
 * ```
 * {"checksum":"sha256:<64 hex digits>","format":{"kind":"claim","major":1},"host":"a",…}\n
 * ```
 *
 * The digits are the SHA-256 of every byte after the closing quote of the checksum, to the end of
 * the file. Their position is fixed, so a record can be verified with a plain hash of the file's
 * tail. Each value has exactly one spelling: `encodeRecord` reproduces whatever `decodeRecord`
 * accepts byte for byte, including fields that a newer minor format added. See docs/format.md.
 */

import { CheckpointError } from '../contract/index.ts';
import { sha256 } from './checksum.ts';
import { BYTE, excerpt, JsonProblem, JsonReader } from './json-reader.ts';
import { MemoryBudget, RECORD_BYTES_MAX_OF } from './limits.ts';
import { readAny, readMessage, readRecordMembers } from './message-reader.ts';
import { MessageWriter, writeMessage, writeRecordMembers } from './message-writer.ts';
import { checksumProblem, TAIL_OFFSET, withChecksum } from './record-checksum.ts';
import {
  type CatalogCheckpoint,
  type CatalogEntry,
  type CatalogPage,
  type Claim,
  type FileList,
  type FileRecord,
  type Manifest,
  MESSAGE_OF_KIND,
  type Receipt,
  type RecordKind,
  type RecordTypes,
} from './record-types.ts';
import { isUint32 } from './scalars.ts';
import { ValueProblem } from './value-problem.ts';

/**
 * The highest major that is read. A record is written with the lowest major that can express its
 * content.
 */
export const FORMAT_MAJOR = 2;

export interface EncodedRecord {
  readonly bytes: Uint8Array;
  /** SHA-256 over all of `bytes`. Other records refer to this record by it. */
  readonly sha256: Uint8Array;
}

/** For messages. */
export interface RecordPlace {
  readonly key: string;
  readonly store?: string | undefined;
}

/**
 * The bytes of a record. `format` is filled in, with the lowest minor that covers the content. A
 * higher minor on the value is kept, and so are fields that a newer Holdfast wrote, as
 * `decodeRecord` left them. Equal values give equal bytes. `InvalidArgument` names the field that
 * violates the schema.
 */
export function encodeRecord<Kind extends RecordKind>(kind: Kind, value: RecordTypes[Kind]): EncodedRecord {
  const tail = withProblemsAs('InvalidArgument', `a record of kind "${kind}" cannot be written`, {}, () =>
    encodeTail(kind, value),
  );
  const bytes = withChecksum(tail);
  return { bytes, sha256: sha256(bytes) };
}

/**
 * The value of a record's bytes. Unknown fields stay on it, at every level, as plain JSON values; a
 * spread copies them too. `Corrupt`: too large, damaged, of another kind, or against the schema.
 * `UnsupportedFormat`: a newer Holdfast wrote it.
 */
export function decodeRecord<Kind extends RecordKind>(
  kind: Kind,
  bytes: Uint8Array,
  where: RecordPlace,
): RecordTypes[Kind] {
  const context = { key: where.key, ...(where.store !== undefined && { store: where.store }) };
  const refuse = (what: string, details: { expected?: string; found?: string; cause?: unknown } = {}) => {
    const { cause, ...named } = details;
    return new CheckpointError('Corrupt', `${where.key} ${what}`, {
      context: { ...context, ...named },
      cause,
    });
  };
  const bytesMax = RECORD_BYTES_MAX_OF[kind];
  if (bytes.length > bytesMax)
    throw refuse(`has ${bytes.length} bytes; a record of kind "${kind}" has at most ${bytesMax}`);
  const problem = checksumProblem(bytes);
  if (problem !== null) throw refuse(problem.what, { expected: problem.expected, found: problem.found });
  return withJsonProblemsAs(bytes, refuse, () =>
    withProblemsAs('Corrupt', `${where.key} is damaged`, context, () => {
      const reader = new JsonReader(bytes, { at: TAIL_OFFSET, depth: 1, budget: new MemoryBudget() });
      const format = readFormat(reader, (found) => assertFormat(kind, found, where, refuse));
      const members = readRecordMembers(reader, MESSAGE_OF_KIND[kind], format);
      reader.end();
      const value = members as unknown as RecordTypes[Kind];
      assertFormatField('major', value.format?.major, leastMajor(kind, value));
      const minor = isCarriedAlong(kind) ? 0 : leastMinor(kind, value);
      if ((value.format?.minor ?? 0) < minor) throw new JsonProblem(TAIL_OFFSET, `minor ${minor} at least`);
      return value;
    }),
  );
}

type Refuse = (
  what: string,
  details?: { expected?: string; found?: string; cause?: unknown },
) => CheckpointError;

/** Everything that the checksum covers. */
function encodeTail(kind: RecordKind, value: RecordTypes[RecordKind]): Uint8Array {
  const { format, ...rest } = value;
  const major = leastMajor(kind, value);
  assertFormatField('kind', format?.kind, kind);
  assertFormatField('major', format?.major, major);
  if (Object.hasOwn(rest, 'checksum')) throw new ValueProblem('checksum', 'absent: it is computed', 'given');
  const writer = new MessageWriter({
    bytesMax: RECORD_BYTES_MAX_OF[kind],
    bytesBefore: TAIL_OFFSET,
    depth: 1,
  });
  writer.text(',"format":');
  writer.path.enter('format');
  const minor = Math.max(format?.minor ?? 0, leastMinor(kind, value));
  writeMessage(writer, 'Format', { ...format, kind, major, minor });
  writer.path.leave();
  writeRecordMembers(writer, MESSAGE_OF_KIND[kind], rest);
  writer.text('}\n');
  return writer.finish();
}

function assertFormatField(field: string, found: unknown, wanted: unknown): void {
  if (found === undefined || found === wanted) return;
  throw new ValueProblem(`format.${field}`, JSON.stringify(wanted), found);
}

/**
 * Major 2: the record refers to another record for content that an older reader expects in it, or
 * protects objects that such a reader would delete. An older reader rejects it, and so does no
 * harm.
 */
function leastMajor(kind: RecordKind, value: RecordTypes[RecordKind]): number {
  if (kind === 'catalog-page' || kind === 'file-list') return 2;
  if (kind === 'receipt') return (value as Receipt).fileLists?.length ? 2 : 1;
  if (kind === 'manifest') return (value as Manifest).receipts?.length ? 2 : 1;
  if (kind === 'catalog-entry') {
    const { pages = [], skippedManifests = [] } = (value as CatalogEntry).state ?? {};
    return pages.length + skippedManifests.length > 0 ? 2 : 1;
  }
  return 1;
}

/**
 * The minor tells an older reader which unknown fields a record may hold. 1: `taken`,
 * `annotatedMetadata`, `life`. 2: empty directories, and modification times of files; in a file
 * list the latter are minor 1.
 */
function leastMinor(kind: RecordKind, value: RecordTypes[RecordKind]): number {
  if (kind === 'claim') return (value as Claim).life ? 1 : 0;
  if (kind === 'file-list') return (value as FileList).files?.some(hasTime) ? 1 : 0;
  if (kind === 'receipt') return minorOfShare(value as Receipt);
  if (kind === 'manifest') {
    const { writers = [], receipts = [] } = value as Manifest;
    if (receipts.some(({ directoryCount }) => directoryCount > 0)) return 2;
    return writers.reduce((minor, share) => Math.max(minor, minorOfShare(share)), 0);
  }
  if (kind === 'catalog-entry') return isAnnotated((value as CatalogEntry).state?.checkpoints) ? 1 : 0;
  if (kind === 'catalog-page') return isAnnotated((value as CatalogPage).checkpoints) ? 1 : 0;
  return 0;
}

type Share = Pick<Receipt, 'files' | 'taken' | 'directories'>;

function minorOfShare({ files = [], taken, directories = [] }: Share): number {
  if (directories.length > 0 || files.some(hasTime)) return 2;
  return taken === undefined ? 0 : 1;
}

function hasTime({ mtimeMs = 0 }: FileRecord): boolean {
  return mtimeMs > 0;
}

function isAnnotated(checkpoints: readonly CatalogCheckpoint[] = []): boolean {
  return checkpoints.some(({ annotatedMetadata = {} }) => Object.keys(annotatedMetadata).length > 0);
}

/**
 * True for records whose content the next entry or page repeats. An older writer repeats it too,
 * without knowing the field or its minor.
 */
function isCarriedAlong(kind: RecordKind): boolean {
  return kind === 'catalog-entry' || kind === 'catalog-page';
}

/**
 * The format, which comes first. `assertReadable` checks it before the schema applies, because a
 * newer major may use other types in it.
 */
function readFormat(
  reader: JsonReader,
  assertReadable: (found: Record<string, unknown>) => void,
): Record<string, unknown> {
  if (reader.next === BYTE.closeBrace) assertReadable({});
  reader.take(BYTE.comma);
  const { at } = reader;
  if (reader.name() !== 'format') throw new JsonProblem(at, '"format" first');
  reader.path.enter('format');
  const start = reader.at;
  assertReadable(reader.next === BYTE.openBrace ? (readAny(reader) as Record<string, unknown>) : {});
  reader.at = start;
  const format = readMessage(reader, 'Format');
  reader.path.leave();
  return format;
}

function assertFormat(
  kind: RecordKind,
  format: Record<string, unknown>,
  where: RecordPlace,
  refuse: Refuse,
): void {
  const { kind: foundKind, major, minor = 0 } = format;
  if (foundKind !== kind) {
    const found = typeof foundKind === 'string' ? `"${foundKind.slice(0, 40)}"` : 'none';
    throw refuse(`is damaged or misplaced: its format.kind is ${found}, expected "${kind}"`, {
      expected: kind,
      found,
    });
  }
  if (!isUint32(major) || major === 0)
    throw refuse(`is damaged: its format.major is not a whole number from 1`);
  if (major > FORMAT_MAJOR) {
    throw new CheckpointError(
      'UnsupportedFormat',
      `${where.key} was written by a newer Holdfast (format ${major}.${Number(minor)}; this one reads up to ${FORMAT_MAJOR}.x): upgrade Holdfast to use this run`,
      { context: { key: where.key, ...(where.store !== undefined && { store: where.store }) } },
    );
  }
}

/**
 * Keys out of order, duplicate keys, white space, explicit defaults and other spellings of numbers
 * are all damage.
 */
function withJsonProblemsAs<T>(bytes: Uint8Array, refuse: Refuse, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    if (!(cause instanceof JsonProblem)) throw cause;
    const { at, expected } = cause;
    if (expected === undefined)
      throw refuse('is damaged: its checksum is right, but it is not JSON in UTF-8', { cause });
    const found = excerpt(bytes, at);
    throw refuse(
      `is not in canonical form (a duplicate or misplaced key, white space, a default, or another spelling of a value): ` +
        `from byte ${at} on it has ${found} where ${expected} is expected`,
      { expected, found, cause },
    );
  }
}

function withProblemsAs<T>(
  code: 'Corrupt' | 'InvalidArgument',
  what: string,
  context: { key?: string; store?: string },
  run: () => T,
): T {
  try {
    return run();
  } catch (error) {
    if (!(error instanceof ValueProblem)) throw error;
    const details = { ...context, path: error.path, expected: error.accepted, found: error.found };
    throw new CheckpointError(code, `${what}: ${error.message}`, { context: details, cause: error });
  }
}
