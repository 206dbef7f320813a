import type { ModelShard } from '../model.ts';

/**
 * A copy that shares no memory with the shard: what is trained meanwhile does not reach it. It takes as much memory as the shard, and no more
 * time than copying it.
 */
export function snapshotShard({ version, infos, dense, tables }: ModelShard): ModelShard {
  return {
    version,
    infos: infos.map((info) => ({ ...info })),
    dense: new Map(
      Array.from(dense, ([name, tensor]) => [
        name,
        { ...tensor, shape: [...tensor.shape], data: tensor.data.slice() },
      ]),
    ),
    tables: new Map(
      Array.from(tables, ([name, rows]) => [
        name,
        { ...rows, ids: rows.ids.slice(), values: rows.values.slice() },
      ]),
    ),
  };
}
