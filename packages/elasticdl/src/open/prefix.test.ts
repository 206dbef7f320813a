import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { findVersions, openVersion } from './place.ts';
import { openPrefixShards, prefixPlace } from './prefix.ts';

async function storeWith(...keys: string[]): Promise<MemoryStore> {
  const store = new MemoryStore(new MemoryBucket(), { capabilities: { maxListKeys: 3 } });
  for (const key of keys) await store.create(key, Buffer.from(key));
  return store;
}

test('shards below a prefix: every one by index, its bytes, and the version of the last segment', async () => {
  const keys = [0, 1, 2, 3].map((index) => `jobs/a/version-100/variables-${index}-of-4.ckpt`);
  const store = await storeWith(...keys, 'jobs/a/version-1000/variables-0-of-1.ckpt');
  await using set = await openPrefixShards(store, '/jobs/a/version-100/');
  expect(set.version).toBe(100n);
  expect(set.where).toBe(`jobs/a/version-100 in ${store.uri}`);
  expect(set.shards.map(({ index, count, path }) => [index, count, path])).toEqual(
    keys.map((_, index) => [index, 4, undefined]),
  );
  const source = set.shards[3]?.source;
  const buffer = new Uint8Array(source?.sizeBytes ?? 0);
  await source?.readInto(0, buffer);
  await source?.assertUnchanged();
  expect(Buffer.from(buffer).toString()).toBe(keys[3]);
});

test('a whole store can be the place', async () => {
  const store = await storeWith('variables-0-of-1.ckpt', 'version-3/variables-0-of-1.ckpt');
  await using set = await openPrefixShards(store, '');
  expect([set.version, set.where]).toEqual([null, store.uri]);
  const found = await findVersions(prefixPlace(store, ''));
  expect(found.map(({ folder }) => folder)).toEqual(['version-3']);
});

test('A7: versions below a prefix, newest first by number; what is deeper, foreign or a marker of a directory does not count', async () => {
  const store = await storeWith(
    'ckpt/version-95/variables-0-of-1.ckpt',
    'ckpt/version-100/variables-0-of-1.ckpt',
    'ckpt/version_110/variables-0-of-2.chkpt',
    'ckpt/version-x/variables-0-of-1.ckpt',
    'ckpt/old/version-5/variables-0-of-1.ckpt',
    'ckpt/version-95/more/variables-1-of-2.ckpt',
    'ckpt-2/version-7/variables-0-of-1.ckpt',
    'ckpt/log',
  );
  const found = await findVersions(prefixPlace(store, 'ckpt'));
  expect(found.map(({ version, problem }) => [version, problem])).toEqual([
    [110n, 'lacks shard 1 of 2; it has 0'],
    [100n, null],
    [95n, null],
  ]);
  await using set = await openVersion(prefixPlace(store, 'ckpt'), 100n);
  expect(set.where).toBe(`ckpt/version-100 in ${store.uri}`);
});

test('a prefix without anything has no versions, and opening it is NotFound', async () => {
  const store = await storeWith('other');
  expect(await findVersions(prefixPlace(store, 'ckpt'))).toEqual([]);
  await expect(openPrefixShards(store, 'ckpt')).rejects.toMatchObject({ code: 'NotFound' });
});

test('an incomplete prefix is Corrupt', async () => {
  const store = await storeWith('version-1/variables-1-of-2.ckpt');
  await expect(openPrefixShards(store, 'version-1')).rejects.toMatchObject({
    code: 'Corrupt',
    message: `version-1 in ${store.uri} lacks shard 0 of 2; it has 1`,
  });
});

test('closing the set leaves the store open', async () => {
  const store = await storeWith('version-1/variables-0-of-1.ckpt');
  const set = await openPrefixShards(store, 'version-1');
  await set.close();
  expect((await store.head('version-1/variables-0-of-1.ckpt')).sizeBytes).toBeGreaterThan(0);
});
