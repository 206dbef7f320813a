/** Who receives a shard that is put together from others: memory, a file of ElasticDL's, a file of another format. */

import type { Dtype, TableInfo } from './model.ts';

export interface DenseOutline {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

export interface TableOutline {
  readonly name: string;
  readonly dtype: Dtype;
  readonly dim: number;
  readonly rowCount: number;
  /** Of its ids as varints, one after the other. */
  readonly idsBytes: number;
}

/** What a shard will hold, known before its first value. */
export interface ShardOutline {
  readonly version: number;
  readonly infos: readonly TableInfo[];
  readonly dense: readonly DenseOutline[];
  readonly tables: readonly TableOutline[];
}

/**
 * `begin` comes first and once, `end` last and once, unless something failed. Calls for one variable or table come one at a time and in
 * order, without a gap; for different ones they may be under way together. Memory that is passed in is the sink's until the call settles.
 * Nothing of it is to be shown before all that was read has been proven, which is after `end`: that is the business of whoever opened it.
 */
export interface ShardSink {
  begin(outline: ShardOutline): Promise<void>;
  putDense(name: string, offsetBytes: number, bytes: Uint8Array): Promise<void>;
  /** `ids.length` rows, the first of which is row `firstRow` of the table here. */
  putRows(table: string, firstRow: number, ids: BigInt64Array, values: Uint8Array): Promise<void>;
  /**
   * For a sink that writes past the page cache: where in a page of 4,096 bytes the values of a call that begins with `firstRow` had best
   * lie in memory. Whoever calls follows it where that costs nothing.
   */
  placeInPage?(table: string, firstRow: number): number;
  end(): Promise<void>;
}
