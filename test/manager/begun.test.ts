/**
 * `begun`: lists versions in progress from what the store shows, with the state of their writers.
 */

import type { RunManager } from '@holdfast/core';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FaultyStore, ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { killedLife } from './resume-run.ts';

/** Writer `index` of `count`, in a separate process. */
function writer(bucket: MemoryBucket, index: number, count: number, attempt = 'job'): RunManager {
  return open(bucket, { attempt, writer: { index, count } });
}

/** Delivers without waiting for the other writers. */
async function deliver(manager: RunManager, version: number, sizeBytes = 100): Promise<void> {
  const name = `of-${Math.random()}`; // two writers never save a file of the same name
  await manager.save({ version, buffers: { [name]: bytes(sizeBytes) }, dedupe: 'off', noWait: true });
}

/** A short form: which writers have delivered, which are missing, and how many bytes exist. */
async function seen(bucket: MemoryBucket) {
  await using manager = open(bucket);
  const list = await manager.admin.begun();
  return list.map(({ version, deliveredWriters, missing, uploadedBytes }) => ({
    version: Number(version),
    delivered: deliveredWriters,
    missing: missing.map((each) => each.writer),
    uploadedBytes,
  }));
}

async function details(bucket: MemoryBucket): Promise<string[]> {
  await using manager = open(bucket);
  return (await manager.admin.begun()).flatMap(({ missing }) => missing.map(({ detail }) => detail));
}

describe('which versions are under way', () => {
  test('no run at all: NotFound; a run in which all is committed, or nothing was begun yet: none', async () => {
    await using nothing = open(newBucket());
    expect(await failure(nothing.admin.begun())).toBe('NotFound: there is no run at memory://unnamed');
    const bucket = newBucket();
    await using lone = writer(bucket, 0, 1);
    await lone.join();
    expect(await seen(bucket)).toEqual([]);
    await deliver(lone, 4);
    expect(await seen(bucket)).toEqual([]);
  });

  test('all of them, lowest first by number, with who has delivered, who has not, and what has arrived', async () => {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 3);
    await using second = writer(bucket, 1, 3);
    await deliver(first, 10, 400);
    await deliver(first, 9, 300);
    await deliver(second, 9, 50);
    expect((await first.admin.begun()).map(({ writerBytes }) => writerBytes)).toEqual([
      [300, 50, 0],
      [400, 0, 0],
    ]);
    expect(await seen(bucket)).toEqual([
      { version: 9, delivered: [0, 1], missing: [2], uploadedBytes: 350 },
      { version: 10, delivered: [0], missing: [1, 2], uploadedBytes: 400 },
    ]);
    await using any = open(bucket);
    const [lowest] = await any.admin.begun();
    expect(lowest).toMatchObject({ id: { lineage: 1, epoch: 1, version: 9n }, version: 9n, worldSize: 3 });
    expect(lowest?.missing).toEqual([{ writer: 2, detail: 'writer 2 never joined' }]);
  });

  test('one that all writers delivered, but none committed, lacks no writer; commit() finishes it', async () => {
    const bucket = newBucket();
    const store = new FaultyStore(new MemoryStore(bucket), ({ key }) =>
      key.includes('/manifest-') ? { effect: 'none', reply: 'stop' } : undefined,
    );
    const killed = open(bucket, { store, clock: new ManualClock(), attempt: 'job' });
    void killed.save({ version: 3, buffers: { a: bytes(70) } });
    await store.stopped;
    expect(await seen(bucket)).toEqual([{ version: 3, delivered: [0], missing: [], uploadedBytes: 70 }]);
    await using survivor = open(bucket);
    expect((await survivor.commit()).version).toBe(3n);
    expect(await survivor.admin.begun()).toEqual([]);
  });

  test('a version is over once it or a higher one is committed', async () => {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 2);
    await using second = writer(bucket, 1, 2);
    for (const version of [5, 6, 7]) await deliver(first, version);
    await deliver(second, 6);
    expect((await seen(bucket)).map(({ version }) => version)).toEqual([7]);
  });

  test('what earlier attempts have begun is over, and so is what a rollback left behind', async () => {
    const bucket = newBucket();
    await using lone = writer(bucket, 0, 1);
    await deliver(lone, 1);
    await deliver(lone, 2);
    await using old = writer(bucket, 0, 2, 'old');
    await deliver(old, 5);
    expect((await seen(bucket)).map(({ version }) => version)).toEqual([5]);
    await using next = writer(bucket, 0, 2, 'next');
    await deliver(next, 4);
    expect((await seen(bucket)).map(({ version }) => version)).toEqual([4]);
    await next.admin.rollback({ to: 1, reason: 'a test' });
    expect(await seen(bucket)).toEqual([]);
  });

  test('a receipt of an earlier life of a writer does not count: it has to deliver again', async () => {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 2);
    await deliver(first, 5, 100);
    await using again = writer(bucket, 0, 2);
    await again.join();
    expect(await seen(bucket)).toEqual([{ version: 5, delivered: [], missing: [0, 1], uploadedBytes: 100 }]);
    await deliver(again, 5, 100);
    expect(await seen(bucket)).toMatchObject([{ version: 5, delivered: [0], missing: [1] }]);
  });

  test('a large file of which no byte is visible yet counts by the record of its upload', async () => {
    const bucket = newBucket();
    await killedLife(bucket);
    expect(await seen(bucket)).toEqual([{ version: 7, delivered: [], missing: [0], uploadedBytes: 0 }]);
    await using next = writer(bucket, 0, 1, 'another');
    await next.join();
    expect(await seen(bucket)).toEqual([]);
  });

  test('what a newer attempt has begun since the catalog was read does not belong to this one', async () => {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 2);
    await deliver(first, 5);
    bucket.insert('version_9/1.2/0.0-ab/a', bytes(1));
    bucket.insert('uploads/8.1.2.0-a.json', bytes(1));
    expect((await seen(bucket)).map(({ version }) => version)).toEqual([5]);
  });

  test('objects that do not belong to a run change nothing', async () => {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 2);
    await deliver(first, 5);
    for (const key of ['version_8', 'version_9/1.1/notes.txt', 'uploads/a.json', 'uploads/9.1.1.json'])
      bucket.insert(key, bytes(1));
    expect((await seen(bucket)).map(({ version }) => version)).toEqual([5]);
  });
});

describe('what is said of a writer that has not delivered', () => {
  test('when it last finished a file, or began to send a large one, whichever is later, by the store', async () => {
    const bucket = newBucket();
    const clock = new ManualClock();
    bucket.clock = clock;
    await killedLife(bucket);
    await clock.advance(40_000);
    expect(await details(bucket)).toEqual(['writer 0 began to send a large file 40 s ago']);
    bucket.insert('version_7/1.1/0.0-ab/small', bytes(9));
    await clock.advance(5000);
    expect(await details(bucket)).toEqual(['writer 0 last uploaded 5 s ago']);
    bucket.insert('uploads/7.1.1.0-later.json', bytes(1));
    await clock.advance(600_000);
    expect(await details(bucket)).toEqual(['writer 0 began to send a large file 10 min ago']);
  });

  test('since when, if it joined and has sent nothing; the error of commit() says the same', async () => {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 3);
    await using second = writer(bucket, 1, 3);
    await second.join();
    await deliver(first, 5);
    const expected = [
      'writer 1 joined the run 0 s ago and has finished no file of version 5',
      'writer 2 never joined',
    ];
    expect(await details(bucket)).toEqual(expected);
    expect(await failure(first.commit())).toContain(expected.join('; '));
    bucket.insert('uploads/5.1.1.2-a.json', bytes(1));
    bucket.insert('uploads/6.1.1.1-a.json', bytes(1));
    expect(await failure(first.commit())).toContain(
      `${expected[0]}; writer 2 began to send a large file 0 s ago`,
    );
  });
});

describe('what it costs', () => {
  test('however many files a version under way has, all of them are counted', async () => {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 2);
    await deliver(first, 2);
    for (let index = 10; index < 60; index++) bucket.insert(`version_2/1.1/1.0-ab/f${index}`, bytes(3));
    await using looking = open(bucket, {
      store: new MemoryStore(bucket, { capabilities: { maxListKeys: 10 } }),
    });
    expect(await looking.admin.begun()).toMatchObject([{ deliveredWriters: [0], uploadedBytes: 250 }]);
  });

  /**
   * Requests of one `begun` on a run whose committed version 1 has `fileCount` files, in pages of
   * ten keys.
   */
  async function requests(fileCount: number): Promise<string[]> {
    const bucket = newBucket();
    await using first = writer(bucket, 0, 1);
    const names = Array.from({ length: fileCount }, (_, index) => [`f${index}`, bytes(1)] as const);
    await first.save({ version: 1, buffers: Object.fromEntries(names) });
    // A catalog of less than four entries takes one more read.
    for (const label of ['a', 'b', 'c']) await first.admin.pin(1, label);
    await using next = writer(bucket, 0, 2, 'next');
    await deliver(next, 2);
    const store = new FaultyStore(new MemoryStore(bucket, { capabilities: { maxListKeys: 10 } }));
    await using looking = open(bucket, { store });
    expect((await looking.admin.begun()).map(({ version }) => version)).toEqual([2n]);
    return store.calls.map(({ operation, key }) => `${operation} ${key.split('/')[0]}`);
  }

  test('a look is six requests, whatever committed versions hold', async () => {
    const small = await requests(2);
    expect(small.sort()).toEqual([
      'get catalog',
      'list catalog',
      'list uploads',
      'list version_2',
      'list writers',
      'listDirectories ',
    ]);
    expect((await requests(200)).length).toBe(small.length);
  });
});
