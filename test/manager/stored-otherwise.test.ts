/** A store that does not compare checksums, and whose answer shows that it has other bytes. */

import { crc32c, createCheckpointManager } from '@holdfast/core';
import { MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { expect, test } from 'vitest';
import { bytes, SETTINGS } from './memory-run.ts';

/** The next created object whose key matches has a bit flipped, and the answer has its checksum. */
function openFlipping() {
  const bucket = new MemoryBucket({ crc32c });
  const store = new MemoryStore(bucket);
  const create = store.create.bind(store);
  let flipped: RegExp | undefined;
  store.create = async (key, given, options) => {
    if (!flipped?.test(key)) return create(key, given, options);
    flipped = undefined;
    const other = given.slice();
    other[0] = (other[0] ?? 0) ^ 1;
    const made = await create(key, other, { ...options, crc32c: undefined });
    return { ...made, crc32c: crc32c(other) };
  };
  const open = () => createCheckpointManager({ store, settings: SETTINGS, attempt: 'job' });
  const flip = (keys: RegExp) => {
    flipped = keys;
  };
  return { open, flip };
}

test('a payload is sent again under another key', async () => {
  const { open, flip } = openFlipping();
  await using manager = open();
  flip(/^version_/);
  await manager.save({ version: 1, buffers: { a: bytes(100) } });
  const to = { a: new Uint8Array(100) };
  await manager.restore({ version: 1, to });
  expect(to.a).toEqual(bytes(100));
  expect((await manager.admin.verify()).problems).toEqual([]);
});

test('a decision of the catalog is not reported as committed', async () => {
  const { open, flip } = openFlipping();
  await using manager = open();
  await manager.save({ version: 1, buffers: { a: bytes(100) } });
  flip(/^catalog\//);
  await expect(manager.save({ version: 2, buffers: { a: bytes(100, 2) } })).rejects.toMatchObject({
    code: expect.stringMatching(/^(Corrupt|OutcomeUnknown)$/),
  });
});
