/** Who wins when many want the same: between processes, on real stores. */

import { raceAcrossProcesses, SeededRandom } from '@holdfast/testkit';
import { expect, test } from 'vitest';
import { checkInvariants, type FilesOf, type Told } from '../crash/invariants.ts';
import { largeFilesOf } from '../crash/large-files.ts';
import { Writer } from '../crash/writer.ts';
import { CLOUDS, type Cloud, S3 } from '../servers/clouds.ts';
import { CommitRace } from './commit-race.ts';
import { LONG_COUNT } from './config.ts';
import { viewOfRun } from './run-view.ts';

const PROCESSES = 8;
const FINISHERS = 64;
const ROUNDS = 30;
const FILE_BYTES = 1000;

/** All of it on S3, and everywhere in long runs. */
function extentOn(cloud: Cloud) {
  const isWhole = cloud === S3 || LONG_COUNT > 0;
  return isWhole ? { commitRounds: ROUNDS, attempts: 64 } : { commitRounds: 10, attempts: 16 };
}

const TIMEOUT_MS = LONG_COUNT > 0 ? 6 * 3600_000 : 600_000;

const ANSWERS = ['committed', 'Fenced', 'Conflict'];

const partSizeBytes = 5 * 1024 * 1024;
const filesOf: FilesOf = (attempt, version, writer) => largeFilesOf(attempt, version, writer, FILE_BYTES);

const store = new URL('../../packages/stores/src/index.ts', import.meta.url).href;

for (const cloud of CLOUDS) {
  const { commitRounds, attempts: attemptCount } = extentOn(cloud);
  cloud.describeOn(`races on ${cloud.title}`, (server) => {
    test('of 32 committers in 8 processes one wins, 50 times', async () => {
      const { uri, env } = await server().newBucket();
      const opened = { module: store, exportName: 'openStore', args: [uri, env] };
      const seed = Math.floor(Math.random() * 2 ** 32);
      const { winsByProcess } = await raceAcrossProcesses({ store: opened, random: new SeededRandom(seed) });
      expect(winsByProcess.reduce((sum, wins) => sum + wins)).toBe(50);
      // Otherwise it was no race.
      expect(winsByProcess.filter((wins) => wins > 0).length).toBeGreaterThan(1);
    }, 120_000);

    test(
      `I4, I5, I7: ${FINISHERS} finish one version at once, ${commitRounds} times: one commit, and every answer is true`,
      async () => {
        const race = await CommitRace.open(cloud, await server().newBucket());
        const winners: string[] = [];
        for (let version = 1n; version <= commitRounds; version++) winners.push(await race.play(version));
        await race.end();
        // Otherwise it was no race.
        expect(new Set(winners)).toEqual(new Set(['writer', 'rival']));
      },
      TIMEOUT_MS,
    );

    const rounds = Math.max(1, Math.min(ROUNDS, LONG_COUNT));
    test(
      `I4, I5, I7: ${attemptCount} attempts in ${PROCESSES} processes save one version, ${rounds} ${rounds === 1 ? 'time' : 'times'}: one commit, and every answer is true`,
      async () => {
        const { env } = await server().newBucket();
        const writers = Array.from({ length: PROCESSES }, () => new Writer(env));
        for (let round = 0; round < rounds; round++) {
          const run = await server().newBucket();
          const attempts = Array.from({ length: attemptCount }, (_, index) => `job-${index}`);
          const told = await Promise.all(
            attempts.map(async (attempt, index): Promise<Told> => {
              const order = { uri: run.uri, attempt, index: 0, count: 1, version: 1n };
              const saving = writers[index % PROCESSES]?.save({
                ...order,
                largeBytes: FILE_BYTES,
                partSizeBytes,
              });
              const answer = await saving?.told;
              return { attempt, writer: 0, version: 1n, outcome: answer?.outcome ?? 'no answer' };
            }),
          );
          expect(told.filter(({ outcome }) => outcome === 'committed')).toHaveLength(1);
          expect(told.filter(({ outcome }) => !ANSWERS.includes(outcome))).toEqual([]);
          await checkInvariants(await viewOfRun(cloud, run), told, filesOf);
        }
        await Promise.all(writers.map((writer) => writer.end()));
      },
      TIMEOUT_MS,
    );
  });
}
