/** Two sweeps remove what a dead attempt left on each real store, and all live data stays. */

import { createCheckpointManager } from '@holdfast/core';
import { openStore } from '@holdfast/stores';
import { FAULTS, FaultyStore } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { largeFilesOf } from '../crash/large-files.ts';
import { CLOUDS } from '../servers/clouds.ts';
import { viewOfRun } from './run-view.ts';

const PART_BYTES = 5 * 1024 * 1024;
const LARGE_BYTES = PART_BYTES + 70_000;
const SETTINGS = { bufferBytes: 32 * 1024 * 1024, partSizeBytesMin: PART_BYTES };

for (const cloud of CLOUDS) {
  cloud.describeOn(`sweep on ${cloud.title}`, (server) => {
    test('I1, I10: garbage, uploads and claims of a dead attempt go within two sweeps, live files stay', async () => {
      const run = await server().newBucket();
      const open = async (attempt?: string) => {
        const store = await openStore(run.uri, run.env);
        return createCheckpointManager({ store, attempt, settings: SETTINGS });
      };
      const victim = createCheckpointManager({
        store: new FaultyStore(
          await openStore(run.uri, run.env),
          ({ operation, key }) =>
            operation === 'complete' && key.startsWith('version_2/') ? FAULTS.stopBefore : undefined,
          { whenStopped: 'reject' },
        ),
        attempt: 'job-0',
        settings: SETTINGS,
      });
      const files = (version: number) => largeFilesOf('job-0', BigInt(version), 0, LARGE_BYTES);
      await victim.save({ version: 1, buffers: files(1) });
      await expect(victim.save({ version: 2, buffers: files(2) })).rejects.toThrow();
      await victim.close().catch(() => undefined); // it is dead

      await using next = await open('job-1');
      const inUse = (await viewOfRun(cloud, run)).keys();
      expect((await next.admin.collect()).swept).toMatchObject({ objectCount: 0, uploadCount: 0 });
      expect((await viewOfRun(cloud, run)).keys()).toEqual(inUse);

      await next.join();
      const { swept } = await next.admin.collect();
      expect(swept).toMatchObject({ uploadCount: 1, heldCount: 0 });
      expect(swept.uploadBytes).toBeGreaterThanOrEqual(PART_BYTES);
      await next.admin.collect();
      const view = await viewOfRun(cloud, run);
      const left = view.keys().filter((key) => /^(version_2|writers\/1\.1|uploads)\//.test(key));
      expect([left, view.openUploads()]).toEqual([[], []]);

      const to = Object.fromEntries(
        Object.entries(files(1)).map(([name, data]) => [name, new Uint8Array(data.length)]),
      );
      await next.restore({ version: 1, to });
      for (const [name, data] of Object.entries(files(1)))
        expect(Buffer.compare(to[name] ?? data.subarray(1), data)).toBe(0);
      expect((await next.admin.fsck()).problems).toEqual([]);
    }, 120_000);
  });
}
