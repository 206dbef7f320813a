/** A trainer saves files that it has not written: reported, marked, or rejected. */

import type { ProgressEvent } from '@holdfast/core';
import { decodeRecord } from '@holdfast/core/internal/format/index';
import { type MemoryBucket, MemoryStore } from '@holdfast/core/store';
import { FaultyStore } from '@holdfast/testkit';
import { describe, expect, test } from 'vitest';
import { bytes, failure, newBucket, open } from './memory-run.ts';

const FILES = { 'model.pt': bytes(9000), 'config.json': bytes(50, 2) };
const SAME = 'none of the 2 files has changed since version 1';

async function runWithVersion1(): Promise<MemoryBucket> {
  const bucket = newBucket();
  await using manager = open(bucket);
  const saved = await manager.save({ version: 1, buffers: FILES });
  expect(saved.suspicions).toEqual([]);
  return bucket;
}

describe('onStale', () => {
  test.each(['auto', 'off'] as const)(
    'warn, the default, with dedupe %s: said, marked and committed',
    async (dedupe) => {
      const bucket = await runWithVersion1();
      const warned: string[] = [];
      const events: ProgressEvent[] = [];
      const logger = {
        log: (level: string, message: string) => void (level === 'warn' && warned.push(message)),
      };
      await using manager = open(bucket, { dedupe, logger });
      const onProgress = (event: ProgressEvent) => void events.push(event);
      const saved = await manager.save({ version: 2, buffers: FILES, onProgress });
      expect(saved).toMatchObject({ isCommitted: true, suspicions: [SAME] });
      expect(events.filter(({ type }) => type === 'suspect')).toEqual([
        { type: 'suspect', version: 2n, reason: SAME },
      ]);
      expect(warned).toEqual([`version 2 is suspect: ${SAME}`]);
      expect((await manager.list())[0]).toMatchObject({
        version: 2n,
        isSuspect: true,
        reason: SAME,
        state: 'live',
      });
      const receipt = bucket
        .keys()
        .find((key) => key.startsWith('version_2/') && key.includes('/receipts/')) as string;
      const place = { key: receipt, store: 'memory' };
      expect(decodeRecord('receipt', bucket.find(receipt)?.bytes as Uint8Array, place).suspicions).toEqual([
        SAME,
      ]);
      const next = await manager.save({ version: 3, buffers: { ...FILES, 'model.pt': bytes(9000, 3) } });
      expect(next.suspicions).toEqual([]);
      expect((await manager.list())[0]).toMatchObject({ version: 3n, isSuspect: false });
    },
  );

  test('fail: Stale before the receipt; nothing is committed, and the version can still be saved', async () => {
    const bucket = await runWithVersion1();
    await using manager = open(bucket);
    // The first unchanged files are sent again, the next are referred to.
    await manager.save({ version: 2, buffers: FILES });
    const said = await failure(manager.save({ version: 3, buffers: FILES, onStale: 'fail' }));
    expect(said).toBe(`Stale: version 3 was not saved: ${SAME.replace('version 1', 'version 2')}`);
    expect(bucket.keys().filter((key) => /^(version_3|leases)\//.test(key))).toEqual([]);
    const changed = { ...FILES, 'model.pt': bytes(9000, 3) };
    expect((await manager.save({ version: 3, buffers: changed, onStale: 'fail' })).isCommitted).toBe(true);
  });

  test('fail: files that have changed are saved', async () => {
    const bucket = await runWithVersion1();
    await using manager = open(bucket);
    const buffers = { 'model.pt': bytes(9000, 7), 'config.json': bytes(50, 2) };
    expect((await manager.save({ version: 2, buffers, onStale: 'fail' })).suspicions).toEqual([]);
  });

  test('off: there is no check, and without dedupe no manifest is read', async () => {
    const bucket = await runWithVersion1();
    const store = new FaultyStore(new MemoryStore(bucket));
    await using manager = open(bucket, { store, dedupe: 'off' });
    expect((await manager.save({ version: 2, buffers: FILES, onStale: 'off' })).suspicions).toEqual([]);
    const read = store.calls.filter(
      ({ operation, key }) => operation === 'get' && key.includes('/manifest-'),
    );
    expect([read, (await manager.list())[0]?.isSuspect]).toEqual([[], false]);
  });

  test('what it does not take is refused before the store is touched', async () => {
    const bucket = newBucket();
    await using manager = open(bucket);
    const save = (options: object) => failure(manager.save({ version: 1, buffers: FILES, ...options }));
    expect(await save({ onStale: 'loud' })).toBe(
      'InvalidArgument: onStale is "loud"; it takes warn, fail, off',
    );
    expect(await save({ shouldChange: ['!'] })).toContain('InvalidArgument: "!" is not a glob');
    expect(bucket.keys()).toEqual([]);
  });
});

describe('what is compared', () => {
  test('shouldChange names the files that training changes', async () => {
    const bucket = await runWithVersion1();
    await using manager = open(bucket);
    const buffers = { ...FILES, 'config.json': bytes(50, 5) };
    const save = manager.save({ version: 2, buffers, shouldChange: ['*.pt'], onStale: 'fail' });
    expect(await failure(save)).toContain('should have changed since version 1 and did not: model.pt');
  });

  test('sizes that all jump', async () => {
    const bucket = await runWithVersion1();
    await using manager = open(bucket);
    const { suspicions } = await manager.save({ version: 2, buffers: { 'model.pt': bytes(10) } });
    expect(suspicions).toEqual([
      'model.pt has more than doubled or halved its size since version 1, from 9000 to 10 bytes',
    ]);
  });

  test('the newest live checkpoint on the path: after a rollback the one gone back to', async () => {
    const bucket = await runWithVersion1();
    {
      await using manager = open(bucket);
      await manager.save({ version: 2, buffers: { ...FILES, 'model.pt': bytes(9000, 3) } });
      await manager.admin.rollback({ to: 1, reason: 'a test' });
    }
    await using manager = open(bucket);
    expect((await manager.save({ version: 2, buffers: FILES })).suspicions).toEqual([SAME]);
  });

  test('each of several writers compares its own files, and the checkpoint has the suspicions of all', async () => {
    const bucket = newBucket();
    const both = [0, 1].map((index) => open(bucket, { attempt: 'job', writer: { index, count: 2 } }));
    for (const [version, seed] of [
      [1, 1],
      [2, 2],
    ] as const) {
      await Promise.all([
        both[0]?.save({ version, buffers: { a: bytes(100) } }),
        both[1]?.save({ version, buffers: { b: bytes(100, seed) } }),
      ]);
    }
    expect((await both[0]?.list())?.[0]).toMatchObject({
      isSuspect: true,
      reason: 'the only file, a, has not changed since version 1',
    });
    for (const manager of both) await manager.close();
  });

  test('a checkpoint from create() is compared at its commit', async () => {
    const bucket = await runWithVersion1();
    await using manager = open(bucket);
    const checkpoint = await manager.create(2);
    for (const [name, data] of Object.entries(FILES)) {
      const output = checkpoint.openOutputStream(name).getWriter();
      await output.write(data);
      await output.close();
    }
    expect(await failure(checkpoint.commit({ onStale: 'some' as 'fail' }))).toContain(
      'InvalidArgument: onStale',
    );
    expect(await failure(checkpoint.commit({ onStale: 'fail' }))).toContain(
      `Stale: version 2 was not saved: ${SAME}`,
    );
    await checkpoint.commit();
    expect(checkpoint.summary).toMatchObject({ version: 2n, isSuspect: true });
  });

  test('a manifest that cannot be read is no reason to fail, even with onStale fail', async () => {
    const bucket = await runWithVersion1();
    bucket.remove(bucket.keys().find((key) => key.includes('/manifest-')) as string);
    await using manager = open(bucket);
    expect((await manager.save({ version: 2, buffers: FILES, onStale: 'fail' })).suspicions).toEqual([]);
  });

  test('a copy in another run is as suspect as its original', async () => {
    const bucket = await runWithVersion1();
    await using from = open(bucket);
    await from.save({ version: 2, buffers: FILES });
    await using to = open(newBucket());
    await to.admin.mirrorFrom(from, { versions: [2] });
    expect((await to.list())[0]).toMatchObject({ isSuspect: true, reason: SAME });
  });
});
