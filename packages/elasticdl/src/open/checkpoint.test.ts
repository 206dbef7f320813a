import { createCheckpointManager, type RunManager } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openCheckpointShards } from './checkpoint.ts';

let manager: RunManager;

beforeEach(() => {
  manager = createCheckpointManager({ store: new MemoryStore() });
});

afterEach(() => manager.close());

async function checkpointOf(...names: string[]) {
  const buffers = Object.fromEntries(names.map((name) => [name, new TextEncoder().encode(name)]));
  await manager.save({ version: 100, buffers });
  const checkpoint = await manager.get(100);
  if (!checkpoint) throw new Error('version 100 is not there');
  return checkpoint;
}

test('shards of a checkpoint: by index, its version, their bytes proven; other files are passed over', async () => {
  await using checkpoint = await checkpointOf(
    'variables-1-of-2.ckpt',
    'variables-0-of-2.ckpt',
    'worker/variables-0-of-9.ckpt',
    'optimizer.bin',
  );
  await using set = await openCheckpointShards(checkpoint);
  expect([set.where, set.version]).toEqual(['version 100', 100n]);
  expect(set.shards.map(({ name }) => name)).toEqual(['variables-0-of-2.ckpt', 'variables-1-of-2.ckpt']);
  const source = set.shards[1]?.source;
  const buffer = new Uint8Array(source?.sizeBytes ?? 0);
  await source?.readInto(0, buffer);
  await source?.assertUnchanged();
  expect(new TextDecoder().decode(buffer)).toBe('variables-1-of-2.ckpt');
  await set.close();
  expect(await manager.admin.leases()).toEqual([]);
});

test('shards may lie in a folder that is called as a version is', async () => {
  await using checkpoint = await checkpointOf('version_7/variables-0-of-1.chkpt', 'notes/readme.txt');
  await using set = await openCheckpointShards(checkpoint, { where: 'memory://run, version 100' });
  expect([set.where, set.version]).toEqual(['memory://run, version 100', 100n]);
  expect(set.shards[0]?.name).toBe('variables-0-of-1.chkpt');
  expect(set.shards[0]?.source.sizeBytes).toBe('version_7/variables-0-of-1.chkpt'.length);
});

test('a checkpoint without shards is NotFound, and the message shows its files', async () => {
  await using checkpoint = await checkpointOf('a', 'b', 'c', 'd', 'e', 'f', 'g');
  await expect(openCheckpointShards(checkpoint)).rejects.toMatchObject({
    code: 'NotFound',
    message:
      'version 100 holds no shard of ElasticDL (variables-i-of-n.ckpt); its files are a, b, c, d, e and 2 more',
  });
});

test('a checkpoint that lacks a shard is Corrupt', async () => {
  await using checkpoint = await checkpointOf('variables-0-of-2.ckpt', 'other');
  await expect(openCheckpointShards(checkpoint)).rejects.toMatchObject({
    code: 'Corrupt',
    message: 'version 100 lacks shard 1 of 2; it has 0',
  });
});

test('shards in two folders are refused: it is not known which are meant', async () => {
  await using checkpoint = await checkpointOf('version-7/variables-0-of-1.ckpt', 'variables-0-of-1.ckpt');
  await expect(openCheckpointShards(checkpoint)).rejects.toMatchObject({
    code: 'Corrupt',
    message:
      'version 100 holds shards of more than one checkpoint: variables-0-of-1.ckpt and version-7/variables-0-of-1.ckpt',
  });
});

test('a checkpoint that is being written is InvalidArgument', async () => {
  await using checkpoint = await manager.create(1);
  await expect(openCheckpointShards(checkpoint)).rejects.toMatchObject({ code: 'InvalidArgument' });
});
