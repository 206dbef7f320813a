/** A checkpoint is removed while a process without a lease reads it: nothing is damaged. */

import { CheckpointError, type RunManager } from '@holdfast/core';
import { MemoryStore } from '@holdfast/core/store';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open, readAll } from './memory-run.ts';

const SIZE = 200_000;

/** A trainer whose every `trainOn` saves the next version and removes all older ones for good. */
async function training() {
  const bucket = newBucket();
  const trainer = open(bucket);
  let last = 0;
  const trainOn = async () => {
    last += 1;
    await trainer.save({ version: last, buffers: { a: bytes(SIZE, last), b: bytes(7, last) } });
    await trainer.admin.collect({ policy: { keepLast: 1, graceMs: 0 }, force: true });
  };
  await trainOn();
  return { bucket, trainOn };
}

type Training = Awaited<ReturnType<typeof training>>;

/**
 * A reader that may not write. The trainer goes on before its first request for a key like `at`,
 * `times` times.
 */
function reader({ bucket, trainOn }: Training, at: RegExp, times = 1): RunManager {
  const store = new MemoryStore(bucket);
  let left = times;
  const before = async (key: string) => {
    if (left === 0 || !at.test(key)) return;
    left -= 1;
    await trainOn();
  };
  const [get, readInto, head] = [store.get.bind(store), store.readInto.bind(store), store.head.bind(store)];
  store.get = (key, ...rest) => before(key).then(() => get(key, ...rest));
  store.head = (key, ...rest) => before(key).then(() => head(key, ...rest));
  store.readInto = (key, ...rest) => before(key).then(() => readInto(key, ...rest));
  store.create = () => Promise.reject(new CheckpointError('Denied', 'read only'));
  return open(bucket, { store });
}

const MANIFEST = /^version_\d+\/.*manifest-/;
const PAYLOAD = /^version_\d+\/.*\/[ab]$/;
const buffers = () => ({ a: new Uint8Array(SIZE), b: new Uint8Array(7) });
const REMOVED = /^NotFound: version 1 was removed while it was read$/;

const READINGS: [string, RegExp, (manager: RunManager) => Promise<unknown>][] = [
  ['verify, its records', MANIFEST, (manager) => manager.admin.verify({ version: 1 })],
  ['verify, its bytes', PAYLOAD, (manager) => manager.admin.verify({ version: 1 })],
  ['verify of sizes', PAYLOAD, (manager) => manager.admin.verify({ version: 1, level: 0 })],
  ['restore, its records', MANIFEST, (manager) => manager.restore({ version: 1, to: buffers() })],
  ['restore, its bytes', PAYLOAD, (manager) => manager.restore({ version: 1, to: buffers() })],
  [
    'restore with fallback',
    PAYLOAD,
    (manager) => manager.restore({ version: 1, to: buffers(), onCorrupt: 'fallback' }),
  ],
  ['diff', MANIFEST, (manager) => manager.admin.diff(1, 1)],
  ['inspect', MANIFEST, (manager) => manager.admin.inspect({ version: 1 })],
  ['locate', MANIFEST, (manager) => manager.admin.locate({ version: 1 })],
  ['export of tensors', MANIFEST, (manager) => manager.admin.exportTensors({ version: 1, to: '/nowhere' })],
  ['details', MANIFEST, async (manager) => (await manager.get(1))?.details()],
  [
    'a stream',
    PAYLOAD,
    async (manager) => readAll((await manager.get(1))?.openInputStream('a') as ReadableStream<Uint8Array>),
  ],
];

describe('a version that was removed while it was read is NotFound, and not damaged', () => {
  test.each(READINGS)('%s', async (_, at, read) => {
    await using manager = reader(await training(), at);
    expect(await failure(read(manager))).toMatch(REMOVED);
  });

  test('what is missing and was not removed is damage all the same', async () => {
    const run = await training();
    const { bucket } = run;
    bucket.remove(bucket.keys().find((key) => PAYLOAD.test(key)) as string);
    await using manager = reader(run, /never/);
    expect(await failure(manager.restore({ version: 1, to: buffers() }))).toMatch(/^Corrupt: version 1/);
    expect((await manager.admin.verify({ version: 1 })).problems).toHaveLength(1);
  });
});

test('a restore of the latest goes on with the one that is the latest then', async () => {
  await using manager = reader(await training(), PAYLOAD, 2);
  const to = buffers();
  expect((await manager.restore({ to })).version).toBe(3n);
  expect(to).toEqual({ a: bytes(SIZE, 3), b: bytes(7, 3) });
});

test('a restore of the latest gives up when each one is removed before it was read', async () => {
  await using manager = reader(await training(), PAYLOAD, Number.POSITIVE_INFINITY);
  expect(await failure(manager.restore({ to: buffers() }))).toMatch(
    /^NotFound: version \d+ was removed while it was read/,
  );
});
