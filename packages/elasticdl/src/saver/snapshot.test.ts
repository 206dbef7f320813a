import { expect, test } from 'vitest';
import type { ModelShard } from '../model.ts';
import { snapshotShard } from './snapshot.ts';

function shard(): ModelShard {
  // Views on larger memory, as those that decoding makes.
  const memory = Uint8Array.from({ length: 64 }, (_, index) => index);
  return {
    version: 7,
    infos: [{ name: 'users', dim: 2, initializer: 'uniform', dtype: 'int8' }],
    dense: new Map([['bias', { dtype: 'int8', shape: [4], data: memory.subarray(8, 12) }]]),
    tables: new Map([
      ['users', { dtype: 'int8', dim: 2, ids: BigInt64Array.of(3n, -1n), values: memory.subarray(20, 24) }],
    ]),
  };
}

test('a snapshot holds the same, and keeps it while the shard is trained', () => {
  const trained = shard();
  const snapshot = snapshotShard(trained);
  expect(snapshot).toEqual(shard());
  trained.dense.get('bias')?.data.fill(99);
  trained.tables.get('users')?.values.fill(99);
  trained.tables.get('users')?.ids.fill(99n);
  (trained.dense as Map<string, unknown>).delete('bias');
  (trained.tables as Map<string, unknown>).clear();
  (trained.infos as unknown[]).push('another');
  expect(snapshot).toEqual(shard());
});

test('a snapshot takes no more memory than what it holds', () => {
  const snapshot = snapshotShard(shard());
  expect(snapshot.dense.get('bias')?.data.buffer.byteLength).toBe(4);
  expect(snapshot.tables.get('users')?.values.buffer.byteLength).toBe(4);
});
