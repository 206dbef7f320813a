/**
 * Results of the packages for trainers can be passed to `JSON.stringify`, like those of the engine.
 */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  EarlyStopper,
  encodeShard,
  importCheckpoint,
  rankCheckpoints,
  shardsInMemory,
} from '@holdfast/elasticdl';
import { AsyncSaver, FileSystemCheckpointManager } from '@holdfast/training';
import { expect, test } from 'vitest';
import { newBucket, open } from '../manager/memory-run.ts';

const json = (value: unknown) => JSON.parse(JSON.stringify(value));

test('what is imported, ranked and evaluated', async () => {
  await using run = open(newBucket());
  const bias = { dtype: 'float32', shape: [1], data: new Uint8Array(4) } as const;
  const shard = { version: 100, infos: [], dense: new Map([['bias', bias]]), tables: new Map() };
  const file = Buffer.concat([...encodeShard(shard).chunks()]);
  await using set = shardsInMemory({ 'variables-0-of-1.ckpt': file });
  const imported = await importCheckpoint(set, run, { metrics: { auc: 0.5 } });
  expect(json(imported)).toMatchObject({ version: '100', id: { version: '100' }, modelVersion: 100 });
  const by = { metric: 'auc', mode: 'max' } as const;
  expect(json(await rankCheckpoints(run, by))).toMatchObject([{ version: '100' }]);
  const stopper = await EarlyStopper.fromCheckpoints(run, { ...by, patience: 2 });
  stopper.add({ version: 101n, metrics: { auc: 0.6 } });
  expect(json(stopper.history)).toMatchObject([{ version: '100' }, { version: '101' }]);
});

test('what a saver and a manager of directories tell', async () => {
  await using run = open(newBucket());
  await using saver = new AsyncSaver(run);
  await saver.saveAsync({ version: 7, buffers: { a: new Uint8Array(10) } });
  expect(() => JSON.stringify(saver.inFlight)).not.toThrow();
  await saver.settled();
  expect(json(saver.newest)).toMatchObject({ version: '7' });
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-json-'));
  try {
    const manager = new FileSystemCheckpointManager(directory);
    const checkpoint = await manager.create();
    const writer = checkpoint.openOutputStream('default').getWriter();
    await writer.write(new Uint8Array(1));
    await writer.close();
    await checkpoint.commit();
    expect(json(await manager.list())).toEqual([{ version: '0' }]);
    expect(json(await manager.latest())).toEqual({ version: '0' });
  } finally {
    await rm(directory, { recursive: true });
  }
});
