/**
 * How much one record may hold. Readers check every limit before they allocate what it counts, so a
 * record with a right checksum costs bounded memory and time, whoever wrote it. Writers keep to the
 * same limits: what `encodeRecord` writes, `decodeRecord` reads.
 */

import { runKey } from './keys.ts';
import type { RecordKind } from './record-types.ts';
import { ValueProblem } from './value-problem.ts';

const KIB = 1024;
const MIB = 1024 * KIB;

/** Bytes of the largest record of any kind. */
export const RECORD_BYTES_MAX = 16 * MIB;

/** Bytes of the largest record of each kind, its checksum included. */
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

/** Bytes of the largest record that may lie under a key: no more are fetched. */
export function recordBytesMax(key: string): number {
  if (key === runKey) return RECORD_BYTES_MAX_OF.run;
  const kind = KIND_OF_FOLDER[key.slice(0, key.indexOf('/'))];
  return kind === undefined ? RECORD_BYTES_MAX : RECORD_BYTES_MAX_OF[kind];
}

/** Arrays and objects within each other, the outermost included. The records themselves need 6. */
export const NESTING_MAX = 32;

/** UTF-8 bytes of one string or name in a record, as they stand in the JSON between the quotes. */
export const STRING_BYTES_MAX = MIB;

/** Characters of base64 in one field of bytes: the CRC32C of 786,432 parts of a file. */
export const BASE64_CHARS_MAX = 4 * MIB;

/** Members of one object that the schema does not know. */
export const UNKNOWN_MEMBERS_MAX = 256;

/**
 * What the values of one record may take in memory, counted with the costs below. The rest of
 * 64 MiB is for what is alive only for a moment: the text of one string, old backing stores of
 * arrays that grow.
 */
export const RECORD_MEMORY_MAX = 48 * MIB;

/**
 * Bytes of memory that each value is counted with. Each is at least what V8 allocates for it, also
 * where every object has names of its own and therefore a hidden class of its own.
 */
export const COST = {
  object: 80,
  /** For each field that the schema has, whether it is there or not. */
  field: 8,
  list: 48,
  /** The backing store that a list gets with its first element. */
  filledList: 160,
  /** The slot, with room to grow. */
  element: 24,
  map: 200,
  /** Beside the name and the value. */
  mapEntry: 128,
  /** Beside the name and the value. */
  unknownMember: 240,
  /** Beside its characters. */
  string: 40,
  number: 24,
  /** Beside its bytes, which are counted as the characters of their base64. */
  bytes: 280,
} as const;

/** A string takes a byte for each character if all of them are plain ASCII, else up to two. */
export function stringCost(jsonBytes: number, isPlain: boolean): number {
  return COST.string + (isPlain ? jsonBytes : 2 * jsonBytes);
}

/** Counts what the values of one record take together. */
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
