/** The command line as a process whose cost is counted. */

import { fileURLToPath } from 'node:url';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../scripts/steps.ts';
import { HOLDFAST } from '../e2e/holdfast-process.ts';
import { type Measured, measureProcess, type ProcessCost } from './s3/process-cost.ts';

const BUNDLE = fileURLToPath(new URL('../../packages/cli/dist/holdfast.mjs', import.meta.url));

/** What a user gets: compiled, without type stripping. */
export function builtCli(fromSources: boolean): Cli {
  if (fromSources) return new Cli(HOLDFAST);
  if (!runStep(BUILD)) throw new Error('the build failed; its own words are above');
  return new Cli([process.execPath, BUNDLE]);
}

export class Cli {
  readonly #words: readonly string[];

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  /** Runs a command to its end; rejects unless it exits with 0. */
  async cost(args: readonly string[], env: Readonly<Record<string, string>>): Promise<ProcessCost> {
    return (await this.run(args, env)).cost;
  }

  run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Measured> {
    return measureCommand(this.words(args), env);
  }

  /** For who starts it himself. */
  words(args: readonly string[]): readonly string[] {
    return [...this.#words, ...args];
  }
}

/** Nothing of our own environment reaches the program but the PATH. */
export function measureCommand(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Measured> {
  return measureProcess({ program, args, env: { PATH: process.env['PATH'] ?? '', ...env } });
}
