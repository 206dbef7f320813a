/**
 * Limits on the content of one record. Readers check every limit before they allocate memory for
 * what it counts. So a record with a valid checksum costs bounded memory and time, whatever program
 * wrote it. Writers keep the same limits: `decodeRecord` reads everything that `encodeRecord`
 * writes.
 */

import { runKey } from './keys.ts';
import type { RecordKind } from './record-types.ts';
import { ValueProblem } from './value-problem.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Maximum size in bytes of a record of any kind. */
export const RECORD_BYTES_MAX = 16 * MIB;

/** Maximum size in bytes of each kind of record, its checksum included. */
export const RECORD_BYTES_MAX_OF: Readonly<Record<RecordKind, number>> = {
  run: MIB,
  'catalog-entry': RECORD_BYTES_MAX,
  'catalog-page': RECORD_BYTES_MAX,
  claim: 64 * KIB,
  receipt: RECORD_BYTES_MAX,
  'file-list': RECORD_BYTES_MAX,
  manifest: RECORD_BYTES_MAX,
  'read-lease': 64 * KIB,
  upload: 64 * KIB,
  grant: 64 * KIB,
};

const KIND_OF_FOLDER: Readonly<Record<string, RecordKind>> = {
  writers: 'claim',
  leases: 'read-lease',
  uploads: 'upload',
  elections: 'grant',
};

/** Maximum size in bytes of a record under this key; a reader fetches no more. */
export function recordBytesMax(key: string): number {
  if (key === runKey) return RECORD_BYTES_MAX_OF.run;
  const kind = KIND_OF_FOLDER[key.slice(0, key.indexOf('/'))];
  return kind === undefined ? RECORD_BYTES_MAX : RECORD_BYTES_MAX_OF[kind];
}

/** Maximum nesting of arrays and objects, the outermost included. The records themselves need 6. */
export const NESTING_MAX = 32;

/**
 * Maximum UTF-8 bytes of one string or name in a record, counted between the quotes in the JSON.
 */
export const STRING_BYTES_MAX = MIB;

/** Maximum base64 characters in one field of bytes: the CRC32C of 786,432 parts of a file. */
export const BASE64_CHARS_MAX = 4 * MIB;

/** Maximum number of members of one object that the schema does not know. */
export const UNKNOWN_MEMBERS_MAX = 256;

/**
 * Maximum memory for the values of one record, counted with the costs below. The rest of 64 MiB is
 * for short-lived memory: the text of one string, and old backing stores of growing arrays.
 */
export const RECORD_MEMORY_MAX = 48 * MIB;

/**
 * Bytes of memory counted for each value. Each is at least what V8 allocates, even if every object
 * has its own names and therefore its own hidden class.
 */
export const COST = {
  object: 80,
  /** For each field of the schema, whether it is present or not. */
  field: 8,
  list: 48,
  /** The backing store that a list gets with its first element. */
  filledList: 160,
  /** The slot, with room to grow. */
  element: 24,
  map: 200,
  /** In addition to the name and the value. */
  mapEntry: 128,
  /** In addition to the name and the value. */
  unknownMember: 240,
  /** In addition to its characters. */
  string: 40,
  number: 24,
  /** In addition to its bytes, which are counted as the characters of their base64. */
  bytes: 280,
} as const;

/** A string takes one byte per character if it is plain ASCII, else up to two. */
export function stringCost(jsonBytes: number, isPlain: boolean): number {
  return COST.string + (isPlain ? jsonBytes : 2 * jsonBytes);
}

/** Counts the memory of all values of one record. */
export class MemoryBudget {
  #left: number = RECORD_MEMORY_MAX;

  charge(cost: number): void {
    this.#left -= cost;
    if (this.#left >= 0) return;
    throw new ValueProblem(
      'the record',
      `small enough that its values take at most ${RECORD_MEMORY_MAX} bytes of memory`,
      'larger',
    );
  }
}
