/** What a checkpoint of ElasticDL holds, whatever form it was written in. */

/** Types of elements. `bfloat16` is what ElasticDL's parameter server in Go calls Float16. */
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

/** A table that the model has, whether or not any of its rows is there. */
export interface TableInfo {
  readonly name: string;
  /** Elements of a row. */
  readonly dim: number;
  /** How rows begin that nobody has trained yet, such as `uniform`. */
  readonly initializer: string;
  /** `null`: the form has no place for it, or nobody filled it in. */
  readonly dtype: Dtype | null;
}

/** A variable that is no embedding table. */
export interface Tensor {
  readonly dtype: Dtype;
  /** Empty for a scalar. */
  readonly shape: readonly number[];
  /** Elements in C order, little-endian. */
  readonly data: Uint8Array;
}

/** Rows of an embedding table, in the order in which they were written: nothing sorts them. */
export interface EmbeddingRows {
  readonly dtype: Dtype;
  readonly dim: number;
  /** Row `i` belongs to `ids[i]`. */
  readonly ids: BigInt64Array;
  /** `ids.length` rows of `dim` elements, as in a tensor. */
  readonly values: Uint8Array;
}

/** The model as one parameter server holds it: its share of variables and rows. */
export interface ModelShard {
  /** How many updates this server had applied: -2^31 to 2^31 - 1. */
  readonly version: number;
  /** Of all tables of the model, on every server. Names are unique. */
  readonly infos: readonly TableInfo[];
  readonly dense: ReadonlyMap<string, Tensor>;
  /** Tables that have rows here, and any others; no name is in `dense` too. */
  readonly tables: ReadonlyMap<string, EmbeddingRows>;
}
