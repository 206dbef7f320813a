/** Converts a parameter server's share to the format of ElasticDL's checkpoints and back. */

import type { EmbeddingRows, ModelShard, TableInfo, Tensor } from '@holdfast/elasticdl';
import { expectThat } from './checks.ts';
import { ParameterShard } from './parameter-shard.ts';
import { DIM, type Shape, TABLE_NAMES } from './parameters.ts';
import { type Position, rowCountOf, serverOfRow, slotOfRow, variablesOf } from './placement.ts';

/**
 * Each table has a second one with the optimizer's state. Its name follows ElasticDL's rule for
 * such tables.
 */
const accumulatorsOf = (table: string) => `${table}-accumulator`;

const INFOS: readonly TableInfo[] = TABLE_NAMES.flatMap((name) => [
  { name, dim: DIM, initializer: 'uniform', dtype: 'float32' },
  { name: accumulatorsOf(name), dim: DIM, initializer: 'constant', dtype: 'float32' },
]);

/** Returns views without copying. The shard must not learn until these views are saved. */
export function toModelShard({ position, version, state }: ParameterShard): ModelShard {
  const tables = new Map<string, EmbeddingRows>();
  for (const [table, name] of TABLE_NAMES.entries()) {
    const rows = state.rows[table] as Float32Array;
    const ids = idsOf(rows.length / DIM, position);
    tables.set(name, { dtype: 'float32', dim: DIM, ids, values: bytesOf(rows) });
    const values = bytesOf(state.accumulators[table] as Float32Array);
    tables.set(accumulatorsOf(name), { dtype: 'float32', dim: DIM, ids, values });
  }
  const dense = new Map<string, Tensor>();
  for (const [i, { name, shape }] of variablesOf(position).entries()) {
    dense.set(name, { dtype: 'float32', shape, data: bytesOf(state.dense[i] as Float32Array) });
  }
  return { version, infos: INFOS, dense, tables };
}

/**
 * Copies the shard. Rows may come in any order. Every row must be present and nothing else, because
 * a model that lacks a row is not fully restored.
 */
export function fromModelShard(shard: ModelShard, shape: Shape, position: Position): ParameterShard {
  const variables = variablesOf(position);
  expectThat(
    shard.dense.size === variables.length,
    `${shard.dense.size} dense variables were restored, expected ${variables.length}`,
  );
  const restored = (suffix: (table: string) => string) =>
    TABLE_NAMES.map((name, table) => {
      const rowCount = rowCountOf(shape.rowCounts[table] as number, position);
      return rowsInOrder(suffix(name), shard.tables.get(suffix(name)), rowCount, position);
    });
  return new ParameterShard(position, shard.version, {
    rows: restored((table) => table),
    accumulators: restored(accumulatorsOf),
    dense: variables.map(({ name, length }) => {
      const data = shard.dense.get(name)?.data;
      expectThat(data?.byteLength === length * Float32Array.BYTES_PER_ELEMENT, `${name} was not restored`);
      return floatsOf(data);
    }),
  });
}

function rowsInOrder(
  name: string,
  rows: EmbeddingRows | undefined,
  rowCount: number,
  position: Position,
): Float32Array {
  expectThat(
    rows?.ids.length === rowCount && rows.dim === DIM && rows.dtype === 'float32',
    `table ${name} was restored with ${rows?.ids.length} rows, expected ${rowCount} of ${DIM} float32`,
  );
  const values = floatsOf(rows.values);
  const ordered = new Float32Array(rowCount * DIM);
  const isThere = new Uint8Array(rowCount);
  for (const [i, wideId] of rows.ids.entries()) {
    const id = Number(wideId);
    const slot = slotOfRow(id, position);
    expectThat(
      serverOfRow(id, position.count) === position.index && isThere[slot] === 0,
      `table ${name} was restored with a row ${id}, which is twice there or another server's`,
    );
    isThere[slot] = 1;
    ordered.set(values.subarray(i * DIM, (i + 1) * DIM), slot * DIM);
  }
  return ordered;
}

/** Ids in the order of the slots. */
function idsOf(rowCount: number, { index, count }: Position): BigInt64Array {
  return BigInt64Array.from({ length: rowCount }, (_, slot) => BigInt(index + slot * count));
}

function bytesOf(values: Float32Array): Uint8Array {
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}

/** Copies the bytes, because they may be unaligned. */
function floatsOf(bytes: Uint8Array): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}
