/**
 * Saves beside the training with a real manager. The commit holds the bytes that existed when the
 * call resolved.
 */

import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CheckpointError, createThrottle, type RunManager } from '@holdfast/core';
import type { Staging } from '@holdfast/core/contract';
import { MemoryStore } from '@holdfast/core/store';
import { FAULTS, FaultyStore, ManualClock, refuse } from '@holdfast/testkit';
import { AsyncSaver, DirectoryStaging, MemoryStaging } from '@holdfast/training';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, readAll } from '../manager/memory-run.ts';

const KIB = 1024;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-async-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const STAGINGS: [string, () => Staging][] = [
  ['memory', () => new MemoryStaging()],
  ['a directory', () => new DirectoryStaging({ directory })],
];

async function saved(manager: RunManager, name: string, version?: number): Promise<Buffer> {
  const checkpoint = version === undefined ? await manager.latest() : await manager.get(version);
  return Buffer.from(await readAll(checkpoint?.openInputStream(name) as ReadableStream<Uint8Array>));
}

describe.each(STAGINGS)('through %s', (_, staging) => {
  test('what is committed is the state of the call, though it changes as soon as the call has resolved', async () => {
    await using manager = open(newBucket());
    await using saver = new AsyncSaver(manager, { staging: staging() });
    const model = bytes(300_000);
    for (let step = 0; step < 5; step++) {
      model.fill(step, 0, 200_000);
      expect(await saver.saveAsync({ buffers: { model }, metadata: { step: String(step) } })).toBe('started');
      model.fill(255);
    }
    expect(await saver.settled()).toMatchObject({ version: 4n, isCommitted: true, sizeBytes: 300_000 });
    expect(saver.newest?.version).toBe(4n);
    for (let step = 0; step < 5; step++) {
      const found = await saved(manager, 'model', step);
      expect(new Set(found.subarray(0, 200_000))).toEqual(new Set([step]));
    }
    expect(readdirSync(directory)).toEqual([]);
  });

  test('a state that writes itself: streams side by side, their chunks used again after each write', async () => {
    await using manager = open(newBucket());
    await using saver = new AsyncSaver(manager, { staging: staging() });
    const chunk = new Uint8Array(50_000);
    const expected: Record<string, Uint8Array[]> = { a: [], b: [], empty: [] };
    const write = async (opener: (key: string) => WritableStream<Uint8Array>) => {
      const a = opener('a').getWriter();
      const b = opener('b').getWriter();
      opener('empty');
      for (let round = 0; round < 7; round++) {
        for (const [key, writer] of Object.entries({ a, b })) {
          const piece = chunk.subarray(0, 1000 * round + (key === 'a' ? 1 : 50_000 - 6000));
          piece.fill(round * 2 + (key === 'a' ? 0 : 1));
          expected[key]?.push(piece.slice());
          await writer.write(piece);
        }
      }
      await a.close();
      await b.close();
      chunk.fill(255);
    };
    expect(await saver.saveStreams(write, { metrics: { loss: 2 }, version: 12 })).toBe('started');
    expect(await saver.settled()).toMatchObject({ version: 12n, fileCount: 3 });
    for (const [key, pieces] of Object.entries(expected))
      expect((await saved(manager, key)).equals(Buffer.concat(pieces)), key).toBe(true);
    expect((await manager.latest())?.summary?.metrics).toEqual({ loss: 2 });
  });

  test('what has not changed since the last save is not sent again, streams included', async () => {
    await using manager = open(newBucket());
    await using saver = new AsyncSaver(manager, { staging: staging() });
    for (const referencedBytes of [0, 0, 200_000]) {
      await saver.saveStreams((opener) => new Blob([bytes(200_000)]).stream().pipeTo(opener('a')));
      expect(await saver.settled()).toMatchObject({ sizeBytes: 200_000, referencedBytes });
    }
  });
});

describe('a state that cannot be written', () => {
  type Write = Parameters<AsyncSaver['saveStreams']>[0];
  const lost = new Error('the device is gone');
  const held: Write = async (opener) => {
    await opener('a').getWriter().write(bytes(10));
  };
  const swallowed: Write = async (opener) => {
    const writer = opener('a').getWriter();
    await writer.write('text' as unknown as Uint8Array).catch(() => undefined);
  };
  let late: Parameters<Write>[0];
  const cases: [string, Write, string][] = [
    ['throws', () => Promise.reject(lost), 'the device is gone'],
    [
      'throws within',
      async (opener) => {
        await opener('a').getWriter().write(bytes(10));
        throw lost;
      },
      'the device is gone',
    ],
    ['aborts its stream', (opener) => opener('a').abort(lost), 'the device is gone'],
    ['aborts it for no reason', (opener) => opener('a').abort(), 'stream "a" was aborted'],
    ['ends while it holds a writer', held, 'stream "a" is still being written'],
    ['opens a key twice', async (opener) => void [opener('a'), opener('a')], 'stream "a" is opened twice'],
    ['writes no bytes', swallowed, 'stream "a" got a chunk of type string; it takes Uint8Array'],
    [
      'is larger than the staging',
      (opener) => new Blob([bytes(200_001)]).stream().pipeTo(opener('a')),
      'staging needs at least 2',
    ],
    ['has no file', async () => undefined, 'there is no file to save'],
    ['has a name that is none', async (opener) => void opener('../a'), '../a'],
    [
      'opens a stream too late',
      async (opener) => {
        late = opener;
        await opener('a').close();
        setImmediate(() => expect(() => late('b')).toThrow('"b" is opened too late'));
      },
      '',
    ],
  ];
  test.each(cases)(
    'because it %s: that is the error of the call, and the next save has the room',
    async (...given) => {
      const [, write, message] = given;
      await using manager = open(newBucket());
      const staging = new MemoryStaging({ bytesMax: 200_000 });
      await using saver = new AsyncSaver(manager, { staging });
      if (message === '') expect(await saver.saveStreams(write)).toBe('started');
      else await expect(saver.saveStreams(write)).rejects.toThrow(message);
      await saver.settled();
      expect(await manager.list()).toHaveLength(message === '' ? 1 : 0);
      await saver.saveStreams((opener) => new Blob([bytes(200_000)]).stream().pipeTo(opener('a')));
      expect(await saver.settled()).toMatchObject({ sizeBytes: 200_000 });
    },
  );

  test('the staging fails while it is written: the writer gets an error, and the call has the error of the staging', async () => {
    const full = new CheckpointError('StorageFull', 'no room');
    const staging: Staging = {
      async stage([all]) {
        const source = all?.source as { stream: AsyncIterable<Uint8Array> };
        for await (const _ of source.stream) throw full;
        throw new Error('nothing came');
      },
    };
    await using manager = open(newBucket());
    await using saver = new AsyncSaver(manager, { staging });
    let told: unknown;
    const write: Write = async (opener) => {
      const writer = opener('a').getWriter();
      await writer.write(bytes(10)).catch((error: unknown) => {
        told = error;
      });
      throw new Error('could not write');
    };
    await expect(saver.saveStreams(write)).rejects.toBe(full);
    expect(told).toBe(full);
  });

  test('the manager refuses the save: the copy is given back', async () => {
    await using manager = open(newBucket());
    await using saver = new AsyncSaver(manager);
    const write: Write = (opener) => new Blob([bytes(10)]).stream().pipeTo(opener('a'));
    expect(await failure(saver.saveStreams(write, { metrics: { loss: Number.NaN } }))).toContain(
      'InvalidArgument: metric "loss"',
    );
    expect(await saver.saveStreams(write)).toBe('started');
  });
});

test('a store that refuses while the save is in flight: the next call says so and saves nothing, the one after it does', async () => {
  const bucket = newBucket();
  let isRefusing = true;
  const store = new FaultyStore(new MemoryStore(bucket), ({ operation, key }) =>
    isRefusing && operation === 'create' && key.includes('/receipts/') ? refuse('Denied') : undefined,
  );
  await using manager = open(bucket, { store });
  await using saver = new AsyncSaver(manager);
  const buffers = { a: bytes(1000) };
  expect(await saver.saveAsync({ buffers })).toBe('started');
  expect(await failure(saver.saveAsync({ buffers }))).toContain('Denied');
  isRefusing = false;
  expect(await saver.saveAsync({ buffers })).toBe('started');
  await saver.settled();
  expect(await manager.list()).toHaveLength(1);
  expect(saver.report).toMatchObject({ started: 2, committed: 1, failed: 1 });
});

test('a store that does not answer: the save is stopped in the end, and says at which file and why it was repeated', async () => {
  const bucket = newBucket();
  const clock = new ManualClock();
  let isSilent = true;
  const store = new FaultyStore(new MemoryStore(bucket), ({ operation, key }) =>
    isSilent && operation === 'create' && key.includes('weights') ? FAULTS.stall : undefined,
  );
  await using manager = open(bucket, { store, clock });
  await using saver = new AsyncSaver(manager, { clock, stallTimeoutMs: 60_000, onStall: 'fail' });
  const buffers = { bias: bytes(10), weights: bytes(1000) };
  await saver.saveAsync({ buffers });
  await clock.advance(60_000);
  // A request in progress gets its full time to end.
  await clock.advance(60_000);
  const said = await failure(saver.settled());
  expect(said).toContain(
    'TimedOut: the save was stopped: no progress of version 0 for 60 s: 10 of 1010 bytes (0 %), at weights, writer 0 of 1',
  );
  expect(said).toMatch(/weights has 0 of 1000 bytes; last retry [\d.]+ s ago: .*no answer for 20 s/);
  isSilent = false;
  await saver.saveAsync({ buffers });
  expect(await saver.settled()).toMatchObject({ isCommitted: true });
});

describe('the limit on what is sent', () => {
  const LIMIT = 512 * KIB;
  const SIZE = 10 * LIMIT;

  test('can be changed while a save is in flight, and paused, which is no stall', async () => {
    const clock = new ManualClock();
    const warnings: string[] = [];
    const logger = { log: (_: string, message: string) => void warnings.push(message) };
    const settings = { bufferBytes: 16 * KIB ** 2, partSizeBytesMin: 64 * KIB, saveBytesPerSecondMax: LIMIT };
    await using manager = open(newBucket(), { clock, settings });
    await using saver = new AsyncSaver(manager, { clock, logger, stallTimeoutMs: 10_000 });
    const done = () => saver.inFlight?.doneBytes ?? Number.NaN;
    await saver.saveAsync({ buffers: { a: Buffer.alloc(SIZE, bytes(9973)) } });
    await clock.advance(2000);
    expect(done()).toBeGreaterThan(1.5 * LIMIT);
    expect(done()).toBeLessThan(2.5 * LIMIT);
    manager.throttle.pause();
    await clock.advance(100);
    const paused = done();
    await clock.advance(3600_000);
    expect(done()).toBe(paused);
    manager.throttle.resume();
    manager.throttle.setBytesPerSecondMax(2 * LIMIT);
    await clock.advance(1000);
    expect(done() - paused).toBeGreaterThan(1.5 * LIMIT);
    expect(done() - paused).toBeLessThan(2.5 * LIMIT);
    manager.throttle.setBytesPerSecondMax(null);
    expect(await saver.settled()).toMatchObject({ sizeBytes: SIZE });
    expect(warnings).toEqual([]);
  });

  test('one budget for two savers of a process', async () => {
    const clock = new ManualClock();
    const throttle = createThrottle({ bytesPerSecondMax: LIMIT, clock });
    await using first = open(newBucket(), { clock, throttle });
    await using second = open(newBucket(), { clock, throttle });
    const savers = [new AsyncSaver(first, { clock }), new AsyncSaver(second, { clock })];
    for (const saver of savers) await saver.saveAsync({ buffers: { a: Buffer.alloc(SIZE, bytes(9973)) } });
    await clock.advance(6000);
    const done = savers.map((saver) => saver.inFlight?.doneBytes ?? Number.NaN);
    const together = done.reduce((sum, each) => sum + each, 0);
    expect(together).toBeGreaterThan(5 * LIMIT);
    expect(together).toBeLessThan(7 * LIMIT);
    for (const each of done) expect(each).toBeGreaterThan(2 * LIMIT);
    throttle.setBytesPerSecondMax(null);
    for (const saver of savers) await saver.close();
  });
});

test('a function that never returns ends with its save, and later saves go on', async () => {
  await using manager = open(newBucket());
  await using saver = new AsyncSaver(manager);
  const stop = new AbortController();
  const stuck = saver.saveStreams(
    async (opener) => {
      opener('a');
      stop.abort(new CheckpointError('Aborted', 'enough'));
      await new Promise(() => undefined);
    },
    { signal: stop.signal },
  );
  await expect(stuck).rejects.toMatchObject({ code: 'Aborted' });
  await saver.saveAsync({ version: 2, buffers: { a: bytes(10) } });
  await saver.settled();
  expect((await manager.latest())?.version).toBe(2n);
});
