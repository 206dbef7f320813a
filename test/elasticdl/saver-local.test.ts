/** Parameter servers that save to a directory, as ElasticDL's do. */

import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32c } from '@holdfast/core';
import { openLocalStore } from '@holdfast/store-local';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bytesOf, filesOf, liveVersions, startServer } from './saver-job.ts';

let root: string;

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-saver-'));
});

afterAll(() => rm(root, { recursive: true, force: true }));

/** A store as one process opens it. */
function storeIn(name: string) {
  return openLocalStore(`file://${join(root, name)}?durability=none`, { crc32c });
}

test('one server, 100 versions, a checkpoint at every fifth, keeping 3: exactly 90, 95 and 100', async () => {
  {
    await using server = startServer(await storeIn('one'), [0, 1], { keepCheckpointMax: 3 });
    for (let version = 1; version <= 100; version++) {
      if (server.saver.needToCheckpoint(version)) await server.save(version);
    }
  }
  expect(await liveVersions(await storeIn('one'))).toEqual([100, 95, 90]);
  for (const version of [90, 95, 100]) {
    expect(await filesOf(await storeIn('one'), version)).toEqual({
      'variables-0-of-1.ckpt': bytesOf(version),
    });
  }
});

test('two servers that are not in step, and one of them begins a second life: what both have delivered is there', async () => {
  await using fast = startServer(await storeIn('two'), [0, 2], { keepCheckpointMax: 2 });
  {
    await using former = startServer(await storeIn('two'), [1, 2]);
    for (const version of [5, 10, 15, 20]) await fast.save(version);
    expect([await former.save(5), await former.save(10)]).toEqual([true, true]);
  }
  await using again = startServer(await storeIn('two'), [1, 2]);
  await again.manager.join();
  expect([await again.save(15), await again.save(20)]).toEqual([true, true]);
  await again.manager.admin.collect({ force: true });
  expect(await liveVersions(await storeIn('two'))).toEqual([20, 15]);
  expect(await filesOf(await storeIn('two'), 20)).toEqual({
    'variables-0-of-2.ckpt': bytesOf(20, 0),
    'variables-1-of-2.ckpt': bytesOf(20, 1),
  });
});
