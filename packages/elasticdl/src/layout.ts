/** Where everything lies in a shard's file: what reading its structure finds, without its values. */

import type { Dtype, TableInfo } from './model.ts';

/**
 * The forms that ElasticDL's files have had, by the first schema whose fields suffice for the file.
 *
 * - `S0`, `S1`, `S2`: a map of tensors; with row ids from S1 on, with types from S2 on.
 * - `S2a`: a list of tensors, as a branch had it for a day: the name is field 5.
 * - `S3`, `S4`: a list of tensors with their names in field 1; with infos of the tables from S4 on, the form of the design document.
 * - `S5`: as S4, with TensorFlow's numbers for types.
 * - `S6`, `S7`: maps of TensorFlow's tensors, one for dense variables and one for tables; the numbers of their fields differ.
 */
export type Form = 'S0' | 'S1' | 'S2' | 'S2a' | 'S3' | 'S4' | 'S5' | 'S6' | 'S7';

/** The forms that are written: that of the design document, and that of the last release. */
export type WrittenForm = Extract<Form, 'S4' | 'S7'>;

/** Which numbers stand for types: ElasticDL's own up to S4, TensorFlow's from S5 on. The same field holds both. */
export type DtypeNumbering = 'elasticdl' | 'tensorflow';

export interface ByteRange {
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

export interface TensorPlace {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  /** Its elements: exactly as many bytes as type and shape ask for. */
  readonly content: ByteRange;
}

/** Ids that stand together in the file. */
export interface IdRun extends ByteRange {
  /** False: a tag stands before each one, the same before all. Otherwise nothing but varints. */
  readonly isPacked: boolean;
}

export interface TablePlace {
  readonly name: string;
  readonly dtype: Dtype;
  readonly dim: number;
  /** By the shape of the values; reading the ids finds out whether they are as many. */
  readonly rowCount: number;
  readonly values: ByteRange;
  /** In order. Empty without rows. */
  readonly ids: readonly IdRun[];
}

export interface ShardLayout {
  readonly form: Form;
  /** `null`: the file holds nothing that tells. */
  readonly numbering: DtypeNumbering | null;
  /** 0 where the field is missing. */
  readonly version: number;
  readonly infos: readonly TableInfo[];
  readonly dense: readonly TensorPlace[];
  readonly tables: readonly TablePlace[];
}
