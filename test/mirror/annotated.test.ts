/** A mirror also copies the annotations that were added after the commit. */

import { isCheckpointError } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { FaultyStore, ManualClock } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { SETTINGS } from '../crash/invariants.ts';
import { contentOf, open, saveAll, twoRuns } from './two-runs.ts';

const ANNOTATION = { metrics: { auc: 0.9, loss: 7 }, metadata: { 'note-0': 'evaluated', by: 'eval' } };

test('a copy has it, and so has a copy that was there before', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n, 2n], { count: 2 });
  await using from = open(runs.from);
  await using to = open(runs.to);
  await from.admin.annotate(1, ANNOTATION);
  expect(await to.admin.mirrorFrom(from)).toMatchObject({ annotated: [1n], skipped: [] });
  expect(await contentOf(to)).toEqual(await contentOf(from));
  await from.admin.annotate(2, ANNOTATION);
  await from.admin.annotate(1, { metrics: { auc: 0.95 } });
  await using again = open(runs.to);
  expect(await again.admin.mirrorFrom(from)).toEqual({
    ...{ copied: [], present: [1n, 2n], annotated: [1n, 2n], skipped: [] },
  });
  expect(await contentOf(to)).toEqual(await contentOf(from));
  const before = runs.to.keys();
  expect(await again.admin.mirrorFrom(from)).toMatchObject({ present: [1n, 2n], annotated: [] });
  expect(runs.to.keys()).toEqual(before);
});

test('annotations of the copy alone stay; the original overrides a name that both have', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  await using from = open(runs.from);
  await using to = open(runs.to);
  await to.admin.mirrorFrom(from);
  await to.admin.annotate(1, { metrics: { loss: 9, auc: 0.1, own: 1 }, metadata: { own: 'x' } });
  expect(await to.admin.mirrorFrom(from)).toMatchObject({ annotated: [] });
  await from.admin.annotate(1, { metrics: { auc: 0.9 } });
  expect(await to.admin.mirrorFrom(from)).toMatchObject({ annotated: [1n] });
  const [summary] = await to.list();
  expect(summary?.metrics).toMatchObject({ loss: 9, auc: 0.9, own: 1 });
});

test('a fork has it', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  await using from = open(runs.from);
  await using to = open(runs.to);
  await from.admin.annotate(1, ANNOTATION);
  await to.admin.forkFrom(from, { version: 1 });
  expect(await contentOf(to)).toEqual(await contentOf(from));
});

test('a mirror that watches carries over what comes later', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  const clock = new ManualClock();
  await using from = open(runs.from, { clock, settings: { ...SETTINGS, hedgeDelayMsMin: 0 } });
  await using to = open(runs.to, { clock, settings: { ...SETTINGS, hedgeDelayMsMin: 0 } });
  await using evaluation = open(runs.from);
  const stop = new AbortController();
  let looks = 0;
  const result = to.admin.mirrorFrom(from, {
    watchIntervalMs: 1000,
    signal: stop.signal,
    onProgress: ({ type }) => {
      if (type !== 'idle') return;
      looks += 1;
      if (looks === 3) stop.abort();
      else void evaluation.admin.annotate(1, { metrics: { auc: looks } }).then(() => clock.advance(1000));
    },
  });
  const { copied, present, annotated } = await result;
  expect([copied.map(({ version }) => version), present, annotated]).toEqual([[1n], [], [1n]]);
  expect((await to.list())[0]?.metrics['auc']).toBe(2);
});

test('what cannot be carried over is said, and does not end the mirror', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n, 2n, 3n]);
  await using from = open(runs.from);
  await using to = open(runs.to);
  await to.admin.mirrorFrom(from);
  await to.admin.collect({ policy: { keepLast: 2 }, force: true });
  await to.admin.annotate(2, { metadata: { own: 'x'.repeat(4000) } });
  for (const version of [1, 2, 3])
    await from.admin.annotate(version, { metadata: { note: 'x'.repeat(200) } });
  const result = await to.admin.mirrorFrom(from);
  expect(result).toMatchObject({ copied: [], present: [1n, 2n, 3n], annotated: [3n] });
  expect(result.skipped.map(({ version, reason }) => `${version} ${reason}`)).toEqual([
    '1 its metrics and metadata were not copied: version 1 is retired: undelete it first',
    expect.stringMatching(/^2 its metrics and metadata were not copied: version 2@1: .* at most 4096$/),
  ]);
});

test('I7: whether it was carried over may be unknown; a repeat goes on', async () => {
  const runs = twoRuns();
  await saveAll(runs.from, [1n]);
  await using from = open(runs.from);
  await from.admin.annotate(1, ANNOTATION);
  const third = 'catalog/00000000000000000003.json';
  let isDown = false;
  const store = new FaultyStore(new MemoryStore(runs.to), ({ operation, key }) => {
    isDown ||= operation === 'create' && key === third;
    return isDown ? { effect: 'once', reply: 'error' } : undefined;
  });
  const settings = { ...SETTINGS, recordTimeoutMs: 30, retryDelayMsMax: 1 };
  await using to = open(store, { settings });
  const error = await to.admin.mirrorFrom(from).catch((reason: unknown) => reason);
  if (!isCheckpointError(error, 'OutcomeUnknown')) throw error;
  expect(error.context.done).toEqual(['copied: version 1']);
  isDown = false;
  await using again = open(runs.to);
  expect(await again.admin.mirrorFrom(from)).toMatchObject({ present: [1n], skipped: [] });
  expect(await contentOf(again)).toEqual(await contentOf(from));
});
