/** Which process wins when many compete, on real stores and between real processes. */

import { pathToFileURL } from 'node:url';
import { raceAcrossProcesses, SeededRandom } from '@holdfast/testkit';
import { expect, test, vi } from 'vitest';
import { checkInvariants, type FilesOf, type Told } from '../crash/invariants.ts';
import { largeFilesOf } from '../crash/large-files.ts';
import { Writer } from '../crash/writer.ts';
import { COMPILE_CACHE } from '../e2e/holdfast-process.ts';
import { packedProgram } from '../e2e/packed-command.ts';
import { CLOUDS, type Cloud, S3 } from '../servers/clouds.ts';
import { CommitRace, HEAD_STARTS } from './commit-race.ts';
import { LONG_COUNT } from './config.ts';
import { viewOfRun } from './run-view.ts';

const ROUNDS = 30;
const FILE_BYTES = 1000;

/**
 * A short run has every head start of a rival once, and fewer competitors. S3 has the most of them,
 * and every second head start.
 */
function extentOn(cloud: Cloud) {
  if (LONG_COUNT > 0)
    return {
      createRounds: 50,
      commitRounds: ROUNDS,
      headStartsApart: 1,
      finisherCount: 64,
      processCount: 8,
      attemptCount: 64,
    };
  const headStartsApart = cloud === S3 ? 2 : 1;
  return {
    createRounds: 20,
    commitRounds: HEAD_STARTS / headStartsApart,
    headStartsApart,
    finisherCount: 16,
    processCount: 4,
    attemptCount: cloud === S3 ? 32 : 16,
  };
}

const TIMEOUT_MS = LONG_COUNT > 0 ? 6 * 3600_000 : 600_000;

const ANSWERS = ['committed', 'Fenced', 'Conflict'];

const partSizeBytes = 5 * 1024 * 1024;
const filesOf: FilesOf = (attempt, version, writer) => largeFilesOf(attempt, version, writer, FILE_BYTES);

// The processes of a race inherit the cache. Without it they would spend most of their time reading
// the sources.
vi.stubEnv('NODE_COMPILE_CACHE', COMPILE_CACHE);

const store = pathToFileURL(packedProgram('packages/stores/src/open-store.ts')).href;

for (const cloud of CLOUDS) {
  const { createRounds, commitRounds, headStartsApart, finisherCount, processCount, attemptCount } =
    extentOn(cloud);
  cloud.describeOn(`races on ${cloud.title}`, (server) => {
    test(`one of 32 committers in 8 processes wins, ${createRounds} times`, async () => {
      const { uri, env } = await server().newBucket();
      const opened = { module: store, exportName: 'openStore', args: [uri, env] };
      const seed = Math.floor(Math.random() * 2 ** 32);
      const random = new SeededRandom(seed);
      const { winsByProcess } = await raceAcrossProcesses({ store: opened, random, rounds: createRounds });
      expect(winsByProcess.reduce((sum, wins) => sum + wins)).toBe(createRounds);
      // Otherwise there was no race.
      expect(winsByProcess.filter((wins) => wins > 0).length).toBeGreaterThan(1);
    }, 120_000);

    test(
      `I4, I5, I7: ${finisherCount} finish one version at once, ${commitRounds} times: one commit, and every answer is true`,
      async () => {
        const race = await CommitRace.open(cloud, await server().newBucket(), finisherCount);
        const winners = new Set<string>();
        for (let version = 1; version <= commitRounds; version++)
          winners.add(await race.play(BigInt(version), (version * headStartsApart) % HEAD_STARTS));
        // One side has won all of them: then there was no race yet, so the other one is favoured.
        const step = winners.has('writer') ? -1 : 1;
        for (let extra = 1; winners.size === 1; extra++) {
          const version = BigInt(commitRounds + extra);
          winners.add(await race.play(version, step * (step < 0 ? extra : HEAD_STARTS + extra)));
        }
        await race.end();
      },
      TIMEOUT_MS,
    );

    const rounds = Math.max(1, Math.min(ROUNDS, LONG_COUNT));
    test(
      `I4, I5, I7: ${attemptCount} attempts in ${processCount} processes save one version, ${rounds} ${rounds === 1 ? 'time' : 'times'}: one commit, and every answer is true`,
      async () => {
        const { env } = await server().newBucket();
        const writers = Array.from({ length: processCount }, () => new Writer(env));
        for (let round = 0; round < rounds; round++) {
          const run = await server().newBucket();
          const attempts = Array.from({ length: attemptCount }, (_, index) => `job-${index}`);
          const told = await Promise.all(
            attempts.map(async (attempt, index): Promise<Told> => {
              const order = { uri: run.uri, attempt, index: 0, count: 1, version: 1n };
              const saving = writers[index % processCount]?.save({
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
