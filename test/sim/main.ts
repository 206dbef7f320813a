/**
 * `pnpm sim --seed N [--count C] [--seconds S]`: plays the seeds from N on and prints the first
 * violation. With `--mutants`: plays an engine of small dimensions, then plants one mistake after
 * the other. Prints as lines of JSON which schedule found each mistake. Each mutant gets at most
 * `--count` schedules.
 */

import { parseArgs } from 'node:util';
import { hunt, playSmall } from './hunt.ts';
import { simulate } from './simulation.ts';

// Errors are expected outcomes here, in thousands. Their stacks would cost more than everything
// else.
Error.stackTraceLimit = 0;

const USAGE = 'pnpm sim [--seed N] [--count C] [--seconds S] [--trace | --mutants]';

function readNumber(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 0) return value;
  throw new Error(`--${name} is "${text}"; it takes a whole number from 0 on\n${USAGE}`);
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      seed: { type: 'string' },
      count: { type: 'string' },
      seconds: { type: 'string' },
      trace: { type: 'boolean' },
      mutants: { type: 'boolean' },
    },
  });
  const givenSeed = readNumber('seed', values.seed);
  const seed = givenSeed ?? 1;
  const seconds = readNumber('seconds', values.seconds);
  const count = readNumber('count', values.count) ?? (seconds === undefined ? 1 : Number.POSITIVE_INFINITY);
  if (values.mutants) return huntAll(givenSeed, readNumber('count', values.count) ?? 1000);
  const startMs = performance.now();
  const endMs = startMs + (seconds ?? Number.POSITIVE_INFINITY) * 1000;
  let played = 0;
  let steps = 0;
  let stepsMax = 0;
  const told = new Map<string, number>();
  for (; played < count && performance.now() < endMs; played++) {
    const outcome = await simulate(seed + played);
    steps += outcome.steps;
    stepsMax = Math.max(stepsMax, outcome.steps);
    for (const each of outcome.told) told.set(each, (told.get(each) ?? 0) + 1);
    if (outcome.violation !== undefined) {
      console.log(`${outcome.trace.join('\n')}\n\nseed ${outcome.seed}: ${outcome.violation}`);
      return 1;
    }
    if (count === 1) {
      if (values.trace) console.log(outcome.trace.join('\n'));
      console.log(
        `seed ${outcome.seed}: trace ${outcome.hash}, ${outcome.steps} steps, ${outcome.commits} commits`,
      );
    }
  }
  const tookSeconds = (performance.now() - startMs) / 1000;
  const tally = [...told].sort(([, a], [, b]) => b - a).map(([outcome, times]) => `${outcome} ${times}`);
  console.log(
    `${played} schedules from seed ${seed}, ${steps} steps (${stepsMax} at most), ${tookSeconds.toFixed(1)} s, ${Math.round(played / tookSeconds)} schedules/s: every invariant holds\ntold: ${tally.join(', ')}`,
  );
  return 0;
}

async function huntAll(seed: number | undefined, count: number): Promise<number> {
  const small = await playSmall();
  console.log(JSON.stringify(small));
  let exitCode = small.violation === undefined ? 0 : 1;
  for await (const prey of hunt(seed, count)) {
    console.log(JSON.stringify(prey));
    if (prey.violation === undefined) exitCode = 1;
  }
  return exitCode;
}

process.exitCode = await main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  return 2;
});
