/** One option of a command: its flags, its parser, and its environment variable. */

import { CheckpointError } from '@holdfast/core/contract';
import { BadValue } from './values.ts';

export interface Option<T> {
  /** In commander's form: `--timeout <duration>`. */
  readonly flags: string;
  /** `timeout`. */
  readonly name: string;
  /** `HOLDFAST_TIMEOUT`. */
  readonly envName: string;
  readonly help: string;
  /**
   * `flag-or-word`: a flag with an optional word after `=`, which never takes the next argument.
   */
  readonly kind: 'flag' | 'flag-or-word' | 'value' | 'list';
  /** The possible values if there are few; for the shell's completion. */
  readonly choices: readonly string[];
  /** Parses one occurrence. Throws `BadValue`. */
  readonly parse: (text: string) => unknown;
  /** Only for the type of the value that a command reads. */
  readonly type?: T;
}

function describe<T>(
  flags: string,
  help: string,
  rest: Pick<Option<T>, 'kind' | 'parse' | 'choices'>,
): Option<T> {
  const name = /--([a-z-]+)/.exec(flags)?.[1] as string;
  // HOLDFAST_VERSION would look like the version of the program, and container images do set such
  // variables.
  const word = name === 'version' ? 'checkpoint-version' : name;
  return { flags, name, envName: `HOLDFAST_${word.replaceAll('-', '_').toUpperCase()}`, help, ...rest };
}

/** A flag without a value. */
export function flag(flags: string, help: string): Option<boolean> {
  return describe(flags, help, { kind: 'flag', parse: parseFlag, choices: [] });
}

/**
 * A flag with an optional word: `--name=word`. `parse` accepts "yes", which stands for the plain
 * flag. In the environment: as a flag, or the word.
 */
export function flagOrWord<T>(flags: string, help: string, parse: (text: string) => T): Option<T> {
  return describe(flags, help, { kind: 'flag-or-word', parse, choices: [] });
}

/** An option with one value; if repeated, the last one counts. */
export function value<T>(
  flags: string,
  help: string,
  parse: (text: string) => T,
  choices: readonly string[] = [],
): Option<T> {
  return describe(flags, help, { kind: 'value', parse, choices });
}

/** An option that collects the values of all occurrences. In the environment: one per line. */
export function valueList<T>(flags: string, help: string, parse: (text: string) => T): Option<readonly T[]> {
  return describe(flags, help, { kind: 'list', parse, choices: [] });
}

// Only the environment gives a flag as text.
export function parseFlag(text: string): boolean {
  if (/^(1|true|yes|on)$/i.test(text)) return true;
  if (/^(0|false|no|off)$/i.test(text)) return false;
  throw new BadValue(`"${text}" is not accepted; write 1 or 0`);
}

/**
 * Parses one occurrence. `InvalidArgument`, or `InvalidConfig` for the environment, names the
 * source.
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

/** Runs `parse`, and turns a `BadValue` into the error that names its source. */
export function checked<T>(code: 'InvalidArgument' | 'InvalidConfig', label: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    if (error instanceof BadValue) throw new CheckpointError(code, `${label}: ${error.message}`);
    throw error;
  }
}
