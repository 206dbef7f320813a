/** Answers that come byte by byte, and never end. They are given up and asked for again. */

import type { CheckpointError } from '@holdfast/core';
import { expect, test } from 'vitest';
import {
  bytesItem,
  bytesOf,
  downloadItem,
  isEqual,
  isWhole,
  NotedSink,
  PART,
  recordOf,
  setUp,
} from './memory-transfers.ts';

const DATA = bytesOf(3 * PART);
const STALL_MS = 20_000;
/** 30 times the longest silence, the time of a part at 16 KiB per second, and one silence. */
const LONGEST_MS = 30 * STALL_MS + (1000 * PART) / (16 * 1024) + STALL_MS;

interface Drip {
  readonly signal?: AbortSignal | undefined;
  readonly onBytes?: ((count: number) => void) | undefined;
}

type Rig = ReturnType<typeof setUp>;

/** Ends only when it is stopped. */
async function drip({ clock }: Rig, everyMs: number, { signal, onBytes }: Drip): Promise<never> {
  for (;;) {
    await clock.sleep(everyMs, signal);
    onBytes?.(1);
  }
}

test('a part that drips is read again', async () => {
  const rig = setUp({ settings: { hedgeDelayMsMin: 0, stallTimeoutMs: STALL_MS } });
  rig.bucket.insert('k', DATA.slice());
  const readInto = rig.store.readInto.bind(rig.store);
  let reads = 0;
  rig.store.readInto = (key, offsetBytes, buffer, options) => {
    reads += 1;
    return reads === 2 ? drip(rig, 8000, options ?? {}) : readInto(key, offsetBytes, buffer, options);
  };
  const sink = new NotedSink(DATA.byteLength);
  await rig.transfers.download([downloadItem(recordOf('model.bin', 'k', DATA, PART), sink)]);
  expect(isEqual(sink.bytes, DATA)).toBe(true);
  expect(reads).toBe(4);
  expect(rig.clock.monotonicMs()).toBeLessThanOrEqual(LONGEST_MS + 10_000);
  expect(isWhole(rig.transfers)).toBe(true);
});

test('an upload whose answer drips is sent again', async () => {
  const rig = setUp({ settings: { stallTimeoutMs: STALL_MS } });
  const create = rig.store.create.bind(rig.store);
  let creates = 0;
  rig.store.create = (key, bytes, options) => {
    creates += 1;
    return creates === 1 ? drip(rig, 8000, options ?? {}) : create(key, bytes, options);
  };
  const retries: string[] = [];
  const item = bytesItem('small.bin', DATA.subarray(0, 3000));
  await rig.transfers.upload([item], { onRetry: (detail) => retries.push(detail) });
  expect(creates).toBe(2);
  expect(retries).toEqual([expect.stringMatching(/"small.bin": the answer has not ended after 6\d\d s/)]);
});

test('all answers drip: the read ends in time, and says so', async () => {
  const settings = { hedgeDelayMsMin: 0, stallTimeoutMs: STALL_MS, retryCountMax: 1 };
  const rig = setUp({ settings });
  rig.bucket.insert('k', DATA.slice());
  rig.store.readInto = (_, __, ___, options) => drip(rig, 1000, options ?? {});
  const sink = new NotedSink(DATA.byteLength);
  const failed = rig.transfers.download([downloadItem(recordOf('model.bin', 'k', DATA, PART), sink)]);
  await expect(failed).rejects.toMatchObject<Partial<CheckpointError>>({
    code: 'Unavailable',
    message: expect.stringContaining('tried 2 times') as string,
  });
  // The second try has twice the time.
  expect(rig.clock.monotonicMs()).toBeLessThanOrEqual(3 * LONGEST_MS + 10_000);
});
