/**
 * The steps of `pnpm check`, which `pnpm test` runs too. No step changes a file that git tracks.
 */

import { spawn, spawnSync } from 'node:child_process';

export interface Step {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
}

export const BUILD: Step = { name: 'build', command: ['turbo', 'run', 'build'] };

/** Builds too. Tests use the packages as a user installs them. */
export const PACK: Step = { name: 'pack', command: ['node', 'scripts/pack.ts'] };

export const CHECKS: readonly Step[] = [
  { name: 'format and lint', command: ['biome', 'ci', '--error-on-warnings'] },
  { name: 'types', command: ['tsc', '--project', 'tsconfig.json'] },
  { name: 'types of the page', command: ['tsc', '--project', 'packages/ui/page/tsconfig.json'] },
  { name: 'package boundaries', command: ['turbo', 'boundaries'] },
  { name: 'generated records', command: ['node', 'packages/wire/scripts/generate.ts', '--check'] },
];

/**
 * Builds the missing servers. This takes minutes the first time, and no test has to wait for it
 * later.
 */
export const SERVERS: Step = {
  name: 'servers for tests',
  command: ['node', '--conditions=holdfast-source', 'test/servers/prepare.ts'],
};

export const TIDY: Step = { name: 'tidy', command: ['vitest', 'run', '--project', 'tidy'] };

/** Runs every step, also after one has failed. Returns the names of the failed steps. */
export function runSteps(steps: readonly Step[]): string[] {
  return steps.filter((step) => !runStep(step)).map((step) => step.name);
}

/** Begins a step that works beside others. Resolves to whether it succeeded. */
export function beginStep(begun: Step): Promise<boolean> {
  const [program, ...args] = begun.command;
  announce(begun);
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const step = spawn(program, args, { stdio: ['ignore', 'inherit', 'inherit'] });
  step.once('error', (error) => {
    tellWhy(program, error);
    resolve(false);
  });
  step.once('close', (status) => resolve(status === 0));
  return promise;
}

export function runStep(step: Step, env = process.env): boolean {
  const [program, ...args] = step.command;
  announce(step);
  const { status, error } = spawnSync(program, args, { stdio: ['ignore', 'inherit', 'inherit'], env });
  if (error) tellWhy(program, error);
  return status === 0;
}

function announce({ name, command }: Step): void {
  console.log(`\n── ${name}: ${command.join(' ')}`);
}

function tellWhy(program: string, error: Error): void {
  console.error(`${program} cannot be started: ${error.message}`);
}
