import { expect, test } from 'vitest';
import { CheckpointError, type ListPage, type ObjectStore } from '../contract/index.ts';
import { MemoryBucket } from './memory-bucket.ts';
import { MemoryStore } from './memory-store.ts';
import { ObservedStore, type StoreCall } from './observed-store.ts';

function observe(inner: ObjectStore = new MemoryStore()) {
  const calls: StoreCall[] = [];
  let now = 0;
  // Each look at the clock moves it, so a call that looks at its start and its end takes 5 ms.
  const clock = { nowMs: () => now, monotonicMs: () => (now += 5), sleep: () => Promise.resolve() };
  const store = new ObservedStore(inner, { clock, onCall: (call) => calls.push(call) });
  const summary = () =>
    calls.splice(0).map((call) => [call.operation, call.key, call.keyCount, call.bytes, call.outcome]);
  return { store, calls, summary };
}

async function pagesOf(listing: AsyncIterable<ListPage>): Promise<ListPage[]> {
  const pages: ListPage[] = [];
  for await (const page of listing) pages.push(page);
  return pages;
}

test('every call is reported with operation, key, bytes, outcome and duration', async () => {
  const { store, calls, summary } = observe();
  await store.create('a', new Uint8Array(7));
  expect(calls).toEqual([
    { operation: 'create', key: 'a', keyCount: 1, bytes: 7, outcome: 'ok', durationMs: 5 },
  ]);
  await store.head('a');
  await store.get('a', { maxBytes: 10 });
  await store.readInto('a', 5, new Uint8Array(4));
  const upload = await store.beginUpload('b', { partSizeBytes: 4 });
  const resumed = await store.resumeUpload(upload.token);
  const part = await resumed.putPart(0, new Uint8Array(3), { crc32c: 0 });
  await upload.listParts();
  await upload.complete([part], { sizeBytes: 3, crc32c: 0 });
  await upload.abort();
  await store.deleteMany(['a', 'b']);
  expect(summary()).toEqual([
    ['create', 'a', 1, 7, 'ok'],
    ['head', 'a', 1, 0, 'ok'],
    ['get', 'a', 1, 7, 'ok'],
    ['readInto', 'a', 1, 2, 'ok'],
    ['beginUpload', 'b', 1, 0, 'ok'],
    ['resumeUpload', '', 1, 0, 'ok'],
    ['putPart', 'b', 1, 3, 'ok'],
    ['listParts', 'b', 1, 0, 'ok'],
    ['complete', 'b', 1, 0, 'ok'],
    ['abort', 'b', 1, 0, 'ok'],
    ['deleteMany', 'a', 2, 0, 'ok'],
  ]);
});

test('a call that fails is reported with its code and fails with the same error', async () => {
  const { store, summary } = observe();
  await store.create('a', new Uint8Array(7));
  await expect(store.create('a', new Uint8Array(3))).rejects.toMatchObject({ code: 'AlreadyExists' });
  await expect(store.get('b', { maxBytes: 1 })).rejects.toMatchObject({ code: 'NotFound' });
  expect(summary().slice(1)).toEqual([
    ['create', 'a', 1, 3, 'AlreadyExists'],
    ['get', 'b', 1, 0, 'NotFound'],
  ]);
  const bug = new Error('a bug');
  const broken = observe(Object.assign(new MemoryStore(), { head: () => Promise.reject(bug) }));
  await expect(broken.store.head('a')).rejects.toBe(bug);
  expect(broken.summary()).toEqual([['head', 'a', 1, 0, 'Unexpected']]);
});

test('a listing is one call for each page, and one if there is nothing', async () => {
  const inner = new MemoryStore(new MemoryBucket(), { capabilities: { maxListKeys: 2 } });
  const { store, summary } = observe(inner);
  expect(await pagesOf(store.list('p/'))).toMatchObject([{ objects: [] }]);
  for (const key of ['p/1', 'p/2', 'p/3']) await inner.create(key, new Uint8Array());
  await pagesOf(store.list('p/'));
  expect(summary()).toEqual([
    ['list', 'p/', 0, 0, 'ok'],
    ['list', 'p/', 2, 0, 'ok'],
    ['list', 'p/', 1, 0, 'ok'],
  ]);
  const { store: pageless, summary: pagelessSummary } = observe(
    Object.assign(new MemoryStore(), {
      list: async function* () {
        /* not one page */
      },
    }),
  );
  expect(await pagesOf(pageless.list('p/'))).toEqual([]);
  expect(pagelessSummary()).toEqual([['list', 'p/', 0, 0, 'ok']]);
});

test('a listing that fails is reported and fails with the same error; one that is left early is closed', async () => {
  let isClosed = false;
  const failure = new CheckpointError('Unavailable', 'gone');
  const inner = Object.assign(new MemoryStore(), {
    list: async function* (prefix: string) {
      try {
        yield { objects: [], storeTimeMs: 0 };
        if (prefix === 'broken') throw failure;
        yield { objects: [], storeTimeMs: 0 };
      } finally {
        isClosed = true;
      }
    },
  });
  const { store, summary } = observe(inner);
  await expect(pagesOf(store.list('broken'))).rejects.toBe(failure);
  expect(summary()).toEqual([
    ['list', 'broken', 0, 0, 'ok'],
    ['list', 'broken', 0, 0, 'Unavailable'],
  ]);
  isClosed = false;
  for await (const page of store.list('p/')) {
    expect(page.objects).toEqual([]);
    break;
  }
  expect(isClosed).toBe(true);
  expect(summary()).toHaveLength(1);
});

test('close closes the store', async () => {
  const inner = new MemoryStore();
  const { store } = observe(inner);
  await store.close();
  await expect(inner.head('a')).rejects.toThrow('is closed');
});

test('a listing of uploads is one call, which tells how many were shown and how it ended', async () => {
  const failure = new CheckpointError('Unavailable', 'gone');
  const inner = Object.assign(new MemoryStore(), {
    listUploads: async function* (prefix: string) {
      yield { key: `${prefix}a`, token: 't', beganAtMs: 0 };
      if (prefix === 'broken') throw failure;
      yield { key: `${prefix}b`, token: 'u', beganAtMs: 0 };
    },
  });
  const { store, summary } = observe(inner);
  const keysOf = async (prefix: string, max = 9) => {
    const keys: string[] = [];
    for await (const { key } of store.listUploads?.(prefix) ?? []) {
      keys.push(key);
      if (keys.length === max) break;
    }
    return keys;
  };
  expect(await keysOf('p/')).toEqual(['p/a', 'p/b']);
  expect(await keysOf('p/', 1)).toEqual(['p/a']);
  await expect(keysOf('broken')).rejects.toBe(failure);
  expect(summary()).toEqual([
    ['listUploads', 'p/', 2, 0, 'ok'],
    ['listUploads', 'p/', 1, 0, 'ok'],
    ['listUploads', 'broken', 1, 0, 'Unavailable'],
  ]);
  const without = new MemoryStore(new MemoryBucket(), { capabilities: { resumesUploads: false } });
  expect(observe(without).store.listUploads).toBeUndefined();
});
