/**
 * The only reader of the environment: variables of options, the run's URI, colour, and the
 * launcher's variables. An option overrides the environment.
 */

import type { CheckpointError, WriterPosition } from '@holdfast/core/contract';
import { launcherAttempt, launcherWriter, underTorchrun } from './launcher.ts';
import { type Option, readOption } from './option.ts';
import { type ProcessTable, parentLife, thisSystem } from './parent-life.ts';
import type { Environment, Sourced } from './sourced.ts';
import { usageError } from './usage-error.ts';

/** The option's value from the environment. An empty variable counts as not set. */
export function optionFromEnvironment(option: Option<unknown>, env: Environment): Sourced<unknown> | null {
  const text = env[option.envName];
  if (text === undefined || text === '') return null;
  const texts = option.kind === 'list' ? text.split('\n').filter((line) => line.trim() !== '') : [text];
  const values = texts.map((each) => readOption(option, each, 'environment'));
  if (values[0] === false) return null;
  return { value: option.kind === 'list' ? values : values[0], source: option.envName };
}

/** The default run, if the command line names none. */
export function uriFromEnvironment(env: Environment): string | null {
  return env['HOLDFAST_URI'] || null;
}

/** Tells whether to colour output to a stream. */
export function wantsColor(env: Environment, isTerminal: boolean): boolean {
  if (env['NO_COLOR']) return false;
  if (env['FORCE_COLOR']) return env['FORCE_COLOR'] !== '0';
  return isTerminal && env['TERM'] !== 'dumb';
}

/** Tells whether the cursor of a terminal can be moved. */
export function canRedraw(env: Environment, isTerminal: boolean): boolean {
  return isTerminal && env['TERM'] !== 'dumb';
}

/** Position of this process in the job. */
export interface Job {
  readonly writer: Sourced<WriterPosition>;
  readonly attempt: Sourced<string> | null;
  /** One start of the trainer, until it exits; `null`: this process is the trainer. */
  readonly life: Sourced<string> | null;
}

/**
 * Determines the writer and the attempt from the options, otherwise from the launcher. Throws
 * `InvalidArgument` if there is no attempt, and there are several writers or a life. Throws
 * `InvalidConfig` if the launcher's variables are invalid. For a life it also throws as
 * `parentLife` does.
 */
export function resolveJob(
  given: {
    writer: Sourced<WriterPosition> | null;
    attempt: Sourced<string> | null;
    life?: Sourced<string> | null;
  },
  env: Environment,
  system: ProcessTable = thisSystem,
): Job {
  const writer = given.writer ??
    launcherWriter(env) ?? { value: { index: 0, count: 1 }, source: 'the default' };
  const attempt = given.attempt ?? launcherAttempt(env);
  if (writer.value.count > 1 && attempt === null) throw attemptMissing(writer, env);
  if (given.life && attempt === null) throw attemptOfLifeMissing(given.life);
  return { writer, attempt, life: given.life ? resolveLife(given.life, system) : null };
}

function resolveLife(given: Sourced<string>, system: ProcessTable): Sourced<string> {
  if (given.value !== 'parent') return given;
  return { value: parentLife(system, given.source), source: `the parent process (${given.source})` };
}

function attemptOfLifeMissing({ source }: Sourced<string>): CheckpointError {
  return usageError(`${source} needs an attempt id: without one, each call begins a new attempt`, [
    'pass --attempt ID, or set HOLDFAST_ATTEMPT, to the same value in every call of this start of the job',
  ]);
}

function attemptMissing(writer: Sourced<WriterPosition>, env: Environment): CheckpointError {
  const { index, count } = writer.value;
  const why = underTorchrun(env)
    ? 'torchrun gives no attempt: its run id and restart count differ between nodes after a failure; let rank 0 draw an id at each start and pass it to the others'
    : 'an attempt is the id of one start of the job: the same in all its processes, and never used again';
  const isLauncher = writer.source === launcherWriter(env)?.source;
  const alone = 'if only rank 0 saves, pass --writer 0/1, which needs no attempt';
  return usageError(`writer ${index} of ${count} needs an attempt id (writer from ${writer.source})`, [
    why,
    ...(isLauncher && index === 0 ? [alone] : []),
    'pass --attempt ID, or set HOLDFAST_ATTEMPT, to the same value in every writer',
  ]);
}
