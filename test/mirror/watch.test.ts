/** Mirroring a run that continues. */

import type { ProgressEvent } from '@holdfast/core/contract';
import { MemoryStore } from '@holdfast/core/store';
import { FaultyStore, ManualClock, refuse, scriptedFaults } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { SETTINGS } from '../crash/invariants.ts';
import { failure } from '../manager/memory-run.ts';
import { quarantineVersion, takeOver } from './changed-runs.ts';
import { contentOf, open, saveAll, type TwoRuns, twoRuns } from './two-runs.ts';

const INTERVAL_MS = 10_000;

/** A mirror that watches with a separate clock, and its events. */
function watching(runs: TwoRuns, options: { store?: FaultyStore; onIdle?: (count: number) => void } = {}) {
  const clock = new ManualClock();
  const settings = { ...SETTINGS, retryCountMax: 0, hedgeDelayMsMin: 0 };
  const from = open(options.store ?? runs.from, { clock, settings });
  const to = open(runs.to, { clock, settings });
  const stop = new AbortController();
  const events: ProgressEvent[] = [];
  let idleCount = 0;
  let wake: () => void = () => undefined;
  const result = to.admin.mirrorFrom(from, {
    watchIntervalMs: INTERVAL_MS,
    signal: stop.signal,
    onProgress: (event) => {
      events.push(event);
      if (event.type !== 'idle' && event.type !== 'retry') return;
      idleCount += 1;
      wake();
    },
  });
  result.catch(() => wake());
  /** Resolves once the mirror has polled `count` times in all. */
  const looked = async (count: number) => {
    while (idleCount < count) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    await new Promise((resolve) => setImmediate(resolve)); // until it sleeps
  };
  const close = async () => {
    await from.close();
    await to.close();
  };
  return { clock, from, to, stop, events, result, looked, close };
}

test('it copies what is committed later, each time it looks, and ends without an error', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  const watch = watching(runs);
  await watch.looked(1);
  expect((await watch.to.list()).length).toBe(1);
  await saveAll(runs.from, [2n], { attempt: 'job-1' });
  await watch.clock.advance(INTERVAL_MS - 1);
  expect((await watch.to.list()).length).toBe(1);
  await watch.clock.advance(1);
  await watch.looked(2);
  expect((await watch.to.list()).length).toBe(2);
  await watch.clock.advance(INTERVAL_MS);
  await watch.looked(3);
  watch.stop.abort();
  const { copied, present, skipped } = await watch.result;
  expect([copied.map((each) => each.version), present, skipped]).toEqual([[1n, 2n], [], []]);
  expect(await contentOf(watch.to)).toEqual(await contentOf(watch.from));
  expect(watch.events.filter((event) => event.type === 'idle')[0]).toEqual({
    type: 'idle',
    waitMs: INTERVAL_MS,
  });
  await watch.close();
});

test('it waits for a run that has not begun', async () => {
  const runs = twoRuns();
  const watch = watching(runs);
  await watch.looked(1);
  await saveAll(runs.from, [1n]);
  await watch.clock.advance(INTERVAL_MS);
  await watch.looked(2);
  watch.stop.abort();
  expect((await watch.result).copied.length).toBe(1);
  await watch.close();
});

test('a version that was passed over is told of once', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n, 2n]);
  await saveAll(runs.to, [1n, 2n]);
  await quarantineVersion(runs.to, 1n, 'bad disk');
  const watch = watching(runs);
  await watch.looked(1);
  await watch.clock.advance(INTERVAL_MS);
  await watch.looked(2);
  watch.stop.abort();
  expect(await watch.result).toEqual({
    copied: [],
    present: [2n],
    annotated: [],
    skipped: [{ version: 1n, reason: 'it is quarantined here: bad disk' }],
  });
  await watch.close();
});

test('a source that cannot be reached for a while does not end it', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  const plan = scriptedFaults({ operation: 'list', fault: refuse('Unavailable') });
  const store = new FaultyStore(new MemoryStore(runs.from), plan);
  const watch = watching(runs, { store });
  await watch.looked(1);
  expect(watch.events[0]).toMatchObject({
    type: 'retry',
    detail: expect.stringContaining('looking again in 10 s'),
  });
  await watch.clock.advance(INTERVAL_MS);
  await watch.looked(2);
  watch.stop.abort();
  expect((await watch.result).copied.length).toBe(1);
  await watch.close();
});

test('what no repeat changes ends it: it is fenced', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  const watch = watching(runs);
  await watch.looked(1);
  await takeOver(runs.to);
  await saveAll(runs.from, [2n], { attempt: 'job-1' });
  await watch.clock.advance(INTERVAL_MS);
  expect(await failure(watch.result)).toContain('Fenced');
  await watch.close();
});

test.each([
  ['in the middle of a version', 'bytes'],
  ['while it waits', 'idle'],
] as const)('stopped %s it answers what it has copied', async (_, type) => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n, 2n]);
  const from = open(runs.from);
  const to = open(runs.to);
  const stop = new AbortController();
  let version = 0n;
  const result = await to.admin.mirrorFrom(from, {
    watchIntervalMs: INTERVAL_MS,
    signal: stop.signal,
    onProgress: (event) => {
      if (event.type === 'planned') version = event.version;
      if (version === 2n && event.type === type) stop.abort();
    },
  });
  expect(result.copied.map((each) => each.version)).toEqual(type === 'idle' ? [1n, 2n] : [1n]);
  expect((await to.list()).length).toBe(result.copied.length);
  await from.close();
  await to.close();
});

test('closing a manager ends it with Aborted: no signal asked it to stop', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  const watch = watching(runs);
  await watch.looked(1);
  await watch.from.close();
  expect(await failure(watch.result)).toBe('Aborted: the manager was closed');
  await watch.close();
});
