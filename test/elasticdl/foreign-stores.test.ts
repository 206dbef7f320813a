/**
 * On every kind of store: ElasticDL files below a prefix are imported into a run, read there, and
 * exported unchanged.
 */

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createCheckpointManager } from '@holdfast/core';
import {
  decodeShard,
  exportPlain,
  importAll,
  latestValid,
  openCheckpointShards,
  prefixPlace,
  type ShardSet,
} from '@holdfast/elasticdl';
import { localFiles } from '@holdfast/local-files';
import { openStore } from '@holdfast/stores';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CLOUDS } from '../servers/clouds.ts';
import type { TestServer } from '../servers/test-bucket.ts';
import { sampleFiles } from './sample-files.ts';

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-foreign-'));
});

afterEach(() => rm(root, { recursive: true }));

const FILES = sampleFiles({ version: 100, count: 3 });

/** A complete version 100, version 105 without its last shard, and unrelated files. */
const PLAIN: Readonly<Record<string, Uint8Array>> = {
  ...Object.fromEntries(Object.entries(FILES).map(([name, data]) => [`job/version-100/${name}`, data])),
  'job/version-105/variables-0-of-3.ckpt': new Uint8Array(9),
  'job/version-105/variables-1-of-3.ckpt': new Uint8Array(9),
  'job/version-105/variables-2-of-3.ckpt.tmp': new Uint8Array(4),
  'job/events/log': new Uint8Array(1),
};

async function decoded(set: ShardSet) {
  return Promise.all(
    set.shards.map(async ({ source }) => {
      const bytes = new Uint8Array(source.sizeBytes);
      await source.readInto(0, bytes);
      await source.assertUnchanged();
      return decodeShard(bytes);
    }),
  );
}

function movesWhole(newPlaces: TestServer['newBucket']): void {
  test('A7: the newest complete version is found below a prefix, imported, decoded, and exported byte for byte', async () => {
    const [plain, run] = [await newPlaces(), await newPlaces()];
    const store = await openStore(plain.uri, plain.env);
    await using manager = createCheckpointManager({ store: await openStore(run.uri, run.env) });
    try {
      for (const [key, data] of Object.entries(PLAIN)) await store.create(key, data);
      const place = prefixPlace(store, 'job');
      const models = await Promise.all(Object.values(FILES).map((data) => decodeShard(data)));
      {
        await using latest = await latestValid(place, { deep: true });
        expect(latest?.version).toBe(100n);
        expect(latest && (await decoded(latest))).toEqual(models);
      }
      expect(await importAll(place, manager)).toMatchObject({
        imported: [{ version: 100n, modelVersion: 100, fileCount: 3 }],
        skipped: [{ version: 105n, reason: expect.stringContaining('lacks shard 2 of 3') }],
      });
      await using checkpoint = await manager.latest();
      if (!checkpoint) throw new Error('nothing was imported');
      await using set = await openCheckpointShards(checkpoint);
      expect(await decoded(set)).toEqual(models);
      await exportPlain(set, await localFiles.openTarget(join(root, 'version-100')));
      expect((await readdir(join(root, 'version-100'))).toSorted()).toEqual(Object.keys(FILES));
      for (const [name, data] of Object.entries(FILES))
        expect(Buffer.compare(await readFile(join(root, 'version-100', name)), data)).toBe(0);
    } finally {
      await store.close();
    }
  }, 60_000);
}

describe('a directory as a store', () => {
  let count = 0;
  movesWhole(async () => {
    const directory = join(root, `place-${count++}`);
    return { uri: pathToFileURL(directory).href, env: {}, bucket: directory, endpoint: undefined };
  });
});

for (const cloud of CLOUDS)
  cloud.describeOn(`checkpoints of ElasticDL on ${cloud.title}`, (server) =>
    movesWhole(() => server().newBucket()),
  );
