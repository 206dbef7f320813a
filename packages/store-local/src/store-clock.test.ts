import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type FileSystem, nodeFileSystem } from '@holdfast/local-files';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { openLocalStore } from './index.ts';
import { StoreClock } from './store-clock.ts';

const MINUTE_MS = 60_000;

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), 'holdfast-clock-'));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

/** The clock of a machine whose time the test sets, on a disk with its own time. */
function clock(fileSystem: Partial<FileSystem> = {}) {
  const machine = { nowMs: 1_000_000 };
  const disk = { nowMs: 5_000_000, lookCount: 0 };
  const calls: FileSystem = {
    ...nodeFileSystem,
    fstat: async (descriptor) => {
      disk.lookCount += 1;
      const stats = await nodeFileSystem.fstat(descriptor);
      return Object.assign(stats, { mtimeNs: BigInt(disk.nowMs) * 1_000_000n });
    },
    ...fileSystem,
  };
  const newPath = () => join(directory, 'now');
  return { machine, disk, clock: new StoreClock({ fileSystem: calls, nowMs: () => machine.nowMs, newPath }) };
}

describe('the time of a directory', () => {
  it("is its file system's, whatever the machine's clock says, and costs a look every ten seconds", async () => {
    const { machine, disk, clock: store } = clock();
    expect(store.lastMs()).toBe(1_000_000);
    expect(await Promise.all([store.nowMs(), store.nowMs()])).toEqual([5_000_000, 5_000_000]);
    machine.nowMs += 9_000;
    expect([await store.nowMs(), store.lastMs(), disk.lookCount]).toEqual([5_009_000, 5_009_000, 1]);
    // A machine whose clock is set forward or back measures again.
    disk.nowMs = 5_010_000;
    machine.nowMs += 20 * MINUTE_MS;
    expect(await store.nowMs()).toBe(5_010_000);
    machine.nowMs -= 50 * MINUTE_MS;
    expect([await store.nowMs(), disk.lookCount]).toEqual([5_010_000, 3]);
    expect(readdirSync(directory)).toEqual([]);
  });

  it("is the machine's where the two differ by less than a tick and an answer explain, or no file can be made", async () => {
    const near = clock();
    near.disk.nowMs = near.machine.nowMs - 200;
    expect(await near.clock.nowMs()).toBe(near.machine.nowMs);
    const refused = () =>
      Promise.reject(Object.assign(new Error('full'), { code: 'ENOSPC', syscall: 'open' }));
    const full = clock({ open: refused });
    expect(await full.clock.nowMs()).toBe(full.machine.nowMs);
  });

  it('is what two machines agree on, one of them 20 minutes ahead: a lease of 15 minutes holds', async () => {
    const open = (aheadMs: number) =>
      openLocalStore({ directory }, { clock: { nowMs: () => Date.now() + aheadMs } });
    const [one, other] = [await open(0), await open(20 * MINUTE_MS)];
    const { createdAtMs } = await one.create('leases/a', new Uint8Array(1));
    for await (const { storeTimeMs } of other.list(''))
      expect(Math.abs(storeTimeMs - createdAtMs)).toBeLessThan(MINUTE_MS);
    await Promise.all([one.close(), other.close()]);
  });
});
