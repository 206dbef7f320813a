/**
 * A store has lost entries of the catalog. No process builds on the rest, and no process starts the
 * run again.
 */

import { crc32c, isCheckpointError, systemClock } from '@holdfast/core';
import { catalogKey } from '@holdfast/core/internal/format/index';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FAULTS } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { keysOf, processOn } from './sweep-run.ts';

/** Number of entries that no client deletes. */
const KEPT = 64;

const save = (manager: ReturnType<typeof open>, version: number) =>
  manager.save({ version, buffers: { a: bytes(10, version) }, dedupe: 'off' });

/** Entries 1 and 2: a takeover and the commit of version 1. */
async function savedRun(bucket = newBucket()): Promise<MemoryBucket> {
  await using manager = open(bucket, { attempt: 'job-0' });
  await save(manager, 1);
  return bucket;
}

async function decide(bucket: MemoryBucket, count: number): Promise<void> {
  await using command = open(bucket);
  for (let at = 0; at < count; at++) await command.admin.setRetention({ keepLast: 1000 + (at % 2) });
}

function lose(bucket: MemoryBucket, ...seqs: number[]): void {
  const keys = seqs.length > 0 ? seqs.map(catalogKey) : keysOf(bucket, 'catalog/');
  for (const key of keys) bucket.remove(key);
}

/** `act` runs before the first create of entry `seq` is sent. */
function processBeforeWhose(seq: number, act: () => Promise<void>, bucket: MemoryBucket, attempt: string) {
  let isDue = true;
  return processOn(bucket, {
    attempt,
    clock: systemClock, // others act while its requests wait
    change: (below) => {
      const create = MemoryStore.prototype.create.bind(below);
      below.create = async (...call) => {
        if (isDue && call[0] === catalogKey(seq)) {
          isDue = false;
          await act();
        }
        return create(...call);
      };
    },
  }).manager;
}

/** Waits before it creates its entry, after it has made the mark and listed the catalog again. */
async function rebuildThatWaits(
  bucket: MemoryBucket,
  reached: { readonly resolve: () => void },
  goOn: Promise<void>,
): Promise<void> {
  const { manager } = processOn(bucket, {
    clock: systemClock,
    change: (below) => {
      const create = MemoryStore.prototype.create.bind(below);
      below.create = async (...call) => {
        if (call[0].startsWith('catalog/') && call[0] !== catalogKey(1)) {
          reached.resolve();
          await goOn;
        }
        return create(...call);
      };
    },
  });
  await manager.admin.rebuildCatalog();
  await manager.close();
}

async function caught(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => expect.unreachable('it did not fail'),
    (error: unknown) => error,
  );
}

function expectUnknown(error: unknown, cause: object = { code: 'StoreRegressed' }): void {
  expect(error).toMatchObject({ code: 'OutcomeUnknown' });
  const causes: unknown[] = [];
  for (let at = error; at instanceof Error; at = at.cause) causes.push(at);
  expect(causes.at(-1)).toMatchObject(cause);
}

describe('the newest entry without the one it follows', () => {
  test('I7: a commit that is created after the loss is not acknowledged', async () => {
    const bucket = newBucket();
    const loseAll = async () => lose(bucket);
    await using writer = processBeforeWhose(3, loseAll, bucket, 'job-0');
    await save(writer, 1);
    const error = await caught(save(writer, 2));
    expectUnknown(error);
    expect(keysOf(bucket, 'catalog/')).toEqual([catalogKey(3)]);
    expect(await failure(writer.latest())).toMatch(/^StoreRegressed: .*shows entry 3, but entry 2 is gone/);
  });

  test('I0: another process builds nothing on it, and is offered nothing', async () => {
    const bucket = await savedRun();
    await decide(bucket, 1);
    lose(bucket, 1, 2);
    await using next = open(bucket, { attempt: 'job-1' });
    for (const call of [next.latest(), save(next, 2), next.admin.collect({ policy: { keepLast: 1 } })])
      expect(await failure(call)).toMatch(/^StoreRegressed: .*entry 2 is gone/);
    expect(keysOf(bucket, 'catalog/')).toEqual([catalogKey(3)]);
  });

  test('I7: the mark of a rebuild under number 1 is not the entry that number 2 follows', async () => {
    const mayReuseKey = ({ key }: { key: string }) => key === catalogKey(1);
    const bucket = new MemoryBucket({ crc32c, mayReuseKey });
    const loseAndBeginRebuild = async () => {
      lose(bucket);
      const { manager } = processOn(bucket, {
        plan: ({ operation, key }) =>
          operation === 'create' && key.startsWith('catalog/') && key !== catalogKey(1)
            ? FAULTS.stopBefore
            : undefined,
      });
      await manager.admin.rebuildCatalog().catch(() => undefined); // it is dead
      expect(keysOf(bucket, 'catalog/')).toEqual([catalogKey(1)]);
    };
    await using writer = processBeforeWhose(2, loseAndBeginRebuild, bucket, 'job-9');
    const isTheMark = { code: 'Corrupt', message: expect.stringContaining('the mark of a rebuild') };
    expectUnknown(await caught(save(writer, 7)), isTheMark);
    await using next = open(bucket, { attempt: 'job-10' });
    expect(await failure(save(next, 8))).toMatch(/^StoreRegressed: .*entry 1 is gone/);
  });

  test('I7: a commit is not acknowledged where a second look shows the entry of a rebuild above it', async () => {
    const bucket = new MemoryBucket({ crc32c, mayReuseKey: ({ key }) => key === catalogKey(1) });
    const isMarked = Promise.withResolvers<void>();
    const mayGoOn = Promise.withResolvers<void>();
    let looks = Number.NEGATIVE_INFINITY;
    let rebuilt: Promise<unknown> | undefined;
    await using writer = processOn(bucket, {
      attempt: 'job-0',
      clock: systemClock, // others act while its requests wait
      change: (below) => {
        const { create, list } = MemoryStore.prototype;
        below.create = async (...call) => {
          if (call[0] !== catalogKey(3)) return create.apply(below as MemoryStore, call);
          lose(bucket);
          rebuilt = rebuildThatWaits(bucket, isMarked, mayGoOn.promise);
          await isMarked.promise;
          looks = 0;
          return create.apply(below as MemoryStore, call);
        };
        below.list = async function* (...call) {
          if (call[0] === 'catalog/' && ++looks === 2) {
            mayGoOn.resolve();
            await rebuilt;
          }
          yield* list.apply(below as MemoryStore, call);
        };
      },
    }).manager;
    await save(writer, 1);
    expect(await caught(save(writer, 2))).toMatchObject({ code: 'OutcomeUnknown' });
  });

  test.each([
    [2, 3],
    [3, 4],
  ])(
    'I7: entry %i, which lands a second time while a rebuild is under way, makes no entry %i count',
    async (last, next) => {
      const mayReuseKey = ({ key, hasSameBytes }: { key: string; hasSameBytes: boolean }) =>
        hasSameBytes || key === catalogKey(1);
      const bucket = new MemoryBucket({ crc32c, mayReuseKey });
      const isMarked = Promise.withResolvers<void>();
      const mayGoOn = Promise.withResolvers<void>();
      let rebuilt: Promise<void> | undefined;
      const loseAndBringBack = async () => {
        const again = bucket.find(catalogKey(last))?.bytes ?? bytes(0);
        lose(bucket);
        rebuilt = rebuildThatWaits(bucket, isMarked, mayGoOn.promise);
        await isMarked.promise;
        bucket.insert(catalogKey(last), again);
      };
      await using writer = processBeforeWhose(next, loseAndBringBack, bucket, 'job-0');
      for (let version = 1; version < last; version++) await save(writer, version);
      expectUnknown(await caught(save(writer, last)));
      await using other = open(bucket, { attempt: 'job-1' });
      for (const call of [other.latest(), save(other, 9)])
        expect(await failure(call)).toMatch(new RegExp(`^StoreRegressed: .*entry ${last - 1} is gone`));
      mayGoOn.resolve();
      await rebuilt;
      expect((await other.latest())?.version).toBe(BigInt(last));
    },
  );

  test('the first entries of a rebuilt catalog follow the one that it begins with, which is read once', async () => {
    const bucket = new MemoryBucket({ crc32c, mayReuseKey: ({ key }) => key === catalogKey(1) });
    await savedRun(bucket);
    lose(bucket);
    await using manager = open(bucket);
    await manager.admin.rebuildCatalog();
    await decide(bucket, 1);
    const { manager: reader, store } = processOn(bucket);
    await reader.latest();
    await decide(bucket, 2);
    await reader.latest();
    const isGet = ({ operation, key }: { operation: string; key: string }) =>
      operation === 'get' && key.startsWith('catalog/');
    expect(store.calls.filter(isGet)).toHaveLength(3);
    await reader.close();
  });

  test('an entry that no decision needs may be damaged: those after it count', async () => {
    const bucket = await savedRun();
    bucket.damage(catalogKey(1), (data) => data.map((byte, at) => (at === 30 ? byte ^ 1 : byte)));
    await using reader = open(bucket);
    expect((await reader.latest())?.version).toBe(1n);
  });

  test('a listing that misses an entry which is created meanwhile is made again', async () => {
    const bucket = await savedRun();
    await decide(bucket, 1);
    let missed = 0;
    const { manager } = processOn(bucket, {
      change: (below) => {
        const list = MemoryStore.prototype.list.bind(below);
        below.list = async function* (...call) {
          for await (const page of list(...call)) {
            const objects = page.objects.filter(({ key }) => key !== catalogKey(2) || missed > 0);
            if (objects.length < page.objects.length) missed++;
            yield { ...page, objects };
          }
        };
      },
    });
    await using reader = manager;
    expect((await reader.latest())?.version).toBe(1n);
    expect(missed).toBe(1);
  });
});

describe('an entry that a client has seen', () => {
  test('is expected to be there: without it the client stops', async () => {
    const bucket = await savedRun();
    await using reader = open(bucket);
    await reader.latest();
    await decide(bucket, 2);
    lose(bucket, 2);
    expect(await failure(reader.latest())).toMatch(/^StoreRegressed: .*shows entry 4, but entry 2 is gone/);
  });

  test.each([
    [KEPT - 1, 'StoreRegressed'],
    [KEPT, 'version 1'],
  ])('may have been pruned once enough others came after it: %i', async (count, expected) => {
    const bucket = await savedRun();
    await using reader = open(bucket);
    await reader.latest();
    await decide(bucket, count);
    lose(bucket, 1, 2);
    const found = await reader.latest().then(
      (latest) => `version ${latest?.version}`,
      (error: unknown) => (isCheckpointError(error) ? error.code : String(error)),
    );
    expect(found).toBe(expected);
  });
});

describe('no catalog at all', () => {
  test.each(['writers/', 'version_1/'])(
    'but keys below %s: a new writer begins no run there',
    async (left) => {
      const bucket = await savedRun();
      for (const key of bucket.keys()) if (!key.startsWith(left)) bucket.remove(key);
      const before = bucket.keys();
      await using next = open(bucket, { attempt: 'job-1' });
      const error = await caught(save(next, 2));
      expect(String(error)).toMatch(
        /has no catalog, but it has .*: the catalog is lost, so nothing is written/,
      );
      expect(error).toMatchObject({
        code: 'StoreRegressed',
        context: { advice: [expect.stringContaining('`admin.rebuildCatalog` writes')] },
      });
      expect(bucket.keys()).toEqual(before);
    },
  );

  test('and keys that are not those of a run, such as a directory named version_old: the run begins', async () => {
    const bucket = newBucket();
    bucket.insert('version_old/notes.txt', bytes(3));
    await using writer = open(bucket, { attempt: 'job-0' });
    expect((await save(writer, 1)).isCommitted).toBe(true);
  });

  test('when it was listed, and another process has begun the run since: the writer joins that run', async () => {
    const bucket = newBucket();
    let isDue = true;
    const { manager } = processOn(bucket, {
      attempt: 'job-1',
      clock: systemClock, // this clock cannot see what the other process does
      change: (below) => {
        const list = MemoryStore.prototype.list.bind(below);
        below.list = async function* (...call) {
          yield* list(...call);
          if (isDue) {
            isDue = false;
            await savedRun(bucket);
          }
        };
      },
    });
    await using writer = manager;
    expect((await save(writer, 2)).id.epoch).toBe(2);
  });
});
