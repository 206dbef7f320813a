import { expect, test } from 'vitest';
import { KeyAssertionError, MemoryBucket, memoryBucket } from './memory-bucket.ts';
import { MemoryStore } from './memory-store.ts';

const bytes = (...values: number[]) => Uint8Array.from(values);
const sum = (data: Uint8Array) => data.reduce((total, byte) => total + byte, 0);
const code = (expected: string) => expect.objectContaining({ code: expected });

async function keysOf(store: MemoryStore, prefix = '', startAfter?: string): Promise<string[][]> {
  const pages: string[][] = [];
  for await (const page of store.list(prefix, { startAfter }))
    pages.push(page.objects.map((object) => object.key));
  return pages;
}

test('clients of one bucket see the same objects', async () => {
  const bucket = new MemoryBucket({ name: 'shared' });
  const [a, b] = [new MemoryStore(bucket), new MemoryStore(bucket)];
  const info = await a.create('k', bytes(1, 2));
  expect(await b.get('k', { maxBytes: 2 })).toEqual({ ...info, bytes: bytes(1, 2) });
  expect(await b.head('k')).toEqual(info);
  await expect(b.create('k', bytes(3))).rejects.toEqual(code('AlreadyExists'));
  expect(a.uri).toBe('memory://shared');
});

test('a name has one bucket in a process', () => {
  const bucket = memoryBucket('one-name');
  expect(memoryBucket('one-name')).toBe(bucket);
  expect(memoryBucket('another-name')).not.toBe(bucket);
});

test('a key that is created again after it was deleted fails an assertion that names it', async () => {
  const store = new MemoryStore();
  await store.create('run/a', bytes(1));
  await store.deleteMany(['run/a']);
  await expect(store.create('run/a', bytes(2))).rejects.toThrow(KeyAssertionError);
  await expect(store.create('run/a', bytes(2))).rejects.toThrow('key run/a is created again');
  expect(store.bucket.violations).toHaveLength(2);
  expect(store.bucket.keys()).toEqual([]);
});

test('mayReuseKey decides whether a deleted key is used again, and learns whether the bytes are the same', async () => {
  const asked: unknown[] = [];
  const bucket = new MemoryBucket({
    mayReuseKey: (reuse) => {
      asked.push(reuse);
      return reuse.hasSameBytes;
    },
  });
  const store = new MemoryStore(bucket);
  await store.create('a', bytes(1, 2));
  await store.deleteMany(['a']);
  await expect(store.create('a', bytes(2, 1))).rejects.toThrow(KeyAssertionError);
  await store.create('a', bytes(1, 2));
  await store.deleteMany(['a']);
  await expect(store.create('a', bytes())).rejects.toThrow(KeyAssertionError);
  expect(asked).toEqual([
    { key: 'a', hasSameBytes: false },
    { key: 'a', hasSameBytes: true },
    { key: 'a', hasSameBytes: false },
  ]);
});

test.each([
  ['a/b', 'a/b/c/d'],
  ['a/b/c/d', 'a/b'],
])('a key that is a prefix of another at a slash fails an assertion: %s, then %s', async (first, second) => {
  const store = new MemoryStore();
  await store.create(first, bytes(1));
  await expect(store.create(second, bytes(1))).rejects.toThrow("is a prefix, at a '/', of");
  await store.create('a/b-c', bytes(1));
});

test('completing an upload counts as creating its key', async () => {
  const store = new MemoryStore();
  await store.create('a', bytes(1));
  await store.deleteMany(['a']);
  const upload = await store.beginUpload('a', { partSizeBytes: 4 });
  const part = await upload.putPart(0, bytes(5), { crc32c: 0 });
  await expect(upload.complete([part], { sizeBytes: 1, crc32c: 0 })).rejects.toThrow(KeyAssertionError);

  await store.create('b', bytes(1));
  const other = await store.beginUpload('b', { partSizeBytes: 4 });
  const otherPart = await other.putPart(0, bytes(5), { crc32c: 0 });
  await expect(other.complete([otherPart], { sizeBytes: 1, crc32c: 0 })).rejects.toEqual(
    code('AlreadyExists'),
  );
});

test('bytes are copied on the way in and out', async () => {
  const store = new MemoryStore();
  const sent = bytes(1, 2, 3);
  await store.create('a', sent);
  const upload = await store.beginUpload('b', { partSizeBytes: 3 });
  const part = await upload.putPart(0, sent, { crc32c: 0 });
  sent.fill(9);
  await upload.complete([part], { sizeBytes: 3, crc32c: 0 });
  for (const key of ['a', 'b']) {
    const first = await store.get(key, { maxBytes: 3 });
    first.bytes.fill(7);
    expect((await store.get(key, { maxBytes: 3 })).bytes).toEqual(bytes(1, 2, 3));
  }
});

test('objects and list pages carry the time of the bucket', async () => {
  const clock = { now: 1000, nowMs: () => clock.now };
  const bucket = new MemoryBucket({ clock });
  const store = new MemoryStore(bucket);
  expect((await store.create('a', bytes())).createdAtMs).toBe(1000);
  clock.now = 5000;
  for await (const page of store.list('')) {
    expect(page).toMatchObject({ storeTimeMs: 5000, objects: [{ key: 'a', createdAtMs: 1000 }] });
  }
  bucket.clock = { nowMs: () => 9000 };
  expect((await store.create('b', bytes())).createdAtMs).toBe(9000);
});

test('list: pages have at most maxListKeys keys, and a full last page is not followed by an empty one', async () => {
  const store = new MemoryStore(new MemoryBucket(), { capabilities: { maxListKeys: 2 } });
  expect(await keysOf(store)).toEqual([[]]);
  for (const key of ['d', 'b', 'a', 'c']) await store.create(key, bytes());
  expect(await keysOf(store)).toEqual([
    ['a', 'b'],
    ['c', 'd'],
  ]);
  await store.create('e', bytes());
  expect(await keysOf(store)).toEqual([['a', 'b'], ['c', 'd'], ['e']]);
  expect(await keysOf(store, '', 'a')).toEqual([
    ['b', 'c'],
    ['d', 'e'],
  ]);
});

test('list: startAfter is exclusive, need not exist and may lie before or behind the prefix', async () => {
  const store = new MemoryStore();
  for (const key of ['a/1', 'b/1', 'b/2', 'b/3', 'c/1']) await store.create(key, bytes());
  expect(await keysOf(store, 'b/', 'b/1')).toEqual([['b/2', 'b/3']]);
  expect(await keysOf(store, 'b/', 'b/10')).toEqual([['b/2', 'b/3']]);
  expect(await keysOf(store, 'b/', 'a/1')).toEqual([['b/1', 'b/2', 'b/3']]);
  expect(await keysOf(store, 'b/', 'c')).toEqual([[]]);
});

test('a listing shows what was created between its pages', async () => {
  const store = new MemoryStore(new MemoryBucket(), { capabilities: { maxListKeys: 1 } });
  await store.create('a', bytes());
  await store.create('c', bytes());
  const seen: string[] = [];
  for await (const page of store.list('')) {
    seen.push(...page.objects.map((object) => object.key));
    if (seen.length === 1) {
      await store.create('b', bytes());
      await store.deleteMany(['c']);
    }
  }
  expect(seen).toEqual(['a', 'b']);
});

test('limits are those of the capabilities given', async () => {
  const capabilities = { maxCreateBytes: 2, minPartBytes: 2, maxPartBytes: 4, maxParts: 2 };
  const store = new MemoryStore(new MemoryBucket(), { capabilities });
  await expect(store.create('a', bytes(1, 2, 3))).rejects.toThrow('one create takes at most 2');
  for (const partSizeBytes of [1, 5, 2.5]) {
    await expect(store.beginUpload('a', { partSizeBytes })).rejects.toThrow('a part has from 2 to 4');
  }
  const upload = await store.beginUpload('a', { partSizeBytes: 2 });
  for (const index of [-1, 2, 0.5]) {
    await expect(upload.putPart(index, bytes(1), { crc32c: 0 })).rejects.toThrow('parts are numbered 0 to 1');
  }
  await expect(upload.putPart(0, bytes(1, 2, 3), { crc32c: 0 })).rejects.toThrow('its parts have 2');
});

test('a store that can verify checksums does, and one that cannot says so', async () => {
  const bucket = new MemoryBucket({ crc32c: sum });
  const store = new MemoryStore(bucket);
  expect(store.capabilities.verifiesChecksums).toBe(true);
  await expect(store.create('a', bytes(1, 2), { crc32c: 4 })).rejects.toEqual(code('Corrupt'));
  await store.create('a', bytes(1, 2), { crc32c: 3 });
  const upload = await store.beginUpload('b', { partSizeBytes: 2 });
  await expect(upload.putPart(0, bytes(1, 2), { crc32c: 4 })).rejects.toEqual(code('Corrupt'));
  const part = await upload.putPart(0, bytes(1, 2), { crc32c: 3 });
  await expect(upload.complete([part], { sizeBytes: 2, crc32c: 4 })).rejects.toEqual(code('Corrupt'));

  const lax = new MemoryStore(bucket, { capabilities: { verifiesChecksums: false } });
  await lax.create('c', bytes(1, 2), { crc32c: 4 });
  expect(new MemoryStore().capabilities.verifiesChecksums).toBe(false);
  expect(() => new MemoryStore(new MemoryBucket(), { capabilities: { verifiesChecksums: true } })).toThrow(
    'without crc32c',
  );
});

test('complete: refused parts have no effect and say which one is wrong', async () => {
  const store = new MemoryStore();
  const upload = await store.beginUpload('a', { partSizeBytes: 2 });
  const stale = await upload.putPart(0, bytes(9, 9), { crc32c: 0 });
  const first = await upload.putPart(0, bytes(1), { crc32c: 0 });
  const second = await upload.putPart(1, bytes(3), { crc32c: 0 });
  const refused: [(typeof first)[], number, string][] = [
    [[stale, second], 3, 'part 0 is not the one that was sent last'],
    [[second], 1, 'part 0 is not the one that was sent last'],
    [[first, second], 2, 'part 0 has 1 bytes, not 2, and is not the last'],
    [[first], 5, 'has parts of 1 bytes together; expected 5'],
  ];
  for (const [parts, sizeBytes, message] of refused) {
    await expect(upload.complete(parts, { sizeBytes, crc32c: 0 })).rejects.toThrow(message);
  }
  expect(store.bucket.keys()).toEqual([]);
  expect(store.bucket.openUploads()).toHaveLength(1);
  await upload.complete([first], { sizeBytes: 1, crc32c: 0 });
  expect(store.bucket.openUploads()).toEqual([]);
});

test('readInto: an offset that is no whole number from 0 on is InvalidArgument', async () => {
  const store = new MemoryStore();
  await store.create('a', bytes(1));
  for (const offset of [-1, 0.5, Number.NaN]) {
    await expect(store.readInto('a', offset, bytes(0))).rejects.toEqual(code('InvalidArgument'));
  }
});

test('damage changes the bytes and nothing else', async () => {
  const store = new MemoryStore();
  const info = await store.create('a', bytes(1, 2));
  store.bucket.damage('a', (content) => content.fill(0, 1));
  expect(await store.get('a', { maxBytes: 9 })).toEqual({ ...info, bytes: bytes(1, 0) });
  expect(() => store.bucket.damage('b', (content) => content)).toThrow('no object b');
});
