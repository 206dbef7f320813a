/**
 * Reshards a committed checkpoint. Each byte is fetched once, and the result contains only
 * committed bytes.
 */

import { createCheckpointManager, systemClock } from '@holdfast/core';
import { MemoryStore, ObservedStore, type StoreCall } from '@holdfast/core/store';
import {
  type Dtype,
  decodeShard,
  encodeShard,
  type ModelShard,
  openCheckpointShards,
  repartition,
  shardFile,
} from '@holdfast/elasticdl';
import { expect, test } from 'vitest';
import { memoryTarget } from './memory-target.ts';

const DIM = 16;
const ROWS = 20_000;

function shard(index: number): ModelShard {
  const tables = ['a', 'b'].map((name) => {
    const ids = BigInt64Array.from({ length: ROWS }, (_, row) => BigInt(2 * row + index));
    const values = new Float32Array(ROWS * DIM).map((_, at) => at % 1000);
    return [
      name,
      { dtype: 'float32' as Dtype, dim: DIM, ids, values: new Uint8Array(values.buffer) },
    ] as const;
  });
  const infos = tables.map(([name]) => ({
    name,
    dim: DIM,
    initializer: 'uniform',
    dtype: 'float32' as Dtype,
  }));
  const data = new Uint8Array(4000).fill(index);
  const dense = new Map([[`v${index}`, { dtype: 'float32' as Dtype, shape: [1000], data }]]);
  return { version: 7, infos, dense, tables: new Map(tables) };
}

const BUFFERS = Object.fromEntries(
  [0, 1].map((index) => [shardFile(index, 2), Buffer.concat([...encodeShard(shard(index)).chunks()])]),
);
const SIZE_BYTES = Object.values(BUFFERS).reduce((sum, { byteLength }) => sum + byteLength, 0);

async function savedRun() {
  const store = new MemoryStore();
  const calls: StoreCall[] = [];
  const manager = createCheckpointManager({
    store: new ObservedStore(store, { clock: systemClock, onCall: (call) => calls.push(call) }),
  });
  await manager.save({ version: 7, buffers: BUFFERS });
  calls.length = 0;
  return { store, manager, calls };
}

test('every byte of the payload is fetched exactly once: what was read by the way is not read again to be proven', async () => {
  const { manager, calls } = await savedRun();
  await using _ = { [Symbol.asyncDispose]: () => manager.close() };
  await using checkpoint = (await manager.get(7))!;
  await using set = await openCheckpointShards(checkpoint);
  const target = memoryTarget();
  await repartition(set, target, { count: 3, bufferBytes: 2 ** 20 });
  const fetched = calls.filter(({ operation }) => operation === 'readInto');
  expect(fetched.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(SIZE_BYTES);
  const shards = await Promise.all(Object.values(target.files).map((bytes) => decodeShard(bytes)));
  expect(shards.reduce((sum, { tables }) => sum + tables.get('b')!.ids.length, 0)).toBe(2 * ROWS);
});

test('a row that is damaged in the store: Corrupt, and nothing is published', async () => {
  const { manager, store } = await savedRun();
  await using _ = { [Symbol.asyncDispose]: () => manager.close() };
  const bytes = BUFFERS[shardFile(1, 2)]!;
  const damaged = new ObservedStore(store, { clock: systemClock, onCall: () => undefined });
  const readInto = damaged.readInto.bind(damaged);
  damaged.readInto = async (key, offsetBytes, buffer, options) => {
    const count = await readInto(key, offsetBytes, buffer, options);
    const at = Math.floor(bytes.byteLength / 2) - offsetBytes;
    if (key.includes('variables-1') && at >= 0 && at < count) buffer[at]! ^= 1;
    return count;
  };
  await using reader = createCheckpointManager({ store: damaged });
  await using checkpoint = (await reader.get(7))!;
  await using set = await openCheckpointShards(checkpoint);
  const target = memoryTarget();
  await expect(repartition(set, target, { count: 3, bufferBytes: 2 ** 20 })).rejects.toMatchObject({
    code: 'Corrupt',
  });
  expect(target.state).toBe('discarded');
});
