/** The command line as a measured process. */

// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../scripts/steps.ts';
import { FROM_SOURCES, HOLDFAST } from '../e2e/holdfast-process.ts';
import { type Measured, measureProcess, type ProcessCost } from './s3/process-cost.ts';

/** The compiled command that users get, because type stripping costs time. */
export function builtCli(fromSources: boolean): Cli {
  if (fromSources) return new Cli(FROM_SOURCES);
  if (!runStep(BUILD)) throw new Error('the build failed; its own words are above');
  return new Cli(HOLDFAST);
}

export class Cli {
  readonly #words: readonly string[];

  constructor(words: readonly string[]) {
    this.#words = words;
  }

  /** Runs a command to its end. Rejects unless it exits with 0. */
  async cost(args: readonly string[], env: Readonly<Record<string, string>>): Promise<ProcessCost> {
    return (await this.run(args, env)).cost;
  }

  run(args: readonly string[], env: Readonly<Record<string, string>>): Promise<Measured> {
    return measureCommand(this.words(args), env);
  }

  /** The command's words, for callers that start it themselves. */
  words(args: readonly string[]): readonly string[] {
    return [...this.#words, ...args];
  }
}

/** Passes only the PATH of our environment to the program. */
export function measureCommand(
  [program = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<Measured> {
  return measureProcess({ program, args, env: { PATH: process.env['PATH'] ?? '', ...env } });
}
