/**
 * Two processes of one life send the same file at the same time. They may resume each other's
 * uploads, and no other ones.
 */

import type { ObjectStore } from '@holdfast/core';
import type { Upload } from '@holdfast/core/contract';
import type { MemoryBucket } from '@holdfast/core/store';
import { FAULTS, ManualClock } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { failure, newBucket } from './memory-run.ts';
import {
  bytesOf,
  detailsOf,
  expectSaved,
  KILLED_AT,
  type Life,
  leftBehind,
  life,
  NAME,
  PART,
  PART_COUNT,
  payloads,
  recordKeys,
  SIZE,
  source,
  VERSION,
} from './resume-run.ts';

const SHARED = { life: 'trainer' };

const processOf = (bucket: MemoryBucket, options: Life = {}) => life(bucket, { ...SHARED, ...options });

/** Like `source`, except for the last part. */
const other = (() => {
  const copy = Uint8Array.from(source);
  copy.set(bytesOf(9, SIZE - (PART_COUNT - 1) * PART), (PART_COUNT - 1) * PART);
  return copy;
})();

/** New uploads run `act` before they complete, or before they take the part of this index. */
function before(call: 'complete' | number, act: () => Promise<unknown>): (store: ObjectStore) => void {
  let isDone = false;
  const once = async () => {
    if (isDone) return;
    isDone = true;
    await act();
  };
  return (store) => {
    const begin = store.beginUpload.bind(store);
    store.beginUpload = async (...args) => {
      const upload: Upload = await begin(...args);
      const complete = upload.complete.bind(upload);
      const putPart = upload.putPart.bind(upload);
      upload.complete = async (...rest) => {
        if (call === 'complete') await once();
        return complete(...rest);
      };
      upload.putPart = async (...rest) => {
        if (call === rest[0]) await once();
        return putPart(...rest);
      };
      return upload;
    };
  };
}

async function expectNothingOver(bucket: MemoryBucket): Promise<void> {
  expect([recordKeys(bucket), bucket.openUploads()]).toEqual([[], []]);
}

describe('a process of the same life', () => {
  test('goes on where one was killed, although it has the same incarnation', async () => {
    const bucket = await leftBehind(SHARED);
    const next = processOf(bucket);
    await next.save(source);
    await expectSaved(bucket, source);
    expect(next.count('putPart')).toBeLessThan(PART_COUNT - KILLED_AT + 8);
    expect(next.count('beginUpload')).toBe(0);
    expect((await detailsOf(bucket)).key).toMatch(/^version_7\/1\.1\/0\.0-/);
    await expectNothingOver(bucket);
    await next.manager.close();
  });

  test('takes what another has finished, and sends nothing', async () => {
    const bucket = newBucket();
    const first = processOf(bucket, {
      clock: new ManualClock(),
      plan: ({ operation, key }) =>
        operation === 'create' && key.includes('/receipts/') ? FAULTS.stopBefore : undefined,
    });
    void first.save(source);
    await first.store.stopped;
    const next = processOf(bucket);
    await next.save(source);
    await expectSaved(bucket, source);
    expect([next.count('putPart'), payloads(bucket).length]).toEqual([0, 1]);
    await next.manager.close();
  });

  test('completes the upload of one that is still at it: both have saved the one object', async () => {
    const bucket = newBucket();
    const second = processOf(bucket);
    const first = processOf(bucket, { change: before('complete', () => second.save(source)) });
    await first.save(source);
    expect(second.events).toContainEqual(expect.objectContaining({ type: 'resumed', name: NAME }));
    expect(second.count('putPart')).toBe(0);
    expect(payloads(bucket)).toHaveLength(1);
    await expectSaved(bucket, source);
    await expectNothingOver(bucket);
    for (const { manager } of [first, second]) await manager.close();
  });

  test('I7: makes another object of it: the first one sends its bytes again, and does not replace the receipt', async () => {
    const bucket = newBucket();
    const second = processOf(bucket);
    const first = processOf(bucket, { change: before('complete', () => second.save(other)) });
    expect(await failure(first.save(source))).toBe(
      `Conflict: writer 0 has already delivered version ${VERSION}, with other content`,
    );
    expect(payloads(bucket)).toHaveLength(2);
    await expectSaved(bucket, other);
    for (const { manager } of [first, second]) await manager.close();
  });

  test('I1: puts another part in place and dies: the first one sends its bytes again', async () => {
    const bucket = newBucket();
    const second = processOf(bucket, {
      clock: new ManualClock(),
      plan: ({ operation }) => (operation === 'complete' ? FAULTS.stopBefore : undefined),
    });
    const act = () => {
      void second.save(other);
      return second.store.stopped;
    };
    const first = processOf(bucket, { change: before('complete', act) });
    await first.save(source);
    await expectSaved(bucket, source);
    expect(first.count('beginUpload')).toBe(2);
    await first.manager.close();
  });

  test('is stopped by its caller and aborts the upload: the first one sends the file again', async () => {
    const bucket = newBucket();
    const stop = new AbortController();
    const second = processOf(bucket, {
      plan: ({ operation }) => {
        if (operation !== 'putPart') return undefined;
        stop.abort();
        return FAULTS.stall;
      },
    });
    const options = { version: VERSION, buffers: { [NAME]: source }, signal: stop.signal };
    const act = () => failure(second.manager.save(options));
    const first = processOf(bucket, { change: before(PART_COUNT - 1, act) });
    await first.save(source);
    await expectSaved(bucket, source);
    expect(first.count('beginUpload')).toBe(2);
    await expectNothingOver(bucket);
    for (const { manager } of [first, second]) await manager.close();
  });
});

test('a process does not go on with an upload that it has open itself', async () => {
  const bucket = newBucket();
  const both: Promise<unknown>[] = [];
  const only = processOf(bucket, {
    clock: undefined,
    change: before(PART_COUNT - 1, async () => {
      both.push(only.save(source));
      await expect
        .poll(() => only.count('resumeUpload') + only.count('beginUpload'), { timeout: 20_000 })
        .toBe(2);
    }),
  });
  both.push(only.save(source));
  await both[0];
  await Promise.all(both);
  expect(only.count('resumeUpload')).toBe(0);
  await expectSaved(bucket, source);
  await only.manager.close();
});
