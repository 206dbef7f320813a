import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { encodeShard, exportSafetensors, shardsInMemory } from '@holdfast/elasticdl';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { DemoFailure } from './checks.ts';
import { openExported } from './exported.ts';
import { toModelShard } from './model-shard.ts';
import { ParameterShard } from './parameter-shard.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-demo-exported-'));
});

afterEach(() => rm(directory, { recursive: true }));

it('an exported model gives the rows and variables that the server had, and says which row it lacks', async () => {
  const server = ParameterShard.begin({ seed: 3, rowCounts: [40, 10, 24] }, { index: 0, count: 1 });
  const file = Buffer.concat([...encodeShard(toModelShard(server)).chunks()]);
  await using shards = await shardsInMemory({ 'variables-0-of-1.ckpt': file });
  const path = join(directory, 'model.safetensors');
  await exportSafetensors(shards, path);

  const exported = await openExported(path);
  const ids = [Int32Array.of(39, 0, 7), Int32Array.of(5), Int32Array.of()];
  expect(await exported.pull(ids)).toEqual(server.pull(ids));
  const lacking = exported.pull([Int32Array.of(40), Int32Array.of(), Int32Array.of()]);
  await expect(lacking).rejects.toThrow(`${path} has no row 40 of user`);
  await expect(exported.push(ids, server.pull(ids))).rejects.toThrow('learns no more');
});

it('a file that lacks a tensor is not a file of this model', async () => {
  const path = join(directory, 'other.safetensors');
  const header = Buffer.from('{"bias:0":{"dtype":"F64","shape":[],"data_offsets":[0,8]}}');
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.byteLength));
  await writeFile(path, Buffer.concat([length, header, Buffer.alloc(8)]));
  await expect(openExported(path)).rejects.toThrow(DemoFailure);
  await expect(openExported(path)).rejects.toThrow('no F32 tensor bias:0');
});
