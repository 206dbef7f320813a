/**
 * The election on a store: which trainer is elected, when the next one is, and the influence of
 * clocks.
 */

import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { crc32c } from '@holdfast/core';
import { systemClock } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { openStore } from '@holdfast/stores';
import { FaultyStore } from '@holdfast/testkit';
import { type ModelFiles, StoreElection, saveModel } from '@holdfast/training';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { electsOneOf32, holders, type Trainer, trainer } from './election-store.ts';

const DAY_MS = 24 * 60 * 60_000;

let root: string;
let bucket: MemoryBucket;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'holdfast-election-'));
  bucket = new MemoryBucket({ crc32c });
});

afterEach(async () => {
  expect(bucket.violations).toEqual([]);
  await rm(root, { recursive: true });
});

const onBucket = (id: string): Trainer => trainer(id, new MemoryStore(bucket));

describe('A14: exactly one of 32 trainers that ask at once is elected, and again when its time is over', () => {
  test.each([
    ['in memory', async () => new MemoryStore(bucket)],
    ['on local disk', async () => openStore(pathToFileURL(root).href)],
  ])('%s', async (_, open) => {
    const { told, stored } = await electsOneOf32(open);
    expect(told).toEqual([expect.stringMatching(/^trainer-\d+$/), expect.stringMatching(/^trainer-\d+$/)]);
    expect(stored).toEqual(told);
  });
});

describe('A14: one holder', () => {
  test('the same trainer is told so again, another not', async () => {
    const [a, b] = [onBucket('a'), onBucket('b')];
    expect([await a.ask(5000), await b.ask(5000), await a.ask(5000), await b.ask(5000)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
    expect(await holders(new MemoryStore(bucket))).toEqual(['a', 'a']);
  });

  test('another process of the same trainer is the same trainer', async () => {
    expect([
      await onBucket('a').ask(5000),
      await onBucket('a').ask(5000),
      await onBucket('b').ask(5000),
    ]).toEqual([true, true, false]);
  });

  test('two processes of the same trainer at once are both told so, each by a grant of its own', async () => {
    const [first, second] = [onBucket('a'), onBucket('a')];
    expect(await Promise.all([first.ask(5000), second.ask(5000), second.ask(60_000)])).toEqual([
      true,
      true,
      true,
    ]);
    expect((await holders(new MemoryStore(bucket))).length).toBeGreaterThanOrEqual(3);
  });

  test('the holder dies: another is elected after 1.25 times its time, and not before', async () => {
    const [dead, b, c] = [onBucket('dead'), onBucket('b'), onBucket('c')];
    expect(await dead.ask(1000)).toBe(true);
    expect([await b.ask(60_000), await c.ask(60_000)]).toEqual([false, false]);
    await b.clock.advance(1249);
    expect(await b.ask(60_000)).toBe(false);
    await b.clock.advance(1);
    await c.clock.advance(1250);
    expect(await b.ask(60_000)).toBe(true);
    expect(await c.ask(60_000)).toBe(false); // the new holder's grant has just begun
    expect(await dead.ask(1000)).toBe(false);
  });

  test('it counts from when a trainer first saw the grant, not from when it was made', async () => {
    const [a, late] = [onBucket('a'), onBucket('late')];
    expect(await a.ask(1000)).toBe(true);
    await late.clock.advance(10 * DAY_MS);
    expect(await late.ask(1000)).toBe(false);
    await late.clock.advance(1250);
    expect(await late.ask(1000)).toBe(true);
  });

  /** For a trainer whose time passes only during one call of the store. */
  function slowTrainer(id: string, ms: number, { operation, skip }: { operation: string; skip: number }) {
    let nowMs = 0;
    let count = 0;
    const store = new FaultyStore(new MemoryStore(bucket), (call) => {
      if (call.operation === operation && count++ === skip) nowMs += ms;
      return undefined;
    });
    const election = new StoreElection(store, { clock: { ...systemClock, monotonicMs: () => nowMs } });
    return () => election.requestSave(id, 1000);
  }

  test.each([
    { operation: 'list', skip: 0 },
    { operation: 'create', skip: 0 },
    { operation: 'list', skip: 1 },
  ])(
    'one that hears of it when its time is over is told TimedOut, not yes: $operation after $skip took all of it',
    async (call) => {
      expect(await slowTrainer('a', 999, call)()).toBe(true);
      const ask = slowTrainer('a', 1000, call);
      await expect(ask()).rejects.toMatchObject({
        code: 'TimedOut',
        message: 'asked to be elected for 1000 ms, which had passed before the answer arrived',
      });
      expect(await ask()).toBe(true); // no other trainer is elected
    },
  );

  test('one that is not elected hears so, however long it takes', async () => {
    expect(await onBucket('a').ask(1000)).toBe(true);
    expect(await slowTrainer('b', 5000, { operation: 'list', skip: 0 })()).toBe(false);
  });

  test('a renewal counts anew, by the time that it asks for', async () => {
    const [a, b] = [onBucket('a'), onBucket('b')];
    expect([await a.ask(1000), await b.ask(1000)]).toEqual([true, false]);
    await b.clock.advance(1200);
    expect([await a.ask(2000), await b.ask(1000)]).toEqual([true, false]);
    await b.clock.advance(2499);
    expect(await b.ask(1000)).toBe(false);
    await b.clock.advance(1);
    expect(await b.ask(1000)).toBe(true);
  });

  test('whose time is over and who was not replaced is elected again', async () => {
    const [a, b] = [onBucket('a'), onBucket('b')];
    expect([await a.ask(1), await b.ask(1)]).toEqual([true, false]);
    await a.clock.advance(DAY_MS);
    await b.clock.advance(DAY_MS);
    expect([await a.ask(5000), await b.ask(5000)]).toEqual([true, false]);
  });

  test.each([DAY_MS, -DAY_MS])(
    "no wall clock decides: the trainers' and the store's jump by %d ms",
    async (jumpMs) => {
      const [a, b] = [onBucket('a'), onBucket('b')];
      const jump = (ms: number) => {
        for (const { clock } of [a, b]) clock.setWallClock(clock.nowMs() + ms);
        bucket.clock = { nowMs: () => Date.now() + ms };
      };
      expect([await a.ask(1000), await b.ask(1000)]).toEqual([true, false]);
      jump(jumpMs);
      await b.clock.advance(1249);
      expect(await b.ask(1000)).toBe(false);
      jump(-2 * jumpMs);
      await b.clock.advance(1);
      expect(await b.ask(1000)).toBe(true);
      expect(await a.ask(1000)).toBe(false);
    },
  );
});

describe('A14: split brain', () => {
  async function writeParts(model: ModelFiles, byte: number, between: () => Promise<unknown>): Promise<void> {
    for (const name of ['model.bin', 'vocabulary/words.txt']) {
      const sink = await model.open({ name, sizeBytes: 5000 });
      await sink.writeAt(0, new Uint8Array(2500).fill(byte));
      await between();
      await sink.writeAt(2500, new Uint8Array(2500).fill(byte));
      await sink.close();
    }
  }

  test('two that were both elected leave two whole models', async () => {
    const [slow, next] = [onBucket('slow'), onBucket('next')];
    expect([await slow.ask(1000), await next.ask(1000)]).toEqual([true, false]);
    const first = saveModel(join(root, 'models'), slow.id, (model) =>
      writeParts(model, 1, async () => {
        // The first one is paused in the middle of its model, for longer than its grant.
        await next.clock.advance(1250);
        if (!(await next.ask(DAY_MS))) throw new Error('the second one is not elected');
        await saveModel(
          join(root, 'models'),
          next.id,
          (other) => writeParts(other, 2, async () => undefined),
          { replace: true },
        );
      }),
    );
    expect(await first).toBe(join(root, 'models', 'slow'));
    const shown = (await readdir(join(root, 'models'))).filter((name) => !name.startsWith('.'));
    expect(shown.toSorted()).toEqual(['next', 'slow']);
    for (const [id, byte] of [
      ['slow', 1],
      ['next', 2],
    ] as const) {
      for (const name of ['model.bin', 'vocabulary/words.txt']) {
        expect(await readFile(join(root, 'models', id, name))).toEqual(Buffer.alloc(5000, byte));
      }
    }
  });
});
