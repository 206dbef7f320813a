import { itemBytes } from '../dtype.ts';
import type { EmbeddingRows, ModelShard, Tensor } from '../model.ts';
import type { ShardOutline, ShardSink } from '../sink.ts';

/** Assembles a shard in memory. Needs as much memory as the shard. */
export class MemorySink implements ShardSink {
  #shard: ModelShard | null = null;
  readonly #dense = new Map<string, Tensor>();
  readonly #tables = new Map<string, EmbeddingRows>();

  /** Complete after `end`. */
  get shard(): ModelShard {
    if (this.#shard === null) throw new Error('a shard was asked for before it was begun');
    return this.#shard;
  }

  async begin({ version, infos, dense, tables }: ShardOutline): Promise<void> {
    for (const { name, dtype, shape } of dense) {
      const sizeBytes = shape.reduce((product, size) => product * size, itemBytes(dtype));
      this.#dense.set(name, { dtype, shape, data: new Uint8Array(sizeBytes) });
    }
    for (const { name, dtype, dim, rowCount } of tables) {
      const values = new Uint8Array(rowCount * dim * itemBytes(dtype));
      this.#tables.set(name, { dtype, dim, ids: new BigInt64Array(rowCount), values });
    }
    this.#shard = { version, infos, dense: this.#dense, tables: this.#tables };
  }

  async putDense(name: string, offsetBytes: number, bytes: Uint8Array): Promise<void> {
    this.#dense.get(name)?.data.set(bytes, offsetBytes);
  }

  async putRows(table: string, firstRow: number, ids: BigInt64Array, values: Uint8Array): Promise<void> {
    const rows = this.#tables.get(table);
    rows?.ids.set(ids, firstRow);
    rows?.values.set(values, firstRow * rows.dim * itemBytes(rows.dtype));
  }

  async end(): Promise<void> {
    // Nothing to do: all values are in place.
  }
}
