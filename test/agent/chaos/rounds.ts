/** Many rounds, several at a time. A machine plays one after the other. */

import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Machine } from './machine.ts';
import { planOf, type RoundPlan } from './plan.ts';
import { type Outcome, playRound } from './round.ts';

/** How much later than its limit a call may end on a busy machine. */
const SLACK_MS = 4000;

export interface Rounds {
  readonly firstSeed: number;
  readonly count: number;
  readonly lanes: number;
  /** An interpreter of Python. */
  readonly python: string;
  /** A prefix of the URIs of the runs. Default: local directories. */
  readonly uri?: string | undefined;
  /** Credentials for it. Default: those of this process. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly onOutcome: (outcome: Outcome) => void;
}

export async function playRounds({ firstSeed, count, lanes, ...more }: Rounds): Promise<void> {
  const plans = Array.from({ length: count }, (_, index) => planOf(firstSeed + index));
  await Promise.all(Array.from({ length: lanes }, () => playLane(plans, more)));
}

async function playLane(
  plans: RoundPlan[],
  { python, uri, env, onOutcome }: Pick<Rounds, 'python' | 'uri' | 'env' | 'onOutcome'>,
): Promise<void> {
  const machines = new Map<string, Machine>();
  try {
    for (let plan = plans.shift(); plan !== undefined; plan = plans.shift()) {
      const { seed, isInMemory, bytesPerSecondMax } = plan;
      const kind = JSON.stringify([isInMemory, bytesPerSecondMax]);
      const machine = machines.get(kind) ?? new Machine({ isInMemory, bytesPerSecondMax, env });
      machines.set(kind, machine);
      const runUri = uri === undefined ? localRun(machine, seed) : below(uri, `seed-${seed}`);
      onOutcome(await playRound(plan, { machine, uri: runUri, python, slackMs: SLACK_MS }));
    }
  } finally {
    await Promise.all([...machines.values()].map((machine) => machine.close()));
  }
}

function localRun(machine: Machine, seed: number): string {
  const directory = join(machine.directory, 'runs', String(seed));
  mkdirSync(directory, { recursive: true });
  return pathToFileURL(directory).href;
}

/** The settings of a store come last in a URI. */
function below(uri: string, name: string): string {
  const [place, ...settings] = uri.split('?');
  return [`${place}/${name}`, ...settings].join('?');
}
