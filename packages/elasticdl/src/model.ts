/** The content of an ElasticDL checkpoint, independent of its form. */

/** Types of elements. ElasticDL's parameter server in Go calls `bfloat16` Float16. */
export type Dtype =
  | 'bool'
  | 'int8'
  | 'int16'
  | 'int32'
  | 'int64'
  | 'uint8'
  | 'uint16'
  | 'float16'
  | 'bfloat16'
  | 'float32'
  | 'float64';

/** A table of the model, with or without rows. */
export interface TableInfo {
  readonly name: string;
  /** Elements of a row. */
  readonly dim: number;
  /** How new rows are initialized, such as `uniform`. */
  readonly initializer: string;
  /** `null` if the form has no field for it, or the field was not set. */
  readonly dtype: Dtype | null;
}

/** A dense variable: any variable that is not an embedding table. */
export interface Tensor {
  readonly dtype: Dtype;
  /** Empty for a scalar. */
  readonly shape: readonly number[];
  /** Elements in C order, little-endian. */
  readonly data: Uint8Array;
}

/** Rows of an embedding table, in the order in which they were written; not sorted. */
export interface EmbeddingRows {
  readonly dtype: Dtype;
  readonly dim: number;
  /** Row `i` belongs to `ids[i]`. */
  readonly ids: BigInt64Array;
  /** `ids.length` rows of `dim` elements, as in a tensor. */
  readonly values: Uint8Array;
}

/** One parameter server's share of the model: its variables and rows. */
export interface ModelShard {
  /** Number of updates that this server had applied: -2^31 to 2^31 - 1. */
  readonly version: number;
  /** Infos of all tables of the model, the same on every server. Names are unique. */
  readonly infos: readonly TableInfo[];
  readonly dense: ReadonlyMap<string, Tensor>;
  /** Tables that have rows here, and possibly others. No name is in `dense` too. */
  readonly tables: ReadonlyMap<string, EmbeddingRows>;
}
