import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ConformanceError, raceAcrossProcesses, SeededRandom } from '@holdfast/testkit';
import { afterAll, beforeAll, expect, test } from 'vitest';

const module = new URL('./race-stores.ts', import.meta.url).href;
let directory = '';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-race-'));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

function race(exportName: string, options: { rounds?: number; args?: unknown[] } = {}) {
  const { rounds = 5, args = [directory] } = options;
  const store = { module, exportName, args };
  return raceAcrossProcesses({ store, random: new SeededRandom(Date.now()), processCount: 4, rounds });
}

test('a sound store has one winner in every round, and the race leaves nothing', async () => {
  const { rounds, winsByProcess } = await race('openExclusiveStore');
  expect(rounds).toBe(5);
  expect(winsByProcess).toHaveLength(4);
  expect(winsByProcess.reduce((sum, wins) => sum + wins)).toBe(5);
  expect(await readdir(directory)).toEqual([]);
});

test('a store that looks first and writes then has several winners, and the race says who', async () => {
  const failure = race('openLookFirstStore', { rounds: 200 });
  await expect(failure).rejects.toThrow(ConformanceError);
  await expect(failure).rejects.toThrow(
    /by 16 committers: expected one winner, found \d+: process \d, committer \d/,
  );
});

test('a loser that learns anything but AlreadyExists ends the race', async () => {
  await expect(race('openFailingStore')).rejects.toThrow(
    'expected AlreadyExists, found CheckpointError: no access',
  );
});

test('a worker that cannot open the store ends the race with its error', async () => {
  await expect(race('noSuchFunction')).rejects.toThrow('failed to open: Error: ');
  await expect(race('noSuchFunction')).rejects.toThrow('exports no function noSuchFunction');
});
