/** What a run keeps after very many saves. */

import { expect, test } from 'vitest';
import { bytes, newBucket, open } from './memory-run.ts';

// 460 saves one after the other take some seconds on an idle machine.
test('a run that goes on for ever keeps its catalog on one list page, and its newest entries', {
  timeout: 240_000,
}, async () => {
  const bucket = newBucket();
  {
    await using manager = open(bucket);
    for (let step = 0; step < 460; step++) await manager.save({ buffers: { a: bytes(1) } });
  }
  const entries = bucket.keys().filter((key) => key.startsWith('catalog/'));
  expect(entries.length).toBeLessThanOrEqual(320 + 64);
  expect(entries.at(-1)).toBe('catalog/00000000000000000461.json');
  await using manager = open(bucket);
  expect((await manager.latest())?.version).toBe(459n);
  expect(await manager.admin.log({ limit: 1000 })).toHaveLength(entries.length);
});
