/** Which ElasticDL versions are usable, judged by names and by content of the files. */

import { appendFile, mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryStore } from '@holdfast/core/store';
import {
  checkShards,
  directoryPlace,
  latestValid,
  openDirectoryShards,
  prefixPlace,
  shardsInMemory,
} from '@holdfast/elasticdl';
import { FaultyStore, refuse } from '@holdfast/testkit';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { sampleFiles, writeFiles } from './sample-files.ts';

let root: string;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-foreign-'));
});

afterEach(() => rm(root, { recursive: true }));

async function writeVersion(version: number, count: number, folder = `version-${version}`) {
  await writeFiles(join(root, folder), sampleFiles({ version, count }));
}

test('A7: the newest complete version by number: incomplete newer ones and foreign entries are passed over', async () => {
  await writeVersion(95, 2);
  await writeVersion(100, 2);
  await writeVersion(105, 2);
  await rm(join(root, 'version-105/variables-0-of-2.ckpt'));
  await writeFile(join(root, 'version-105/variables-0-of-2.ckpt.tmp'), 'half');
  await mkdir(join(root, 'version-110'));
  await writeFile(join(root, 'events.log'), 'x');
  const skipped: [bigint, string][] = [];
  await using set = await latestValid(directoryPlace(root), {
    onSkipped: ({ version }, reason) => skipped.push([version, reason]),
  });
  expect([set?.version, set?.where, set?.shards.length]).toEqual([100n, join(root, 'version-100'), 2]);
  expect(skipped).toEqual([
    [110n, expect.stringContaining('holds no shard')],
    [105n, `${join(root, 'version-105')} lacks shard 0 of 2; it has 1`],
  ]);
});

test('A7: none complete, nothing there, or no such directory: null', async () => {
  expect(await latestValid(directoryPlace(root))).toBeNull();
  expect(await latestValid(directoryPlace(join(root, 'none')))).toBeNull();
  await writeVersion(5, 2);
  await rm(join(root, 'version-5/variables-1-of-2.ckpt'));
  expect(await latestValid(directoryPlace(root))).toBeNull();
});

test('deep: a complete version that does not decode is passed over; names alone would take it', async () => {
  await writeVersion(1, 2);
  await writeVersion(2, 2);
  await truncate(join(root, 'version-2/variables-1-of-2.ckpt'), 40);
  const place = directoryPlace(root);
  {
    await using set = await latestValid(place);
    expect(set?.version).toBe(2n);
  }
  const skipped: string[] = [];
  await using set = await latestValid(place, {
    deep: true,
    onSkipped: (_, reason) => skipped.push(reason),
  });
  expect(set?.version).toBe(1n);
  expect(skipped).toEqual([expect.stringContaining(join(root, 'version-2/variables-1-of-2.ckpt'))]);
});

test('a version that goes while it is looked at is passed over; a store that refuses is an error', async () => {
  const store = new MemoryStore();
  for (const version of [1, 2]) {
    for (const [name, bytes] of Object.entries(sampleFiles({ version, count: 1 })))
      await store.create(`ckpt/version-${version}/${name}`, bytes);
  }
  let answer: 'NotFound' | 'Denied' = 'NotFound';
  const faulty = new FaultyStore(store, ({ operation, key }) =>
    operation === 'head' && key.includes('version-2') ? refuse(answer) : undefined,
  );
  {
    await using set = await latestValid(prefixPlace(faulty, 'ckpt'));
    expect(set?.version).toBe(1n);
  }
  answer = 'Denied';
  await expect(latestValid(prefixPlace(faulty, 'ckpt'))).rejects.toMatchObject({ code: 'Denied' });
});

test('A9: shards of different versions are Corrupt, and both are named', async () => {
  const set = shardsInMemory({
    ...sampleFiles({ version: 105, count: 2 }),
    'variables-0-of-2.ckpt': sampleFiles({ version: 100, count: 2 })['variables-0-of-2.ckpt'] as Uint8Array,
  });
  await expect(checkShards(set)).rejects.toMatchObject({
    code: 'Corrupt',
    message: expect.stringMatching(
      /versions in model shards are not consistent: .*-0-of-2.*100.*-1-of-2.*105/,
    ),
  });
});

test('ids and rows of different count are Corrupt, though every length in the file is right', async () => {
  const files = sampleFiles({ version: 1, count: 1 });
  const bytes = Buffer.from(files['variables-0-of-1.ckpt'] as Uint8Array);
  const at = bytes.indexOf(Buffer.from([0, 1, 2, 3, 4]));
  bytes[at] = 0x80; // merges two ids into one
  const set = shardsInMemory({ 'variables-0-of-1.ckpt': bytes });
  await expect(checkShards(set)).rejects.toMatchObject({
    code: 'Corrupt',
    message: expect.stringMatching(/variables-0-of-1\.ckpt.*"embedding".*ids and rows of different count/),
  });
});

test('a sound checkpoint: its version, what is in it, and no value read', async () => {
  const files = sampleFiles({ version: 7, count: 3, dim: 100_000 });
  const set = shardsInMemory(files);
  let readBytes = 0;
  const counted = set.shards.map((shard) => ({
    ...shard,
    source: {
      ...shard.source,
      readInto: (offsetBytes: number, buffer: Uint8Array) => {
        readBytes += buffer.byteLength;
        return shard.source.readInto(offsetBytes, buffer);
      },
    },
  }));
  const model = await checkShards({ ...set, shards: counted });
  expect([model.version, [...model.dense.keys()].toSorted(), model.tables.map(({ name }) => name)]).toEqual([
    7,
    ['dense/bias:0', 'dense/kernel:0', 'v0'],
    ['embedding'],
  ]);
  const allBytes = Object.values(files).reduce((sum, { byteLength }) => sum + byteLength, 0);
  expect(readBytes).toBeLessThan(allBytes / 10);
});

test('a file that is written to while it is checked is SourceChanged', async () => {
  await writeVersion(3, 1);
  await using set = await openDirectoryShards(join(root, 'version-3'));
  await appendFile(join(root, 'version-3/variables-0-of-1.ckpt'), 'x');
  await expect(checkShards(set)).rejects.toMatchObject({ code: 'SourceChanged' });
});
