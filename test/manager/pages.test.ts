/** Runs whose catalog has pages. With two checkpoints in an entry, a few saves make many pages. */

import { createHash } from 'node:crypto';
import { CheckpointError, crc32c, type RunManager, systemClock } from '@holdfast/core';
import { decodeRecord, encodeRecord } from '@holdfast/core/internal/format/index';
import { MemoryBucket, MemoryStore, ObservedStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, open as openOn, SETTINGS } from './memory-run.ts';
import { saveVersions, statesOf, type TimedRun, timedRun } from './retention-run.ts';

const PAGED = { ...SETTINGS, deletesPerSecondMax: 1_000_000, entryCheckpointsMax: 2 };
const VERSIONS = [1, 2, 3, 4, 5, 6, 7, 8];

const pagesOf = ({ bucket }: TimedRun) => bucket.keys().filter((key) => key.startsWith('pages/'));
const newestEntry = ({ bucket }: TimedRun) =>
  bucket
    .keys()
    .filter((key) => key.startsWith('catalog/'))
    .at(-1) as string;

function referredPages(run: TimedRun): string[] {
  const { state } = readEntry(run);
  return state.pages.map(
    ({ seq, sha256 }) =>
      `pages/${String(seq).padStart(20, '0')}-${Buffer.from(sha256).toString('hex').slice(0, 16)}.json`,
  );
}

function readEntry(run: TimedRun) {
  const key = newestEntry(run);
  return decodeRecord('catalog-entry', run.bucket.find(key)?.bytes as Uint8Array, { key });
}

function open(run: TimedRun, store = new MemoryStore(run.bucket)): RunManager {
  return run.open({ settings: PAGED, store, attempt: 'job' });
}

async function pagedRun(): Promise<TimedRun> {
  const run = timedRun();
  await using manager = open(run);
  await saveVersions(manager, VERSIONS, run.clock);
  return run;
}

async function restores(manager: RunManager, version: number): Promise<boolean> {
  const to = { a: new Uint8Array(1000) };
  await manager.restore({ version, to });
  return Buffer.compare(to.a, bytes(1000, version)) === 0;
}

async function requestsOf(run: TimedRun, use: (manager: RunManager) => Promise<unknown>) {
  const calls: string[] = [];
  const store = new ObservedStore(new MemoryStore(run.bucket), {
    clock: systemClock,
    onCall: ({ operation, key }) => calls.push(`${operation} ${key.split('/')[0]}`),
  });
  await using manager = run.open({ settings: PAGED, store, attempt: 'job' });
  await use(manager);
  return calls;
}

describe('whatever lies in a page', () => {
  test('is listed, got, restored, verified, pinned, quarantined and gone back to as all else', async () => {
    const run = await pagedRun();
    await using manager = open(run);
    expect((await manager.list()).map(({ version }) => Number(version))).toEqual(VERSIONS.toReversed());
    expect((await manager.get(2))?.summary).toMatchObject({ version: 2n, metrics: { loss: 0.2 } });
    expect(await restores(manager, 1)).toBe(true);
    expect(await manager.admin.verify({ version: 2 })).toMatchObject({ recorded: 'verified' });
    await manager.admin.pin(3, 'paper');
    expect(await manager.admin.rollback({ to: 4, reason: 'loss' })).toMatchObject({
      leftBehind: [5n, 6n, 7n, 8n],
    });
    expect((await manager.latest())?.version).toBe(4n);
    const listed = (await manager.list()).map(({ version, pins, isVerified, isLeftBehind }) =>
      [version, ...pins, isVerified ? 'verified' : '', isLeftBehind ? 'left' : ''].join(' ').trimEnd(),
    );
    expect(listed).toEqual(['8  left', '7  left', '6  left', '5  left', '4', '3 paper', '2 verified', '1']);
    expect(await manager.admin.unpin(3)).toEqual(['paper']);
  });

  test('is retired, taken back and removed by the rules, and its objects go', async () => {
    const run = await pagedRun();
    await using manager = open(run);
    await manager.admin.collect({ policy: { keepLast: 6 } });
    expect((await statesOf(manager)).slice(-3)).toEqual(['3 live', '2 retiring', '1 retiring']);
    await manager.admin.undelete(1);
    const { removed } = await manager.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
    expect(removed).toEqual([1n, 2n, 3n, 4n, 5n, 6n, 7n]);
    expect(await statesOf(manager)).toEqual(['8 live']);
    expect(pagesOf(run)).toEqual([]);
    expect(run.bucket.keys().filter((key) => key.startsWith('version_1/'))).toEqual([]);
    expect(await restores(manager, 8)).toBe(true);
  });

  test('can be a base: an unchanged file is referred to, and its checkpoint outlives the one it came from', async () => {
    const run = await pagedRun();
    await using manager = open(run);
    await manager.save({ version: 9, buffers: { a: bytes(1000, 8), b: bytes(10) } });
    for (const version of [10, 11, 12]) await manager.save({ version, buffers: { a: bytes(1000, version) } });
    await manager.admin.collect({ policy: { keepEvery: 9, graceMs: 0 }, force: true });
    expect(await statesOf(manager)).toEqual(['12 live', '9 live']);
    const to = { a: new Uint8Array(1000) };
    await manager.restore({ version: 9, to });
    expect(to.a).toEqual(bytes(1000, 8));
  });
});

describe('requests', () => {
  test('the latest, a commit and the newest of a list read no page; an old version reads one', async () => {
    const run = await pagedRun();
    expect(await requestsOf(run, (manager) => manager.latest())).toEqual(['list catalog', 'get catalog']);
    expect(await requestsOf(run, (manager) => manager.list({ limit: 2 }))).toEqual([
      'list catalog',
      'get catalog',
    ]);
    const got = await requestsOf(run, (manager) => manager.get(1));
    expect(got).toEqual(['list catalog', 'get catalog', 'get pages']);
    const saved = await requestsOf(run, (manager) => manager.save({ version: 9, buffers: { a: bytes(10) } }));
    expect(saved.filter((call) => call.endsWith(' pages'))).toEqual(['create pages']);
  });

  test('a page that was read is not read again by the same manager', async () => {
    const run = await pagedRun();
    const calls = await requestsOf(run, async (manager) => {
      await manager.get(1);
      await manager.get(1);
      await manager.list();
      await manager.list();
    });
    expect(calls.filter((call) => call === 'get pages')).toHaveLength(referredPages(run).length);
  });

  test.each([0, 1.5, Number.NaN, -1, Infinity, 2 ** 53])(
    'a list of the newest %s is refused',
    async (limit) => {
      await using manager = open(await pagedRun());
      expect(await failure(manager.list({ limit }))).toMatch(
        /^InvalidArgument: limit is .*whole number from 1 on$/,
      );
    },
  );
});

describe('I1, I9: a page that is not what the entry says', () => {
  test('is missing: Corrupt names it, what needs no page goes on, and nothing is swept', async () => {
    const run = await pagedRun();
    const [page = ''] = referredPages(run);
    await new MemoryStore(run.bucket).deleteMany([page]);
    await using manager = open(run);
    const refused = `Corrupt: ${newestEntry(run)} refers to a page that is missing: ${page}`;
    const context = { key: page, keys: [page], catalog: 'newest' };
    await expect(manager.get(1)).rejects.toMatchObject({ message: refused.slice(9), context });
    expect(await failure(manager.list())).toBe(refused);
    expect(await failure(manager.admin.collect({ policy: { keepLast: 1 } }))).toBe(refused);
    expect((await manager.latest())?.version).toBe(8n);
    await manager.save({ version: 9, buffers: { a: bytes(10) } });
  });

  test('is damaged: Corrupt names it', async () => {
    const run = await pagedRun();
    const [page = ''] = referredPages(run);
    run.bucket.damage(page, (record) => record.fill(0x20, 200, 201));
    await using manager = open(run);
    expect(await failure(manager.get(1))).toContain(
      `Corrupt: ${page} is not what it should be: its sha256 is`,
    );
    await expect(manager.get(1)).rejects.toMatchObject({ context: { key: page, catalog: 'newest' } });
  });

  test('several are missing: Corrupt names each', async () => {
    const run = await pagedRun();
    const pages = referredPages(run).slice(0, 2).reverse(); // a list begins with the newest
    await new MemoryStore(run.bucket).deleteMany(pages);
    await using manager = open(run);
    const message = `${newestEntry(run)} refers to ${pages.length} pages that are missing: ${pages.join(', ')}`;
    const context = { key: pages[0], keys: pages };
    await expect(manager.list()).rejects.toMatchObject({ code: 'Corrupt', message, context });
  });

  test.each([
    ['another run', { runId: 'ffffffffffffffffffffffffffffffff' }, 'it is of run ffff'],
    ['another number', { seq: 77 }, 'it is of entry 77'],
    ['no checkpoint', { checkpoints: [] }, 'the entry gives other counts or ids for it'],
  ])('is of %s, with a right checksum: Corrupt', async (_, change, message) => {
    const run = await pagedRun();
    const entry = readEntry(run);
    const [ref] = entry.state.pages;
    const key = referredPages(run)[0] as string;
    const page = decodeRecord('catalog-page', run.bucket.find(key)?.bytes as Uint8Array, { key });
    const store = new MemoryStore(run.bucket);
    const write = async (at: string, data: Uint8Array) => {
      await store.create(at, data, { crc32c: run.bucket.crc32c?.(data) ?? 0 });
    };
    const changed = encodeRecord('catalog-page', { ...page, ...change });
    const digest = createHash('sha256').update(changed.bytes).digest();
    await write(
      `pages/${String(ref?.seq).padStart(20, '0')}-${digest.toString('hex').slice(0, 16)}.json`,
      changed.bytes,
    );
    const pages = [
      { ...ref, sha256: new Uint8Array(digest) },
      ...entry.state.pages.slice(1),
    ] as typeof entry.state.pages;
    const next = { ...entry, seq: entry.seq + 1, state: { ...entry.state, pages } };
    await write(
      `catalog/${String(next.seq).padStart(20, '0')}.json`,
      encodeRecord('catalog-entry', next).bytes,
    );
    await using manager = open(run);
    expect(await failure(manager.get(1))).toContain(message);
  });

  test('was replaced and swept while it was read: the catalog is read again', async () => {
    const run = await pagedRun();
    const store = new MemoryStore(run.bucket);
    let isFirst = true;
    const get = store.get.bind(store);
    store.get = async (key, options) => {
      if (isFirst && key.startsWith('pages/')) {
        isFirst = false;
        await using other = open(run);
        await other.admin.pin(1, 'kept');
        await other.admin.collect({});
      }
      return get(key, options);
    };
    const before = referredPages(run);
    await using manager = open(run, store);
    expect((await manager.get(1))?.summary?.pins).toEqual(['kept']);
    expect(isFirst).toBe(false);
    expect(pagesOf(run)).not.toEqual(before);
  });
});

describe('I8: pages that no entry refers to', () => {
  const stray = (seq: number) => `pages/${String(seq).padStart(20, '0')}-0123456789abcdef.json`;
  const put = async (run: TimedRun, key: string) => {
    await new MemoryStore(run.bucket).create(key, bytes(10), { crc32c: run.bucket.crc32c?.(bytes(10)) ?? 0 });
  };

  test('go with the next sweep if their number was reached, and fsck names them before', async () => {
    const run = await pagedRun();
    await put(run, stray(3));
    await using manager = open(run);
    const { problems } = await manager.admin.fsck();
    expect(problems).toEqual([expect.objectContaining({ kind: 'garbage', key: stray(3), objectCount: 1 })]);
    expect((await manager.admin.collect({})).swept.objectCount).toBe(1);
    expect(pagesOf(run)).toEqual(referredPages(run).sort());
  });

  test('stay if they belong to the entry to come, or to a rebuild', async () => {
    const run = await pagedRun();
    const { seq } = readEntry(run);
    await put(run, stray(seq + 1));
    await put(run, stray(Date.UTC(2026, 1)));
    await using manager = open(run);
    expect((await manager.admin.collect({})).swept.objectCount).toBe(0);
  });

  test('are of an entry further on: an older catalog was put back, and nothing is deleted', async () => {
    const run = await pagedRun();
    const { seq } = readEntry(run);
    await put(run, stray(3));
    await put(run, stray(seq + 2));
    await using manager = open(run);
    expect(await failure(manager.admin.collect({}))).toContain(
      `StoreRegressed: ${stray(seq + 2)} belongs to entry`,
    );
    expect(pagesOf(run)).toContain(stray(3));
  });

  describe('in a rebuilt catalog, whose numbers are times', () => {
    const seqOf = (key: string) => Number(key.slice(key.indexOf('/') + 1, key.indexOf('/') + 21));
    const keysBelow = (bucket: MemoryBucket, directory: string) =>
      bucket.keys().filter((key) => key.startsWith(`${directory}/`));

    /** Four decisions have followed entry `first` of the rebuild, each with a page of its own. */
    async function rebuiltRun() {
      const bucket = new MemoryBucket({ crc32c, mayReuseKey: ({ key }) => key.startsWith('catalog/') });
      const openRun = (attempt?: string) => openOn(bucket, { settings: PAGED, attempt });
      await using writer = openRun('job');
      await saveVersions(writer, VERSIONS);
      await writer.close();
      for (const key of keysBelow(bucket, 'catalog')) bucket.remove(key);
      await using manager = openRun();
      await manager.admin.rebuildCatalog();
      const first = seqOf(keysBelow(bucket, 'catalog').at(-1) ?? '');
      for (const [index, version] of [1, 3, 1, 3].entries()) await manager.admin.pin(version, `pin ${index}`);
      expect(Math.max(...keysBelow(bucket, 'pages').map(seqOf))).toBe(first + 4);
      return { bucket, openRun, first };
    }

    test('pages of this run further on: an older catalog was put back, and nothing is deleted', async () => {
      const { bucket, openRun, first } = await rebuiltRun();
      for (const key of keysBelow(bucket, 'catalog')) if (seqOf(key) > first) bucket.remove(key);
      const before = bucket.keys();
      await using manager = openRun();
      const said = /^StoreRegressed: pages\/.* belongs to entry \d+, but the newest is \d+: an older catalog/;
      expect(await failure(manager.admin.collect({}))).toMatch(said);
      expect(await failure(manager.admin.fsck())).toMatch(said);
      expect(bucket.keys()).toEqual(before);
    });

    test('pages of a rebuild that another one forestalled: they stay, and the rest is swept', async () => {
      const { bucket, openRun, first } = await rebuiltRun();
      const [some = ''] = keysBelow(bucket, 'pages');
      const page = decodeRecord('catalog-page', bucket.find(some)?.bytes as Uint8Array, { key: some });
      const seq = first + 1000;
      const { bytes: other, sha256 } = encodeRecord('catalog-page', { ...page, seq, runId: 'f'.repeat(32) });
      const digits = Buffer.from(sha256).toString('hex').slice(0, 16);
      const theirs = `pages/${String(seq).padStart(20, '0')}-${digits}.json`;
      const unreadable = stray(first + 1001);
      bucket.insert(theirs, other);
      bucket.insert(unreadable, bytes(10));
      await using manager = openRun();
      expect((await manager.admin.collect({})).swept.objectCount).toBeGreaterThan(0);
      expect(keysBelow(bucket, 'pages').slice(-2)).toEqual([theirs, unreadable]);
      expect((await manager.list()).length).toBe(VERSIONS.length);
    });
  });

  test('with another name are not Holdfast\u2019s: they stay, and fsck says so', async () => {
    const run = await pagedRun();
    await put(run, 'pages/notes.txt');
    await using manager = open(run);
    expect((await manager.admin.collect({})).swept.objectCount).toBe(0);
    expect((await manager.admin.fsck()).problems).toEqual([
      expect.objectContaining({ kind: 'foreign', key: 'pages/notes.txt' }),
    ]);
  });
});

describe('I1, I8: what happens between a page and its entry', () => {
  /**
   * Each function of `meddles` runs when the manager is about to send the next entry. The page of
   * the entry exists by then.
   */
  async function pinWhile(run: TimedRun, meddles: readonly (() => Promise<void>)[]): Promise<void> {
    const store = new MemoryStore(run.bucket);
    const create = store.create.bind(store);
    const due = [...meddles];
    store.create = async (key, data, options) => {
      if (key.startsWith('catalog/')) await due.shift()?.();
      return create(key, data, options);
    };
    await using manager = open(run, store);
    await manager.admin.pin(1, 'kept');
    expect(due).toEqual([]);
  }
  const sweep = (run: TimedRun) => async () => {
    await using other = open(run);
    await other.admin.collect({});
  };
  const commit = (run: TimedRun) => async () => {
    await using other = open(run);
    await other.admin.pin(8, 'another');
  };

  test('a sweep leaves the page alone', async () => {
    const run = await pagedRun();
    await pinWhile(run, [sweep(run)]);
    await using manager = open(run);
    expect((await manager.get(1))?.summary?.pins).toEqual(['kept']);
  });

  test('another decision takes the number: the page is written anew, and the first one is swept', async () => {
    const run = await pagedRun();
    const { seq } = readEntry(run);
    await pinWhile(run, [commit(run), sweep(run)]);
    await using manager = open(run);
    expect((await manager.get(1))?.summary?.pins).toEqual(['kept']);
    expect((await manager.get(8))?.summary?.pins).toEqual(['another']);
    const numbers = pagesOf(run).map((key) =>
      Number(key.slice('pages/'.length, -'-0123456789abcdef.json'.length)),
    );
    expect(numbers).toContain(seq + 2);
    expect(numbers).not.toContain(seq + 1);
  });

  test('a pruned number comes back by a late request: a sweep asks the newest entry, and no page in use goes', async () => {
    const run = await pagedRun();
    const { seq } = readEntry(run);
    const keyOf = (number: number) => `catalog/${String(number).padStart(20, '0')}.json`;
    const store = new MemoryStore(run.bucket);
    const create = store.create.bind(store);
    let late: Uint8Array | undefined;
    store.create = async (key, data, options) => {
      if (late !== undefined || key !== keyOf(seq + 1)) return create(key, data, options);
      late = data.slice(); // on its way while another decision takes the number
      await using other = open(run);
      await other.admin.pin(3, 'another');
      throw new CheckpointError('Unavailable', 'no answer');
    };
    await using manager = open(run, store);
    await manager.admin.pin(1, 'kept');
    for (const label of ['a', 'b', 'c', 'd']) await manager.admin.pin(8, label);
    for (let number = 1; number <= seq; number++) run.bucket.remove(keyOf(number));
    run.bucket.damage(keyOf(seq + 1), () => late as Uint8Array);
    const inUse = referredPages(run);
    // It is of the number that came back, whose entry does not know it.
    expect(inUse.filter((key) => Number(key.slice('pages/'.length, -22)) === seq + 1)).toHaveLength(1);
    await using sweeper = open(run);
    expect((await sweeper.admin.collect({})).swept.objectCount).toBeGreaterThan(0);
    expect(pagesOf(run)).toEqual(inUse.toSorted());
    await using reader = open(run);
    expect((await reader.get(3))?.summary?.pins).toEqual(['another']);
  });
});

test('pins on one checkpoint have an end, which is said', async () => {
  await using manager = open(await pagedRun());
  for (let index = 0; index < 64; index++) await manager.admin.pin(1, `label ${index}`);
  await manager.admin.pin(1, 'label 3');
  expect(await failure(manager.admin.pin(1, 'one more'))).toBe(
    'Conflict: version 1@1 has 64 pins already; unpin one of them first',
  );
});
