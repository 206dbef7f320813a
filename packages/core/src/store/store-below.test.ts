import { expect, test } from 'vitest';
import { listDirectories } from '../transfer/index.ts';
import { MemoryBucket, MemoryStore, StoreBelow } from './index.ts';

async function filled(...keys: string[]) {
  const bucket = new MemoryBucket();
  const store = new MemoryStore(bucket);
  for (const key of keys) await store.create(key, new TextEncoder().encode(key));
  return { store, below: new StoreBelow(store, { prefix: 'run/', uri: 'memory://m/run' }) };
}

test('a view has the keys below its prefix, relative to it', async () => {
  const { below } = await filled('a', 'run/a', 'run/b/c', 'run/d/e', 'run-2/x');
  const keys: string[] = [];
  for await (const { objects } of below.list('', { startAfter: 'a' }))
    keys.push(...objects.map(({ key }) => key));
  expect(keys).toEqual(['b/c', 'd/e']);
  expect((await below.head('a')).key).toBe('a');
  expect(new TextDecoder().decode((await below.get('b/c', { maxBytes: 9 })).bytes)).toBe('run/b/c');
  expect(await listDirectories(below, '')).toEqual(['b', 'd']);
  await expect(below.head('run/a')).rejects.toMatchObject({ code: 'NotFound' });
});

test('a view writes and deletes nothing, and leaves the store open', async () => {
  const { store, below } = await filled('run/a');
  for (const call of [below.create, below.deleteMany, below.beginUpload, below.resumeUpload])
    await expect(call()).rejects.toMatchObject({ code: 'ReadOnly' });
  await below.close();
  expect((await store.head('run/a')).key).toBe('run/a');
});
