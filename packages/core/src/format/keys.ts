/**
 * Every key of a run, relative to the run: builders and strict parsers. A parser accepts exactly
 * what its builder makes and returns `null` for everything else. `{sha256}` stands for the first 16
 * hex digits of the object's SHA-256.
 *
 * ```
 * run.json
 * catalog/{seq, 20 digits}.json
 * pages/{seq, 20 digits}-{sha256}.json
 * writers/{lineage}.{epoch}/{writer}.{incarnation}.json
 * version_{v}/{lineage}.{epoch}/{writer}.{incarnation}-{nonce}/{logical name}
 * version_{v}/{lineage}.{epoch}/files/{writer}.{incarnation}-{sha256}.json
 * version_{v}/{lineage}.{epoch}/receipts/{writer}.{incarnation}.json
 * version_{v}/{lineage}.{epoch}/manifest-{sha256}.json
 * uploads/{upload id}.json
 * leases/{version}.{lineage}.{epoch}/{reader}-{nonce}.json
 * elections/{seq, 20 digits}.json
 * ```
 */

import { CheckpointError, type CheckpointId } from '../contract/index.ts';
import { toHex } from './checksum.ts';
import { checkLogicalName, logicalNameProblem, NONCE_HEX_DIGITS_MAX } from './logical-name.ts';
import { isUint32, UINT32_MAX } from './scalars.ts';
import { VERSION_MAX } from './version.ts';

/** The number of one life of a writer. Keys and records identify a life by it. */
export interface WriterIncarnation {
  readonly writer: number;
  readonly incarnation: number;
}

export interface ReceiptKeyParts extends WriterIncarnation {
  readonly id: CheckpointId;
}

export interface PayloadKeyParts extends ReceiptKeyParts {
  /** Lower-case hex, fresh for each save call. */
  readonly nonce: string;
  /** Logical name. */
  readonly name: string;
}

export interface ClaimKeyParts extends WriterIncarnation {
  readonly lineage: number;
  readonly epoch: number;
}

// Each is a group. No leading zeros, so that each thing has exactly one key.
const NUMBER = '(0|[1-9][0-9]{0,9})';
const VERSION = '(0|[1-9][0-9]{0,18})';
const NONCE = `([0-9a-f]{1,${NONCE_HEX_DIGITS_MAX}})`;
/**
 * For names that callers choose: valid in every store. It may not begin with a dot, so it is never
 * '.' or '..'.
 */
const WORD = '([A-Za-z0-9_][A-Za-z0-9._-]{0,127})';
const CHECKPOINT = `version_${VERSION}/${NUMBER}\\.${NUMBER}/`;
const LIFE = `${NUMBER}\\.${NUMBER}`;

const CATALOG_KEY = /^catalog\/([0-9]{20})\.json$/;
const PAGE_KEY = /^pages\/([0-9]{20})-([0-9a-f]{16})\.json$/;
const GRANT_KEY = /^elections\/([0-9]{20})\.json$/;
const CLAIM_KEY = new RegExp(`^writers/${NUMBER}\\.${NUMBER}/${LIFE}\\.json$`);
const FILE_LIST_KEY = new RegExp(`^${CHECKPOINT}files/${LIFE}-([0-9a-f]{16})\\.json$`);
const RECEIPT_KEY = new RegExp(`^${CHECKPOINT}receipts/${LIFE}\\.json$`);
const PAYLOAD_KEY = new RegExp(`^${CHECKPOINT}${LIFE}-${NONCE}/(.+)$`, 's');
const MANIFEST_KEY = new RegExp(`^${CHECKPOINT}manifest-([0-9a-f]{16})\\.json$`);
const CHECKPOINT_KEY = new RegExp(`^${CHECKPOINT}`);
const UPLOAD_KEY = new RegExp(`^uploads/${WORD}\\.json$`);
const UPLOAD_ID = new RegExp(`^${VERSION}\\.${NUMBER}\\.${NUMBER}\\.${NUMBER}-.`);
const LEASE_KEY = new RegExp(`^leases/${VERSION}\\.${NUMBER}\\.${NUMBER}/${WORD}-${NONCE}\\.json$`);
const NONCE_WHOLE = new RegExp(`^${NONCE}$`);
const WORD_WHOLE = new RegExp(`^${WORD}$`);

export const runKey = 'run.json';
export const catalogPrefix = 'catalog/';
export const pagesPrefix = 'pages/';
/** Prefix of all checkpoints; each lies below `version_{v}/`. */
export const versionsPrefix = 'version_';
export const writersPrefix = 'writers/';
export const uploadsPrefix = 'uploads/';
export const leasesPrefix = 'leases/';
export const grantsPrefix = 'elections/';

/** Ascending keys have ascending `seq`s: 1 to 2^53 - 1. */
export function catalogKey(seq: number): string {
  return `${catalogPrefix}${seqText(seq, 'catalog seq')}.json`;
}

export function parseCatalogKey(key: string): number | null {
  return seqOf(CATALOG_KEY.exec(key));
}

/** `seq`: the number of the first entry that refers to it. `sha256` is of the page's bytes. */
export function pageKey(seq: number, sha256: Uint8Array): string {
  return `${pagesPrefix}${seqText(seq, 'page seq')}-${sha256Start(sha256)}.json`;
}

export function parsePageKey(key: string): number | null {
  return seqOf(PAGE_KEY.exec(key));
}

/** `seq`: as for a catalog entry. */
export function grantKey(seq: number): string {
  return `${grantsPrefix}${seqText(seq, 'grant seq')}.json`;
}

export function parseGrantKey(key: string): number | null {
  return seqOf(GRANT_KEY.exec(key));
}

/** Ends in a slash, like every prefix here: `version_1/` never matches `version_10/`. */
export function claimPrefix(lineage: number, epoch: number): string {
  return `${writersPrefix}${uint32(lineage, 'lineage')}.${uint32(epoch, 'epoch')}/`;
}

/** Prefix of the claims of one writer. */
export function claimsOfWriterPrefix(at: Omit<ClaimKeyParts, 'incarnation'>): string {
  return `${claimPrefix(at.lineage, at.epoch)}${uint32(at.writer, 'writer')}.`;
}

export function claimKey(parts: ClaimKeyParts): string {
  return `${claimPrefix(parts.lineage, parts.epoch)}${writerText(parts)}.json`;
}

export function parseClaimKey(key: string): ClaimKeyParts | null {
  const match = CLAIM_KEY.exec(key);
  if (match === null) return null;
  const [lineage = -1, epoch = -1, writer = -1, incarnation = -1] = match.slice(1).map(Number);
  return areUint32(lineage, epoch, writer, incarnation) ? { lineage, epoch, writer, incarnation } : null;
}

/** Prefix of everything that belongs to one checkpoint. */
export function checkpointPrefix(id: CheckpointId): string {
  if (id.version < 0n || id.version > VERSION_MAX)
    throw invalid(`version ${id.version} is not within 0 and ${VERSION_MAX}`);
  return `${versionsPrefix}${id.version}/${uint32(id.lineage, 'lineage')}.${uint32(id.epoch, 'epoch')}/`;
}

/**
 * The checkpoint that an object below `version_{v}/` was written for, whatever kind of object it
 * is.
 */
export function parseCheckpointPrefix(key: string): CheckpointId | null {
  return idOf(CHECKPOINT_KEY.exec(key));
}

export function receiptsPrefix(id: CheckpointId): string {
  return `${checkpointPrefix(id)}receipts/`;
}

export function receiptKey(id: CheckpointId, writer: number, incarnation: number): string {
  return `${receiptsPrefix(id)}${writerText({ writer, incarnation })}.json`;
}

export function parseReceiptKey(key: string): ReceiptKeyParts | null {
  const match = RECEIPT_KEY.exec(key);
  const id = idOf(match);
  const by = writerIn(match);
  return id !== null && by !== null ? { id, ...by } : null;
}

/** `sha256` is of the list's bytes: lists of different files have different keys. */
export function fileListKey(parts: ReceiptKeyParts, sha256: Uint8Array): string {
  return `${checkpointPrefix(parts.id)}files/${writerText(parts)}-${sha256Start(sha256)}.json`;
}

export function parseFileListKey(key: string): ReceiptKeyParts | null {
  const match = FILE_LIST_KEY.exec(key);
  const id = idOf(match);
  const by = writerIn(match);
  return id !== null && by !== null ? { id, ...by } : null;
}

/** `InvalidArgument` if the name or the nonce is invalid; see `checkLogicalName`. */
export function payloadKey(parts: PayloadKeyParts): string {
  checkLogicalName(parts.name);
  return `${checkpointPrefix(parts.id)}${writerText(parts)}-${checkedNonce(parts.nonce)}/${parts.name}`;
}

export function parsePayloadKey(key: string): PayloadKeyParts | null {
  const match = PAYLOAD_KEY.exec(key);
  const id = idOf(match);
  const by = writerIn(match);
  if (match === null || id === null || by === null) return null;
  const [nonce = '', name = ''] = match.slice(6);
  return logicalNameProblem(name) === null ? { id, ...by, nonce, name } : null;
}

/** `sha256` is of the manifest's bytes. */
export function manifestKey(id: CheckpointId, sha256: Uint8Array): string {
  return `${checkpointPrefix(id)}manifest-${sha256Start(sha256)}.json`;
}

/** `sha256Start`: the first 16 hex digits. */
export function parseManifestKey(key: string): { id: CheckpointId; sha256Start: string } | null {
  const match = MANIFEST_KEY.exec(key);
  const id = idOf(match);
  return id === null ? null : { id, sha256Start: match?.[4] ?? '' };
}

/**
 * Start of the ids of all uploads that lives of one writer begin for one checkpoint; the rest is
 * random. One listing finds them all.
 */
export function uploadIdPrefix(id: CheckpointId, writer: number): string {
  checkpointPrefix(id); // validates the id
  return `${id.version}.${id.lineage}.${id.epoch}.${uint32(writer, 'writer')}-`;
}

/**
 * The checkpoint and writer of an upload whose id begins with an `uploadIdPrefix`; `null`: it does
 * not.
 */
export function parseUploadId(uploadId: string): { id: CheckpointId; writer: number } | null {
  const match = UPLOAD_ID.exec(uploadId);
  const id = idOf(match);
  const writer = Number(match?.[4]);
  return id !== null && areUint32(writer) ? { id, writer } : null;
}

/** `uploadId`: 1 to 128 letters, digits, '.', '_' and '-'; the first is no dot or dash. */
export function uploadKey(uploadId: string): string {
  return `${uploadsPrefix}${checkedWord(uploadId, 'upload id')}.json`;
}

export function parseUploadKey(key: string): string | null {
  return UPLOAD_KEY.exec(key)?.[1] ?? null;
}

export function leasePrefix(id: CheckpointId): string {
  checkpointPrefix(id); // validates the id
  return `${leasesPrefix}${id.version}.${id.lineage}.${id.epoch}/`;
}

/** `reader`: same syntax as an upload id. `nonce`: lower-case hex. */
export function leaseKey(id: CheckpointId, reader: string, nonce: string): string {
  return `${leasePrefix(id)}${checkedWord(reader, 'reader')}-${checkedNonce(nonce)}.json`;
}

export function parseLeaseKey(key: string): { id: CheckpointId; reader: string; nonce: string } | null {
  const match = LEASE_KEY.exec(key);
  const id = idOf(match);
  return id === null ? null : { id, reader: match?.[4] ?? '', nonce: match?.[5] ?? '' };
}

function sha256Start(sha256: Uint8Array): string {
  if (sha256.length !== 32) throw invalid(`a SHA-256 has 32 bytes, not ${sha256.length}`);
  return toHex(sha256).slice(0, 16);
}

function seqText(seq: number, what: string): string {
  if (!Number.isSafeInteger(seq) || seq < 1) throw invalid(`${what} ${seq} is not a whole number from 1`);
  return String(seq).padStart(20, '0');
}

function seqOf(match: RegExpExecArray | null): number | null {
  const seq = Number(match?.[1] ?? 0);
  return seq >= 1 && Number.isSafeInteger(seq) ? seq : null;
}

/** From the first three groups: version, lineage, epoch. */
function idOf(match: RegExpExecArray | null): CheckpointId | null {
  if (match === null) return null;
  const version = BigInt(match[1] ?? '-1');
  const lineage = Number(match[2]);
  const epoch = Number(match[3]);
  return version <= VERSION_MAX && areUint32(lineage, epoch) ? { lineage, epoch, version } : null;
}

/** From groups four and five. */
function writerIn(match: RegExpExecArray | null): WriterIncarnation | null {
  const writer = Number(match?.[4]);
  const incarnation = Number(match?.[5]);
  return areUint32(writer, incarnation) ? { writer, incarnation } : null;
}

function writerText({ writer, incarnation }: WriterIncarnation): string {
  return `${uint32(writer, 'writer')}.${uint32(incarnation, 'incarnation')}`;
}

function areUint32(...values: readonly number[]): boolean {
  return values.every(isUint32);
}

function uint32(value: number, what: string): number {
  if (!areUint32(value)) throw invalid(`${what} ${value} is not a whole number from 0 to ${UINT32_MAX}`);
  return value;
}

function checkedNonce(nonce: string): string {
  if (NONCE_WHOLE.test(nonce)) return nonce;
  throw invalid(`nonce ${JSON.stringify(nonce)} is not 1 to ${NONCE_HEX_DIGITS_MAX} lower-case hex digits`);
}

function checkedWord(word: string, what: string): string {
  if (WORD_WHOLE.test(word)) return word;
  throw invalid(
    `${what} ${JSON.stringify(word)} is not 1 to 128 letters, digits, '.', '_' and '-' that begin with a letter, digit or '_'`,
  );
}

function invalid(message: string): CheckpointError {
  return new CheckpointError('InvalidArgument', message);
}
