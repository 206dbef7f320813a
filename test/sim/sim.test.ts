/**
 * Schedules of every kind, and all mutants. `HOLDFAST_TEST_LONG` plays three times as many
 * schedules. To play more: `pnpm sim --seed N --seconds S`.
 */

import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import { LONG_COUNT } from '../cloud/config.ts';
import { ENGINE_MUTANTS, SMALL_ENGINE } from './engine-mutants.ts';
import type { Prey } from './hunt.ts';
import type { Outcome } from './played.ts';
import { simulate } from './simulation.ts';
import { STORE_MUTANTS } from './store-mutants.ts';
import {
  FIRST_COLLECTING_SEED,
  FIRST_DRAWN_SEED,
  FIRST_LIFE_SEED,
  FIRST_LOSING_SEED,
  FIRST_PAGING_SEED,
  FIRST_STOPPING_SEED,
} from './story.ts';

/**
 * The same seeds on every machine, so that a failure comes from the change under test. Long runs
 * begin at other seeds.
 */
const FIRST_SEED = 1;
const SCHEDULE_COUNT = LONG_COUNT > 0 ? 240 : 80;
/**
 * Schedules of each other kind: collectors, callers that stop their saves, pages of the catalog,
 * attempt ids that only the processes know, a lost catalog, a process for each call of a trainer.
 */
const OTHERS_COUNT = LONG_COUNT > 0 ? 60 : 20;
const OTHERS_FIRST_SEEDS = [
  FIRST_COLLECTING_SEED,
  FIRST_STOPPING_SEED,
  FIRST_PAGING_SEED,
  FIRST_DRAWN_SEED,
  FIRST_LOSING_SEED,
  FIRST_LIFE_SEED,
];
/** Each of these seeds has found a mistake in the engine once. */
const SEEDS_KEPT = [551, 2_942, 10_822, 11_343, 100_748, 10_000_321, 40_000_307, 40_000_661, 50_000_419];
/** One schedule in this many is played again: some of each kind. */
const REPLAYED_ONE_IN = 10;
const HUNTED_SCHEDULES_MAX = 600;
const TIMEOUT_MS = 600_000;

const PROMISES = {
  I0: 'the catalog is one history',
  I1: 'whatever is committed is there, whole, and can be restored',
  I2: 'the latest never goes back, and no reader is offered less than was committed before it asked',
  I3: 'retention takes nothing that it may not, and no reader loses what it holds a lease on',
  I4: 'a version is committed once, and stays as it is',
  I5: 'nothing of a passed attempt is committed',
  I6: 'attempts and lives of a writer never mix in a checkpoint',
  I7: 'what a process was told is true',
  I8: 'late and doubled requests change nothing that is there',
  I9: 'bytes come back as they were written',
  I10: 'a survivor finishes what was delivered, and a new attempt goes on',
  I11: 'every call ends',
  crash: 'nothing but its own errors comes out of the engine',
};

describe('writers, zombies, survivors and readers in random order under random faults', () => {
  const outcomes: Outcome[] = [];

  beforeAll(async () => {
    // Errors are expected outcomes here, in thousands. Their stacks would cost more than all else.
    Error.stackTraceLimit = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + SCHEDULE_COUNT; seed++)
      outcomes.push(await simulate(seed));
    for (const seed of SEEDS_KEPT) outcomes.push(await simulate(seed));
    for (const firstSeed of OTHERS_FIRST_SEEDS)
      for (let at = 0; at < OTHERS_COUNT; at++) outcomes.push(await simulate(firstSeed + at));
  }, TIMEOUT_MS);

  test.each(Object.entries(PROMISES))('%s: %s', (invariant) => {
    const found = outcomes.find(({ violation }) => violation?.startsWith(`${invariant}: `));
    expect(found && `${found.trace.join('\n')}\nseed ${found.seed}: ${found.violation}`).toBeUndefined();
  });

  test('what is played is worth playing: commits, refusals, unknown outcomes and deaths', () => {
    const told = new Set(outcomes.flatMap((outcome) => outcome.told));
    for (const each of [
      'committed',
      'delivered',
      'Fenced',
      'Conflict',
      'Incomplete',
      'OutcomeUnknown',
      'TimedOut',
      'Aborted',
      'StoreRegressed',
      'rebuilt',
    ])
      expect(told).toContain(each);
    expect(outcomes.filter(({ commits }) => commits > 1).length).toBeGreaterThan(SCHEDULE_COUNT / 2);
    const steps = outcomes.reduce((sum, outcome) => sum + outcome.steps, 0);
    expect(steps).toBeGreaterThan(SCHEDULE_COUNT * 50);
  });

  test(
    'the same seed plays the same schedule',
    async () => {
      for (const { seed, hash } of outcomes.filter((_, index) => index % REPLAYED_ONE_IN === 0)) {
        expect({ seed, hash: (await simulate(seed)).hash }).toEqual({ seed, hash });
      }
      expect(new Set(outcomes.map(({ hash }) => hash)).size).toBe(outcomes.length);
    },
    TIMEOUT_MS,
  );
});

describe('a planted mistake is found:', () => {
  const preys = new Map<string, Prey>();

  beforeAll(async () => {
    for await (const prey of huntInProcess()) preys.set(prey.name, prey);
  }, TIMEOUT_MS);

  test('without one, an engine of small dimensions keeps every invariant', () => {
    expect(preys.get(SMALL_ENGINE)).toEqual({ name: SMALL_ENGINE, played: expect.any(Number) });
  });

  test.each([...Object.keys(STORE_MUTANTS), ...Object.keys(ENGINE_MUTANTS)])('%s', (name) => {
    // A crash does not count: a mutant that no longer fits the source crashes too.
    expect(preys.get(name)).toMatchObject({ name, violation: expect.stringMatching(/^I\d+: /) });
  });
});

/** In a separate process: the engine's source can be changed there while it is loaded. */
async function* huntInProcess(): AsyncGenerator<Prey> {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));
  const options = ['--mutants', '--count', `${HUNTED_SCHEDULES_MAX}`];
  const child = spawn(process.execPath, ['--conditions=holdfast-source', main, ...options], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  try {
    for await (const line of createInterface({ input: child.stdout })) yield JSON.parse(line) as Prey;
  } finally {
    child.kill();
  }
}
