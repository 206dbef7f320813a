import { CheckpointError } from '@holdfast/core';
import { describe, expect, test } from 'vitest';
import { bytesItem, bytesOf, setUp } from './memory-transfers.ts';

const CONCURRENCY = 64;
const CALL_MS = 10;

/**
 * A slow store that rejects requests above its limit of concurrent ones. `bears` gives the limit.
 */
function setUpBusy(fileCount: number, bears: (answered: number) => number, retryAfterMs?: number) {
  const rig = setUp({ settings: { concurrency: CONCURRENCY } });
  const create = rig.store.create.bind(rig.store);
  /** For each request, in order: the number of requests in progress. */
  const underWay: number[] = [];
  let now = 0;
  let throttled = 0;
  let answered = 0;
  rig.store.create = async (key, bytes, options) => {
    now += 1;
    underWay.push(now);
    const isTooMuch = now > bears(answered);
    await rig.clock.sleep(CALL_MS, options?.signal);
    now -= 1;
    if (isTooMuch) {
      throttled += 1;
      throw new CheckpointError('Throttled', 'slow down', { retryAfterMs });
    }
    answered += 1;
    return create(key, bytes, options);
  };
  const items = Array.from({ length: fileCount }, (_, index) => bytesItem(`f${index}`, bytesOf(10, index)));
  return { ...rig, items, underWay, throttledCount: () => throttled };
}

describe('a store that throttles', () => {
  test('gets fewer requests at once, so that repeats suffice where they would be used up', async () => {
    const { bucket, items, transfers, throttledCount } = setUpBusy(3000, () => 8);
    await transfers.upload(items);
    expect(bucket.keys()).toHaveLength(items.length);
    // It would be over 1,000, and then a failure, at full pace.
    expect(throttledCount()).toBeLessThan(400);
  });

  test('gets as many as before once it bears them again', async () => {
    const { items, transfers, underWay } = setUpBusy(3000, (answered) => (answered < 50 ? 4 : CONCURRENCY));
    await transfers.upload(items);
    expect(Math.max(...underWay.slice(150, 250))).toBeLessThanOrEqual(CONCURRENCY / 2);
    expect(Math.max(...underWay.slice(-100))).toBe(CONCURRENCY);
  });

  test('is left alone for as long as it asks, whatever chance says', async () => {
    const { clock, items, transfers, throttledCount } = setUpBusy(1, () => 0, 7000);
    const stop = new AbortController();
    const uploading = transfers.upload(items, { signal: stop.signal });
    await clock.sleep(7000 + CALL_MS - 1);
    expect(throttledCount()).toBe(1);
    await clock.sleep(500 + CALL_MS + 1); // the random part, and the next call
    expect(throttledCount()).toBe(2);
    stop.abort();
    await expect(uploading).rejects.toMatchObject({ code: 'Aborted' });
  });
});
