import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { raceAcrossProcesses, SeededRandom } from '@holdfast/testkit';
import { expect, test } from 'vitest';

// A test next to the store races the creates with hard links.
test('a local store without hard links has one winner of 32 committers in 8 processes, 50 times', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'holdfast-race-'));
  const module = new URL('./race-stores.ts', import.meta.url).href;
  const store = { module, exportName: 'openLocalStoreWithoutLinks', args: [directory] };
  const seed = Math.floor(Math.random() * 2 ** 32);
  try {
    const { winsByProcess } = await raceAcrossProcesses({ store, random: new SeededRandom(seed) });
    expect(winsByProcess.reduce((sum, wins) => sum + wins)).toBe(50);
    // Otherwise the processes did not race.
    expect(winsByProcess.filter((wins) => wins > 0).length).toBeGreaterThan(1);
  } finally {
    await rm(directory, { recursive: true });
  }
}, 120_000);
