import { crc32c, createCheckpointManager } from '@holdfast/core';
import type { LogEntry } from '@holdfast/core/contract';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { describe, expect, test, vi } from 'vitest';
import { continuedView, EVENTS_MAX, EventsReader, firstView } from './events.ts';

/** Entries with these numbers, newest first. */
function entries(newest: number, oldest: number): LogEntry[] {
  return Array.from({ length: newest - oldest + 1 }, (_, index) => ({
    seq: newest - index,
    kind: 'commit',
    checkpoints: [],
    versionCount: 1,
    lineage: 1,
    epoch: 1,
    attempt: 'job',
    copyOf: null,
    reason: '',
    process: { host: 'node', pid: 1 },
    atMs: newest - index,
  }));
}

describe('decisions before those that are shown', () => {
  test.each([
    ['none', 'the first decision is among them', firstView(entries(90, 1), EVENTS_MAX)],
    ['deleted', 'the catalog gave fewer than were asked for', firstView(entries(500, 400), EVENTS_MAX)],
    ['unread', 'as many as were asked for', firstView(entries(500, 301), EVENTS_MAX)],
    ['none', 'as many, the first among them', firstView(entries(200, 1), EVENTS_MAX)],
  ])('%s: %s', (older, _, view) => {
    expect(view.older).toBe(older);
  });

  test('what newer decisions push out is not read, and not deleted', () => {
    const before = firstView(entries(150, 1), EVENTS_MAX);
    const more = continuedView(entries(160, 151), before);
    expect([more.events.length, more.older]).toEqual([160, 'none']);
    const full = continuedView(entries(250, 161), more);
    expect([full.events.length, full.events.at(-1)?.seq, full.older]).toEqual([200, 51, 'unread']);
    expect(continuedView(entries(251, 251), full).older).toBe('unread');
    expect(continuedView(entries(505, 501), firstView(entries(500, 450), EVENTS_MAX)).older).toBe('deleted');
  });
});

test('each decision is read once, also if more are made while they are read', async () => {
  await using run = createCheckpointManager({ store: new MemoryStore(new MemoryBucket({ crc32c })) });
  const save = (version: number) => run.save({ version, buffers: { a: new Uint8Array(10) } });
  const { signal } = new AbortController();
  const seqs = async (seq: number) => (await reader.read(seq, signal)).events.map((event) => event.seq);
  const newest = async () => (await run.admin.log({ limit: 1 }))[0]?.seq ?? 0;
  const down = (seq: number) => Array.from({ length: seq }, (_, index) => seq - index);
  await save(1);
  const reader = new EventsReader(run);
  const first = await newest();
  expect(await seqs(first)).toEqual(down(first));
  const log = vi.spyOn(run.admin, 'log');
  expect(await seqs(first)).toEqual(down(first));
  expect(log).not.toHaveBeenCalled();

  await save(2);
  const second = await newest();
  await save(3); // after the look at the run
  log.mockClear();
  const third = second + 1;
  expect(await seqs(second)).toEqual(down(third));
  expect(await seqs(third)).toEqual(down(third));
});
