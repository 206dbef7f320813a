import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32c } from '@holdfast/core';
import type { ObjectStore } from '@holdfast/core/contract';
import { nodeFileSystem } from '@holdfast/local-files';
import { raceAcrossProcesses, SeededRandom } from '@holdfast/testkit';
import { storeConformance } from '@holdfast/testkit/vitest';
import { expect, test } from 'vitest';
import { openLocalStore } from './index.ts';

/** A directory that does not exist yet: the store creates it. */
async function place(open: (directory: string) => Promise<ObjectStore>) {
  const parent = await mkdtemp(join(tmpdir(), 'holdfast-conformance-'));
  const directory = join(parent, 'not/there/yet');
  return { open: () => open(directory), remove: () => rm(parent, { recursive: true }) };
}

storeConformance('local store', () =>
  place((directory) => openLocalStore(`file://${directory}`, { crc32c })),
);

storeConformance('local store without direct I/O and fsync', () =>
  place((directory) => openLocalStore({ directory, durability: 'none', direct: 'off' })),
);

storeConformance('local store where there are no hard links', () => {
  const error = Object.assign(new Error('EPERM: no links here'), { code: 'EPERM', syscall: 'link' });
  const fileSystem = { ...nodeFileSystem, link: () => Promise.reject(error) };
  return place((directory) => openLocalStore({ directory }, { fileSystem, crc32c }));
});

test('create: exactly one of 32 committers in 8 processes wins each round', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-race-'));
  const seed = Math.floor(Math.random() * 2 ** 32);
  try {
    const report = await raceAcrossProcesses({
      store: {
        module: new URL('./index.ts', import.meta.url).href,
        exportName: 'openLocalStore',
        args: [{ directory }],
      },
      random: new SeededRandom(seed),
    });
    expect(report.winsByProcess.reduce((sum, wins) => sum + wins, 0)).toBe(50);
    // Otherwise it was not a race.
    expect(report.winsByProcess.filter((wins) => wins > 0).length).toBeGreaterThan(1);
  } finally {
    await rm(directory, { recursive: true });
  }
}, 120_000);
