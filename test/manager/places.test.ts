/**
 * Each run has a separate place: what a first save checks, and the error if several runs lie in one
 * place.
 */

import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { findRunsBelow } from '@holdfast/core';
import { systemClock } from '@holdfast/core/contract';
import { MemoryStore, ObservedStore } from '@holdfast/core/store';
import { openCheckpointManager } from '@holdfast/stores';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { bytes, newBucket } from './memory-run.ts';

const entry = (run: string, seq = 1) => `${run}catalog/${String(seq).padStart(20, '0')}.json`;

describe('findRunsBelow', () => {
  test('names runs at any depth with few requests, and reads nothing that they hold', async () => {
    const bucket = newBucket();
    for (const run of ['a/', 'b/deep/', 'c/'])
      for (let seq = 1; seq <= 1500; seq++) bucket.insert(entry(run, seq), bytes(1));
    for (const key of ['notes.txt', 'a/version_1/x', 'b/catalog/README', 'z']) bucket.insert(key, bytes(1));
    let calls = 0;
    const store = new ObservedStore(new MemoryStore(bucket), { clock: systemClock, onCall: () => calls++ });
    expect(await findRunsBelow(store)).toEqual({ names: ['a', 'c', 'b/deep'], isWhole: true });
    expect(calls).toBe(8);
  });

  test('stops after ten runs and after many directories of other objects; a run here is not one below', async () => {
    const many = newBucket();
    for (let run = 10; run < 40; run++) many.insert(entry(`r${run}/`), bytes(1));
    expect((await findRunsBelow(new MemoryStore(many))).names).toHaveLength(10);
    const other = newBucket();
    for (let index = 10; index < 99; index++) other.insert(`f${index}/x`, bytes(1));
    other.insert(entry('z/'), bytes(1));
    expect(await findRunsBelow(new MemoryStore(other))).toEqual({ names: [], isWhole: false });
    const all = { names: ['z'], isWhole: true };
    expect(await findRunsBelow(new MemoryStore(other), { requestsMax: 2000 })).toEqual(all);
    const own = newBucket();
    own.insert(entry(''), bytes(1));
    expect(await findRunsBelow(new MemoryStore(own))).toEqual({ names: [], isWhole: true });
  });
});

describe('the first save at a place', () => {
  let root: string;
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'holdfast-places-'));
  });
  afterEach(() => rm(root, { recursive: true }));

  const save = async (path: string, version: number, options = {}) => {
    await using manager = await openCheckpointManager(pathToFileURL(join(root, path)).href, options);
    return await manager.save({ version, buffers: { a: bytes(4) } });
  };

  test.each(['.holdfast-a/run', 'a\tb/run', 'run\n'])(
    'that no search would find is refused: %j',
    async (path) => {
      await expect(save(path, 1)).rejects.toMatchObject({
        code: 'InvalidArgument',
        message: expect.stringMatching(/^no search would find a run at .*: a segment of its path is empty/),
      });
      await save(path, 1, { mayShareItsPlace: true });
      // One that is there already is used as any other.
      await save(path, 2);
    },
  );

  test('that holds runs, or lies in one, is refused unless it is asked for; a second save is not asked', async () => {
    await save('runs/gpt', 1);
    await expect(save('runs', 1)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining('holds runs already: gpt'),
    });
    await expect(save('runs/gpt/deep/er', 1)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining(`lies in the run ${join(root, 'runs/gpt')}`),
    });
    await save('runs/bert', 1);
    for (let index = 0; index < 50; index++)
      await mkdir(join(root, `many/d${index}/deep`), { recursive: true });
    await save('many/z/run', 1);
    await expect(save('many', 1)).rejects.toMatchObject({
      message: expect.stringContaining('holds runs already: z/run'),
    });
    for (let index = 0; index < 1100; index++) await mkdir(join(root, `more/d${index}`), { recursive: true });
    await expect(save('more', 1)).rejects.toMatchObject({
      code: 'InvalidArgument',
      message: expect.stringContaining('holds more directories than are searched for runs'),
      context: { place: 'shared' },
    });
    await save('more', 1, { mayShareItsPlace: true });
    await save('runs', 1, { mayShareItsPlace: true });
    await save('runs', 2);
    await save('runs/gpt', 2);
  });

  test('the names of the runs below are told', async () => {
    await save('runs/gpt', 1);
    await save('runs/bert', 1);
    await using manager = await openCheckpointManager(pathToFileURL(join(root, 'runs')).href);
    expect(await manager.admin.runsBelow()).toEqual(['bert', 'gpt']);
  });
});
