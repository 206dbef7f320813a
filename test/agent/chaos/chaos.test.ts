/** Random rounds of killed and frozen processes, and whether a broken promise would be found. */

import { describe, expect, test } from 'vitest';
import { LONG_COUNT } from '../../cloud/config.ts';
import { pythonProgram } from '../../python/python-program.ts';
import { describeWithPython } from '../../python/run-python.ts';
import { describeOnS3 } from '../../servers/describe-on-s3.ts';
import type { Told } from './job.ts';
import { planOf } from './plan.ts';
import type { Outcome } from './round.ts';
import { playRounds, type Rounds } from './rounds.ts';
import { breachesOf, type Facts, stagedByAll } from './verdict.ts';
import type { WatchedProcess } from './watched-process.ts';

const COUNT = LONG_COUNT === 0 ? 4 : Math.min(LONG_COUNT, 200);
const S3_COUNT = LONG_COUNT === 0 ? 8 : COUNT;
const ROUND_MS_MAX = 60_000;

/** Rounds that broke a promise. */
async function failedRounds(rounds: Omit<Rounds, 'python' | 'onOutcome'>) {
  const failed: Outcome[] = [];
  await playRounds({
    ...{ ...rounds, python: await pythonProgram() },
    onOutcome: (outcome) => {
      if (outcome.breaches.length > 0) failed.push(outcome);
    },
  });
  for (const { plan, history } of failed) console.log(JSON.stringify(plan), `\n${history.join('\n')}`);
  return failed.map(({ plan, breaches }) => ({ seed: plan.seed, breaches }));
}

describeWithPython('an agent and its trainers, killed and frozen at random', () => {
  test(`${COUNT} rounds break no promise`, { timeout: COUNT * ROUND_MS_MAX }, async () => {
    expect(await failedRounds({ firstSeed: 1, count: COUNT, lanes: 2 })).toEqual([]);
  });

  describeOnS3('on S3', (server) => {
    test(`${S3_COUNT} rounds break no promise`, { timeout: S3_COUNT * ROUND_MS_MAX }, async () => {
      const { uri, env } = await server().newBucket();
      // Other seeds than on the local directory.
      const rounds = { firstSeed: 1001, count: S3_COUNT, lanes: 4, uri, env };
      expect(await failedRounds(rounds)).toEqual([]);
    });
  });
});

test('a seed gives the same round each time, and others give others', () => {
  expect(planOf(7)).toEqual(planOf(7));
  const plans = Array.from({ length: 200 }, (_, seed) => planOf(seed));
  expect(new Set(plans.map(({ faults }) => JSON.stringify(faults))).size).toBe(200);
  const drawn = plans.flatMap(({ faults }) => faults).map(({ signal, target }) => `${signal} ${target}`);
  expect(new Set(drawn).size).toBe(12);
  expect(new Set(plans.map(({ rankCount }) => rankCount))).toEqual(new Set([1, 2, 4]));
});

describe('a broken promise is found', () => {
  const running = {
    frozen: [],
    ending: { exitCode: 0, signal: null, atMs: 1e6 },
  } as unknown as WatchedProcess;
  const MARKS = 2 ** 24;
  const lives = [0, 1].map((rank) => ({ rank, attempt: 1, mark: rank + 1, process: running }));
  const number = (mark: number, moment: number) => mark * MARKS + moment;
  const told: Told[] = [0, 1].flatMap((life) =>
    ['seal', 'staged', 'committed'].map((event) => ({
      ...{ life, event, atMs: 0, version: 1, number: number(life + 1, 5) },
    })),
  );
  const files = (mark: number, ...moments: number[]) =>
    ['model', 'optimizer'].map((name) => ({
      name: `${name}-${mark - 1}`,
      numbers: new Set(moments.map((moment) => number(mark, moment))),
    }));
  const good: Facts = {
    ...{ rankCount: 2, lives, told, logged: [1], slackMs: 100 },
    found: [{ version: 1, files: [...files(1, 5), ...files(2, 5)] }],
  };
  const found = (...parts: { name: string; numbers: Set<number> }[]) => ({
    found: [{ version: 1, files: parts }],
  });
  const more = (...lines: Partial<Told>[]) => ({
    told: [...told, ...lines.map((line) => ({ life: 0, event: '', atMs: 0, ...line }))],
  });
  const CASES: readonly (readonly [string, Partial<Facts>, RegExp])[] = [
    ['a version that is lost', { found: [] }, /was told that version 1 is committed: it is lost/],
    ['a version that the agent names, and is lost', { found: [], told: [] }, /an agent said.*it is lost/],
    ['bytes of two moments', found(...files(1, 5, 6), ...files(2, 5)), /bytes of 2 moments/],
    ['files of two moments', found(files(1, 5)[0]!, files(1, 4)[1]!, ...files(2, 5)), /bytes of 2 moments/],
    ['bytes of another moment', found(...files(1, 4), ...files(2, 5)), /never sealed these bytes/],
    ['bytes of no moment', found(...files(1), ...files(2, 5)), /never had/],
    ['bytes of another rank', found(...files(2, 5), ...files(2, 5)), /has 0 files of rank 0/],
    ['a version without a rank', found(...files(1, 5)), /has 0 files of rank 1/],
    [
      'a version that one rank did not seal',
      { told: told.filter(({ life }) => life === 0) },
      /rank 1: its writer never/,
    ],
    [
      'two attempts in a version',
      { lives: [{ ...lives[0]!, attempt: 2 }, lives[1]!] },
      /parts of 2 attempts/,
    ],
    [
      'other bytes that were loaded',
      more({ event: 'loaded', version: 1, numbers: [number(1, 4)] }),
      /loaded other/,
    ],
    [
      'torn bytes that were loaded',
      more({ event: 'loaded', version: 1, numbers: [1, 2] }),
      /of several moments/,
    ],
    ['a code that no fault explains', more({ event: 'error', code: 'Corrupt' }), /was told Corrupt/],
    [
      'a call that lasts too long',
      more({ event: 'call', name: 'a', limitMs: 50 }, { event: 'answer', name: 'a', atMs: 151 }),
      /call a lasted 151 ms, its limit is 50 ms/,
    ],
    [
      'a rank that ended with an error',
      {
        lives: [
          {
            ...lives[0]!,
            process: { ...running, ending: { exitCode: 1, signal: null, atMs: 0 } } as WatchedProcess,
          },
          lives[1]!,
        ],
      },
      /life 0 ended with 1/,
    ],
  ];

  test('nothing is found if all is well', () => expect(breachesOf(good)).toEqual([]));

  test.each(CASES)('%s', (_, change, breach) => {
    expect(breachesOf({ ...good, ...change }).join('\n')).toMatch(breach);
  });

  test('a call of a frozen rank has more time', () => {
    const frozen = { ...running, frozen: [{ fromMs: 10, untilMs: 60 }] } as unknown as WatchedProcess;
    const call = more({ event: 'call', name: 'a', limitMs: 50 }, { event: 'answer', name: 'a', atMs: 151 });
    expect(breachesOf({ ...good, ...call, lives: [{ ...lives[0]!, process: frozen }, lives[1]!] })).toEqual(
      [],
    );
  });

  test('a version is awaited if the last life of each rank had staged it', () => {
    expect(stagedByAll(good)).toEqual([1]);
    expect(stagedByAll({ ...good, lives: [...lives, { ...lives[0]!, mark: 3 }] })).toEqual([]);
    expect(stagedByAll({ ...good, told: told.filter(({ life }) => life === 0) })).toEqual([]);
    expect(stagedByAll({ ...good, ...more({ event: 'ended', version: 1 }) })).toEqual([]);
    expect(stagedByAll({ ...good, told: [] })).toEqual([]);
  });
});
