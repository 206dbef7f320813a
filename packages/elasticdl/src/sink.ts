/**
 * Receivers of a shard that is assembled from others: memory, an ElasticDL file, or a file of
 * another format.
 */

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
  /** Size of its ids as varints, one after the other. */
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
 * `begin` comes first and once, `end` last and once, unless something failed. Calls for one
 * variable or table come one at a time, in order and without a gap. Calls for different ones may
 * run concurrently. The sink may use memory that is passed in until the call settles.
 *
 * The output must stay invisible until everything that was read is verified, which is after `end`.
 * The code that opened the sink must ensure that.
 */
export interface ShardSink {
  begin(outline: ShardOutline): Promise<void>;
  putDense(name: string, offsetBytes: number, bytes: Uint8Array): Promise<void>;
  /** `ids.length` rows; the first one is row `firstRow` of the table here. */
  putRows(table: string, firstRow: number, ids: BigInt64Array, values: Uint8Array): Promise<void>;
  /**
   * For a sink that writes past the page cache: the best offset within a page of 4,096 bytes for
   * the values of a call that begins with `firstRow`. Callers follow it if that costs nothing.
   */
  placeInPage?(table: string, firstRow: number): number;
  end(): Promise<void>;
}
