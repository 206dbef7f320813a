/** One option of a command: how it is written, read from text, and named in the environment. */

import { CheckpointError } from '@holdfast/core/contract';
import { BadValue } from './values.ts';

export interface Option<T> {
  /** As commander takes it: `--timeout <duration>`. */
  readonly flags: string;
  /** `timeout`. */
  readonly name: string;
  /** `HOLDFAST_TIMEOUT`. */
  readonly envName: string;
  readonly help: string;
  /** `flag-or-word`: a flag, which may have a word behind `=`, and never takes the next one. */
  readonly kind: 'flag' | 'flag-or-word' | 'value' | 'list';
  /** What its value may be, where that is a short list; for the shell's completion. */
  readonly choices: readonly string[];
  /** The value of one occurrence. Throws `BadValue`. */
  readonly parse: (text: string) => unknown;
  /** Only for the type: what a command reads. */
  readonly type?: T;
}

function describe<T>(
  flags: string,
  help: string,
  rest: Pick<Option<T>, 'kind' | 'parse' | 'choices'>,
): Option<T> {
  const name = /--([a-z-]+)/.exec(flags)?.[1] as string;
  // HOLDFAST_VERSION would look like the version of the program, and images do set such variables.
  const word = name === 'version' ? 'checkpoint-version' : name;
  return { flags, name, envName: `HOLDFAST_${word.replaceAll('-', '_').toUpperCase()}`, help, ...rest };
}

/** On or not there. */
export function flag(flags: string, help: string): Option<boolean> {
  return describe(flags, help, { kind: 'flag', parse: parseFlag, choices: [] });
}

/**
 * On or not there, or with a word: `--name=word`. `parse` knows "yes", which stands for a bare one.
 * In the environment: as a flag, or the word.
 */
export function flagOrWord<T>(flags: string, help: string, parse: (text: string) => T): Option<T> {
  return describe(flags, help, { kind: 'flag-or-word', parse, choices: [] });
}

/** With one value; given again, the last one counts. */
export function value<T>(
  flags: string,
  help: string,
  parse: (text: string) => T,
  choices: readonly string[] = [],
): Option<T> {
  return describe(flags, help, { kind: 'value', parse, choices });
}

/** With a value each time it is given. In the environment: one per line. */
export function list<T>(flags: string, help: string, parse: (text: string) => T): Option<readonly T[]> {
  return describe(flags, help, { kind: 'list', parse, choices: [] });
}

// Only the environment gives a flag as text.
export function parseFlag(text: string): boolean {
  if (/^(1|true|yes|on)$/i.test(text)) return true;
  if (/^(0|false|no|off)$/i.test(text)) return false;
  throw new BadValue(`"${text}" is neither yes nor no; write 1 or 0`);
}

/**
 * The value of one occurrence. `InvalidArgument`, or `InvalidConfig` for the environment, names
 * where it stood.
 */
export function readOption(
  option: Option<unknown>,
  text: string,
  from: 'arguments' | 'environment',
): unknown {
  const [code, label] =
    from === 'arguments'
      ? (['InvalidArgument', `--${option.name}`] as const)
      : (['InvalidConfig', option.envName] as const);
  return checked(code, label, () => option.parse(text));
}

/** Runs `parse`, and turns a `BadValue` into the error that names its place. */
export function checked<T>(code: 'InvalidArgument' | 'InvalidConfig', label: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof BadValue) throw new CheckpointError(code, `${label}: ${error.message}`);
    throw error;
  }
}
