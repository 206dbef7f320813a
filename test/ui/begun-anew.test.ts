/** A run is removed and begun again at its place while the page of the former is open. */

import { crc32c, systemClock } from '@holdfast/core';
import { MemoryBucket } from '@holdfast/core/store';
import { Runs } from '@holdfast/ui/internal/runs';
import { expect, test } from 'vitest';
import { bytes, open } from '../manager/memory-run.ts';

test('the page tells it once, and then shows the new run', async () => {
  const bucket = new MemoryBucket({ crc32c, mayReuseKey: () => true });
  const save = async (attempt: string, versions: readonly number[]) => {
    await using manager = open(bucket, { attempt });
    for (const version of versions) await manager.save({ version, buffers: { a: bytes(10) } });
  };
  await save('job-0', [1, 2]);
  const uri = 'memory://shown';
  const clock = { ...systemClock, monotonicMs: () => performance.now() + passedMs };
  let passedMs = 0;
  const runs = new Runs({ open: async () => open(bucket), clock, isFound: () => false, uris: [uri] });
  const rows = async () => (await (await runs.reader(uri)).rows()).map(({ version }) => version);
  expect(await rows()).toEqual(['2', '1']);

  for (const key of bucket.keys()) bucket.remove(key);
  await save('job-1', [4, 5]);
  passedMs = 10_000;
  const { problem } = await (await runs.reader(uri)).view();
  expect(problem).toMatchObject({ code: 'Corrupt' });
  expect(await rows()).toEqual(['5', '4']);
  await runs.close();
});
