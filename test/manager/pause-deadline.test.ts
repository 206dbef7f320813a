/** Training is paused for a limited time, whichever part of a save is slow. */

import type { RandomSource } from '@holdfast/core/contract';
import type { ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';
import { MODEL, setUp, Training } from './paused-training.ts';
import { memoryStaging } from './staging-in-memory.ts';

const nothing = () => Promise.reject(new Error('there is no directory'));

describe('the deadline of a pause', () => {
  const LIMIT = { pauseTimeoutMs: 5000 };

  /** Runs everything that waits only for promises. Then advances the clock by this time. */
  async function pass(clock: ManualClock, ms: number) {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve));
    await clock.advance(ms);
  }

  test('pause() itself: TimedOut, its signal fires, and a pause that comes too late ends at once', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const training = new Training({ pausing: () => promise });
    const { manager, clock, bucket } = setUp();
    const saving = failure(manager.save({ version: 1, buffers: MODEL, ...training.options, ...LIMIT }));
    await pass(clock, 4999);
    expect(training.signal?.aborted).toBe(false);
    await pass(clock, 1);
    expect(await saving).toBe('TimedOut: pause() took longer than 5 s');
    expect(training.signal?.aborted).toBe(true);
    expect(training.calls).toEqual(['pause']);
    resolve();
    await pass(clock, 0);
    expect(training.calls).toEqual(['pause', 'resume']);
    expect(bucket.keys().filter((key) => key.startsWith('version_'))).toEqual([]);
  });

  test('that a late pause could not be ended is logged; that it failed is no news', async () => {
    const late = Promise.withResolvers<void>();
    const resuming = () => Promise.reject(new Error('the barrier broke'));
    const { manager, clock, logged } = setUp();
    for (const training of [
      new Training({ pausing: () => late.promise, resuming }),
      new Training({ pausing: () => late.promise.then(() => Promise.reject(new Error('too late'))) }),
    ]) {
      const saving = failure(manager.save({ version: 1, buffers: MODEL, ...training.options, ...LIMIT }));
      await pass(clock, 5000);
      expect(await saving).toContain('TimedOut');
    }
    expect(logged).toEqual([]);
    late.resolve();
    await pass(clock, 0);
    expect(logged).toEqual(['resuming training after pause() failed: the barrier broke']);
  });

  test('copying: TimedOut, and training goes on before the copy has wound down', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const training = new Training();
    const { manager, clock, store } = setUp();
    const staging = memoryStaging(() => promise);
    const saving = failure(
      manager.save({ version: 1, buffers: MODEL, staging, ...training.options, ...LIMIT }),
    );
    await pass(clock, 5000);
    expect(training.calls).toEqual(['pause', 'resume']);
    resolve(); // it was copied in the end, but too late
    expect(await saving).toBe('TimedOut: pause() and copying the files took longer than 5 s');
    expect(training.calls).toEqual(['pause', 'resume']);
    expect(staging).toMatchObject({ heldCount: 0 });
    expect(store.calls).toEqual([]);
  });

  test('a copy that fails when training goes on under it: the deadline is the error', async () => {
    const { promise, reject } = Promise.withResolvers<void>();
    const { manager, clock } = setUp();
    const staging = memoryStaging(() => promise);
    const options = { version: 1, buffers: MODEL, staging, ...new Training().options, ...LIMIT };
    const saving = failure(manager.save(options));
    await pass(clock, 5000);
    reject(new Error('the source has changed'));
    expect(await saving).toBe('TimedOut: pause() and copying the files took longer than 5 s');
  });

  test('sending: TimedOut, training goes on before the upload has wound down, and nothing is delivered', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const training = new Training();
    const { manager, clock, bucket } = setUp();
    const source: RandomSource = {
      sizeBytes: 9,
      readInto: () => promise,
      assertUnchanged: async () => undefined,
      close: async () => undefined,
    };
    const files = { scan: nothing, openTarget: nothing, openSource: async () => source };
    await using other = open(bucket, { files, clock });
    const options = { version: 1, files: { a: '/a' }, ...training.options, ...LIMIT };
    const saving = failure(other.save(options));
    await pass(clock, 5000);
    expect(training.calls).toEqual(['pause', 'resume']);
    resolve();
    expect(await saving).toBe('TimedOut: pause() and sending the files took longer than 5 s');
    expect(training.calls).toEqual(['pause', 'resume']);
    expect(bucket.keys().filter((key) => key.includes('/receipts/'))).toEqual([]);
    // The next attempt can start.
    await manager.save({ version: 1, buffers: MODEL, ...new Training().options });
  });

  test('letting it go on again: TimedOut, and nothing is delivered', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const training = new Training({ resuming: () => promise });
    const { manager, clock, bucket } = setUp();
    const saving = failure(manager.save({ version: 1, buffers: MODEL, ...training.options, ...LIMIT }));
    await pass(clock, 5000);
    expect(await saving).toBe(
      'TimedOut: pause(), sending the files and resuming training took longer than 5 s',
    );
    expect(training.calls).toEqual(['pause', 'resume']);
    expect(bucket.keys().filter((key) => key.includes('/receipts/'))).toEqual([]);
    resolve();
  });

  test('what comes after the pause is not part of it: another writer may be waited for longer', async () => {
    const bucket = newBucket();
    const { clock, manager } = setUp({ bucket, attempt: 'job', writer: { index: 0, count: 2 } });
    await using other = open(bucket, { clock, attempt: 'job', writer: { index: 1, count: 2 } });
    const saving = manager.save({ version: 1, buffers: MODEL, ...new Training().options, ...LIMIT });
    await pass(clock, 6000);
    const last = other.save({ version: 1, buffers: { b: bytes(1) } });
    await pass(clock, 60_000);
    await Promise.all([saving, last]);
    expect((await manager.latest())?.version).toBe(1n);
  });

  test('one minute, if nothing is said', async () => {
    const training = new Training({ pausing: () => new Promise(() => undefined) });
    const { manager, clock } = setUp();
    const saving = failure(manager.save({ version: 1, buffers: MODEL, ...training.options }));
    await pass(clock, 60_000);
    expect(await saving).toBe('TimedOut: pause() took longer than 60 s');
  });

  test.each(['pausing', 'copying', 'resuming'] as const)(
    'a caller who stops while %s is told Aborted, and training goes on at once',
    async (stage) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const hooks = stage === 'copying' ? {} : { [stage]: () => promise };
      const training = new Training(hooks);
      const { manager, clock, store } = setUp();
      const staging = memoryStaging(stage === 'copying' ? () => promise : undefined);
      const stop = new AbortController();
      const { signal } = stop;
      const saving = failure(manager.save({ buffers: MODEL, staging, ...training.options, signal }));
      await pass(clock, 0);
      stop.abort();
      await pass(clock, 0);
      expect(training.calls).toEqual(stage === 'pausing' ? ['pause'] : ['pause', 'resume']);
      resolve();
      expect(await saving).toContain('Aborted');
      await pass(clock, 0);
      expect(training.calls).toEqual(['pause', 'resume']);
      expect(staging).toMatchObject({ heldCount: 0 });
      expect(store.calls).toEqual([]);
    },
  );

  test('a caller who stops just as training stands still: nothing is copied any more, and it goes on once', async () => {
    const copiedAfterwards: number[] = [];
    for (let ticks = 0; ticks < 24; ticks++) {
      const stop = new AbortController();
      const { signal } = stop;
      const stopLater = async () => {
        for (let tick = 0; tick < ticks; tick++) await undefined;
        stop.abort();
      };
      const training = new Training({ pausing: () => void stopLater() });
      const { manager, clock } = setUp();
      const copying = memoryStaging();
      const stage: typeof copying.stage = (sources, options) => {
        if (signal.aborted) copiedAfterwards.push(ticks);
        return copying.stage(sources, options);
      };
      const saving = manager.save({ buffers: MODEL, staging: { stage }, ...training.options, signal });
      expect(await failure(saving)).toContain('Aborted');
      await pass(clock, 0);
      expect(training.calls).toEqual(['pause', 'resume']);
      expect(copying.heldCount).toBe(0);
    }
    expect(copiedAfterwards).toEqual([]);
  });

  test('a caller that has stopped before is not asked to pause', async () => {
    const training = new Training();
    const { manager } = setUp();
    const signal = AbortSignal.abort();
    const saving = manager.save({ buffers: MODEL, staging: memoryStaging(), ...training.options, signal });
    expect(await failure(saving)).toContain('Aborted');
    expect(training.calls).toEqual([]);
  });
});
