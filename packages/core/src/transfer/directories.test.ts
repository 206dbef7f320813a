import { expect, test } from 'vitest';
import { CheckpointError, type ObjectStore } from '../contract/index.ts';
import { MemoryBucket, MemoryStore } from '../store/index.ts';
import { listDirectories } from './index.ts';

async function filled(...keys: string[]): Promise<MemoryStore> {
  const store = new MemoryStore(new MemoryBucket());
  for (const key of keys) await store.create(key, new Uint8Array(1));
  return store;
}

const KEYS = ['a/x', 'a-b/x', 'a.b/y/z', 'd/e/f', 'd/g', 'file', 'ä/1', '\u{10000}/1'];

test('a store without such a listing is asked for one object of each directory', async () => {
  const store = await filled(...KEYS);
  const prefixes: string[] = [];
  const list = store.list.bind(store);
  const plain: ObjectStore = Object.assign(store, {
    listDirectories: undefined,
    list: (prefix: string, options?: object) => {
      prefixes.push(prefix);
      return list(prefix, options);
    },
  });
  expect((await listDirectories(plain, '')).sort()).toEqual(
    ['a', 'a-b', 'a.b', 'd', 'ä', '\u{10000}'].sort(),
  );
  expect(prefixes).toHaveLength(7);
  expect(await listDirectories(plain, 'd/')).toEqual(['e']);
});

test('a listing that breaks is begun again, and no name comes twice', async () => {
  const store = await filled(...KEYS);
  let calls = 0;
  store.listDirectories = async function* () {
    calls += 1;
    yield ['a', 'b'];
    if (calls === 1) throw new CheckpointError('Unavailable', 'broken');
    yield ['c'];
  };
  const settings = { retryDelayMsBase: 1, retryDelayMsMax: 1 };
  expect(await listDirectories(store, '', { settings })).toEqual(['a', 'b', 'c']);
  expect(calls).toBe(2);
});

test('more directories than the limit, and a prefix without a slash at its end, are refused', async () => {
  const store = await filled(...KEYS);
  await expect(listDirectories(store, '', { countMax: 2 })).rejects.toMatchObject({
    code: 'InvalidArgument',
    message: expect.stringContaining('more than 2 directories'),
  });
  await expect(listDirectories(store, 'a')).rejects.toMatchObject({ code: 'InvalidArgument' });
});
