/**
 * Positions of everything in a shard's file: the result of reading its structure without its
 * values.
 */

import type { Dtype, TableInfo } from './model.ts';

/**
 * The forms of ElasticDL's files. A file counts as the first form whose fields suffice for it.
 * - `S0`, `S1`, `S2`: a map of tensors; with row ids from S1 on, with types from S2 on.
 * - `S2a`: a list of tensors with the name in field 5; one branch wrote this for a day.
 * - `S3`, `S4`: a list of tensors with the name in field 1. From S4 on, the form of the design
 *   document, with infos of the tables.
 * - `S5`: as S4, with TensorFlow's numbers for types.
 * - `S6`, `S7`: maps of TensorFlow's tensors, one for dense variables and one for tables. The two
 *   differ in their field numbers.
 */
export type Form = 'S0' | 'S1' | 'S2' | 'S2a' | 'S3' | 'S4' | 'S5' | 'S6' | 'S7';

/** The forms that can be written: that of the design document, and that of the last release. */
export type WrittenForm = Extract<Form, 'S4' | 'S7'>;

/**
 * Which numbers mean which types: ElasticDL's own up to S4, TensorFlow's from S5 on. The same field
 * holds both.
 */
export type DtypeNumbering = 'elasticdl' | 'tensorflow';

export interface ByteRange {
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

export interface TensorPlace {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** The elements; its length is exactly what type and shape need. */
  readonly content: ByteRange;
}

/** Ids that are contiguous in the file. */
export interface IdRun extends ByteRange {
  /** False: each id has a tag before it, always the same one. True: only varints. */
  readonly isPacked: boolean;
}

export interface TablePlace {
  readonly name: string;
  readonly dtype: Dtype;
  readonly dim: number;
  /** By the shape of the values. Only reading the ids shows whether there are as many. */
  readonly rowCount: number;
  readonly values: ByteRange;
  /** In order. Empty without rows. */
  readonly ids: readonly IdRun[];
}

export interface ShardLayout {
  readonly form: Form;
  /** `null` if no content of the file shows it. */
  readonly numbering: DtypeNumbering | null;
  /** 0 if the field is missing. */
  readonly version: number;
  readonly infos: readonly TableInfo[];
  readonly dense: readonly TensorPlace[];
  readonly tables: readonly TablePlace[];
}
