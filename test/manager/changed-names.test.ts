import type { CheckpointManager } from '@holdfast/core';
import type { ListOptions, ListPage, ObjectInfo } from '@holdfast/core/contract';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

type Change = (key: string, keys: readonly string[], listing: number) => string;

/** Changes the names in listings of one prefix. The names in the store are correct. */
class MisnamingStore extends MemoryStore {
  listings = 0;
  readonly #prefix: string;
  readonly #change: Change;

  constructor(bucket: MemoryBucket, prefix: string, change: Change) {
    super(bucket);
    this.#prefix = prefix;
    this.#change = change;
  }

  override async *list(prefix: string, options?: ListOptions): AsyncGenerator<ListPage, void, void> {
    if (prefix !== this.#prefix) {
      yield* super.list(prefix, options);
      return;
    }
    const listing = ++this.listings;
    for await (const page of super.list(prefix, options)) {
      const keys = page.objects.map(({ key }) => key);
      const renamed = (object: ObjectInfo) => ({ ...object, key: this.#change(object.key, keys, listing) });
      yield { ...page, objects: page.objects.map(renamed) };
    }
  }
}

const at = (key: string, index: number, character: string) =>
  `${key.slice(0, index)}${character}${key.slice(index + 1)}`;

/** Changes the newest name in the first listing. */
const newestOnce =
  (change: (key: string) => string): Change =>
  (key, keys, listing) =>
    listing === 1 && key === keys.at(-1) ? change(key) : key;

async function savedRun(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using manager = open(bucket);
  for (const version of [1, 2]) await manager.save({ version, buffers: { a: bytes(100, version) } });
  return bucket;
}

const latestOf = async (manager: CheckpointManager) => (await manager.latest())?.version;

describe('the name of the newest catalog entry, changed in one listing, hides no checkpoint', () => {
  const LAST_DIGIT = 'catalog/'.length + 19;
  test.each<[string, (key: string) => string]>([
    ['into one that is no name of an entry', (key) => at(key, LAST_DIGIT, 'x')],
    ['into one of another folder', (key) => at(key, 0, 'x')],
    ['into that of the entry before it', (key) => at(key, LAST_DIGIT, String(Number(key[LAST_DIGIT]) - 1))],
    ['into that of entry 0', (key) => at(key, LAST_DIGIT, '0')],
    ['into that of a later entry', (key) => at(key, LAST_DIGIT - 1, '7')],
  ])('%s', async (_, change) => {
    const store = new MisnamingStore(await savedRun(), 'catalog/', newestOnce(change));
    await using manager = open(newBucket(), { store });
    expect([await latestOf(manager), store.listings]).toEqual([2n, 2]);
  });

  test('nor if it is the only entry', async () => {
    const bucket = newBucket();
    await using first = open(bucket, { attempt: 'a' });
    await first.join();
    const change = newestOnce((key) => at(key, LAST_DIGIT, 'x'));
    const store = new MisnamingStore(bucket, 'catalog/', change);
    await using manager = open(bucket, { store });
    expect((await manager.admin.log()).length).toBeGreaterThan(0);
  });

  test('changed otherwise each time, it is an error that may pass, and no older checkpoint', async () => {
    const change: Change = (key, keys, listing) =>
      key === keys.at(-1) ? at(key, LAST_DIGIT, String.fromCharCode(0x61 + listing)) : key;
    const store = new MisnamingStore(await savedRun(), 'catalog/', change);
    await using manager = open(newBucket(), { store });
    expect(await failure(manager.latest())).toMatch(
      /^Unavailable: the listing of catalog\/ has names that do not belong there: "catalog\/.*"; they differ/,
    );
  });
});

test('a foreign file beside the entries costs a second listing once, and is in the log', async () => {
  const bucket = await savedRun();
  bucket.insert('catalog/notes.txt', bytes(3));
  const store = new MisnamingStore(bucket, 'catalog/', (key) => key);
  const said: string[] = [];
  const logger = { log: (level: string, message: string) => void said.push(`${level}: ${message}`) };
  await using manager = open(bucket, { store, logger });
  for (const listings of [2, 3, 4]) expect([await latestOf(manager), store.listings]).toEqual([2n, listings]);
  expect(said.filter((line) => line.startsWith('warn'))).toEqual([
    'warn: the listing of catalog/ has names that do not belong there: "catalog/notes.txt"; it is listed again',
  ]);
});

test('the name of a lease, changed in one listing, does not let its version be removed', async () => {
  const bucket = await savedRun();
  await using reader = open(bucket);
  await reader.admin.lease({ version: 1, ttlMs: 3_600_000 });
  const change: Change = (key, _, listing) => (listing === 1 ? at(key, 'leases/'.length, 'x') : key);
  const store = new MisnamingStore(bucket, 'leases/', change);
  await using manager = open(bucket, { store });
  const collected = await manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
  expect(collected).toMatchObject({ retired: [1n], removed: [], postponed: [{ version: 1n }] });
});
