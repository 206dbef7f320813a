import type { EmbeddingRows, ModelShard } from '@holdfast/elasticdl';
import { describe, expect, it } from 'vitest';
import { DemoFailure } from './checks.ts';
import { fromModelShard, toModelShard } from './model-shard.ts';
import { ParameterShard } from './parameter-shard.ts';
import { DIM, type Shape } from './parameters.ts';

const shape: Shape = { seed: 3, rowCounts: [40, 10, 24] };
const position = { index: 1, count: 3 };

function learned(): ParameterShard {
  const shard = ParameterShard.begin(shape, position);
  const ids = [Int32Array.of(1, 37), Int32Array.of(4), Int32Array.of()];
  const { rows, dense } = shard.pull(ids);
  shard.push(ids, { rows, dense: dense.map((values) => values.slice()) });
  return shard;
}

function withTable(
  shard: ModelShard,
  name: string,
  change: (rows: EmbeddingRows) => EmbeddingRows,
): ModelShard {
  const rows = shard.tables.get(name)!;
  return { ...shard, tables: new Map([...shard.tables, [name, change(rows)]]) };
}

function reversed({ ids, values, ...rest }: EmbeddingRows): EmbeddingRows {
  const rowBytes = DIM * Float32Array.BYTES_PER_ELEMENT;
  const turned = values.slice();
  for (let row = 0; row < ids.length; row++) {
    turned.set(values.subarray(row * rowBytes, (row + 1) * rowBytes), (ids.length - 1 - row) * rowBytes);
  }
  return { ...rest, ids: ids.toReversed(), values: turned };
}

describe('fromModelShard', () => {
  it('gives back what toModelShard was given: rows, accumulators, dense variables, version', () => {
    const shard = learned();
    const restored = fromModelShard(toModelShard(shard), shape, position);
    expect(restored.version).toBe(1);
    expect(restored.state).toEqual(shard.state);
    expect(shard.state).not.toEqual(ParameterShard.begin(shape, position).state);
  });

  it('rows may come in any order', () => {
    const shard = learned();
    const mixed = withTable(toModelShard(shard), 'user', reversed);
    expect(fromModelShard(mixed, shape, position).state).toEqual(shard.state);
  });

  it('a missing row, one that is twice there, another server’s, and a missing variable are found', () => {
    const whole = toModelShard(learned());
    const cases: [ModelShard, string][] = [
      [{ ...whole, tables: new Map() }, 'table user was restored with undefined rows, expected 13'],
      [
        withTable(whole, 'item', (rows) => ({ ...rows, ids: rows.ids.with(0, 4n) })),
        'table item was restored with a row 4',
      ],
      [
        withTable(whole, 'hour', (rows) => ({ ...rows, ids: rows.ids.with(0, 2n) })),
        'table hour was restored with a row 2',
      ],
      [{ ...whole, dense: new Map() }, '0 dense variables were restored'],
    ];
    for (const [shard, message] of cases) {
      expect(() => fromModelShard(shard, shape, position)).toThrow(DemoFailure);
      expect(() => fromModelShard(shard, shape, position)).toThrow(message);
    }
  });
});
