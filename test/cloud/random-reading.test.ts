/**
 * On each real store: reads any range of a file with verification, and detects an object that
 * another one has replaced.
 */

import { createCheckpointManager, openObjectSource } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { expect, test } from 'vitest';
import { filledBytes } from '../filled-bytes.ts';
import { CLOUDS } from '../servers/clouds.ts';

const SIZE = 700_003;
const DATA = filledBytes(SIZE, (index) => index * 31 + (index >> 8));
const READS = [
  [0, 1],
  [4001, 70_000],
  [60_000, 30],
  [SIZE - 3, 3],
] as const;

for (const cloud of CLOUDS) {
  cloud.describeOn(`reading at any position on ${cloud.title}`, (server) => {
    test('what is read is right and proven, with a manifest and without', async () => {
      const run = await server().newBucket();
      const settings = { bufferBytes: 16 * 1024 * 1024, partSizeBytesMin: 64 * 1024 };
      const manager = createCheckpointManager({ store: await openStore(run.uri, run.env), settings });
      await manager.save({ version: 1, buffers: { a: DATA } });
      const checkpoint = await manager.latest();
      const key = (await checkpoint?.details())?.files[0]?.key as string;
      const store = await openStore(run.uri, run.env);
      for (const source of [await checkpoint?.openSource('a'), await openObjectSource(store, key)]) {
        const found = READS.map(([, length]) => new Uint8Array(length));
        await Promise.all(READS.map(([at], index) => source?.readInto(at, found[index]!)));
        for (const [index, [at, length]] of READS.entries())
          expect(Buffer.compare(found[index]!, DATA.subarray(at, at + length))).toBe(0);
        await source?.assertUnchanged();
        await source?.close();
      }
      const replaced = await openObjectSource(store, key);
      await store.deleteMany([key]);
      await store.create(key, DATA.subarray(1));
      await expect(replaced.readInto(0, new Uint8Array(9))).rejects.toMatchObject({ code: 'SourceChanged' });
      await expect(replaced.assertUnchanged()).rejects.toMatchObject({ code: 'SourceChanged' });
      await replaced.close();
      await Promise.all([manager.close(), store.close()]);
    }, 60_000);
  });
}
