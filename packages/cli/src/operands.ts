/** Separates the run's URI from the other operands. */

import type { Command } from './command.ts';
import { uriFromEnvironment } from './env.ts';
import type { Environment } from './sourced.ts';
import { usageError } from './usage-error.ts';
import { isUri } from './values.ts';

export interface Operands {
  readonly uri: string;
  readonly rest: readonly string[];
  readonly isUriFromEnvironment: boolean;
}

/**
 * `URI OTHER...`, with as many others as `otherNames` has. With HOLDFAST_URI set the first may be
 * omitted.
 */
export function takeUriFirst(
  command: Command,
  operands: readonly string[],
  env: Environment,
  otherNames: readonly string[] = [],
): Operands {
  if (operands.length > otherNames.length + 1) throw tooMany(command, operands.slice(otherNames.length + 1));
  const [first, ...rest] = operands;
  if (first !== undefined && rest.length === otherNames.length)
    return { uri: first, rest: noUris(command, rest), isUriFromEnvironment: false };
  const uri = uriFromEnvironment(env);
  if (isUri(first)) throw missing(command, otherNames.slice(rest.length));
  if (operands.length < otherNames.length)
    throw missing(command, [...(uri === null ? ['URI'] : []), ...otherNames.slice(operands.length)]);
  if (uri === null) throw missing(command, ['URI']);
  return { uri, rest: operands, isUriFromEnvironment: true };
}

/** `OTHER... URI`, with at least one other. With HOLDFAST_URI set the URI may be omitted. */
export function takeUriLast(
  command: Command,
  operands: readonly string[],
  env: Environment,
  otherName: string,
): Operands {
  const last = operands.at(-1);
  const uri = uriFromEnvironment(env);
  if (isUri(last) || (uri === null && operands.length > 1)) {
    if (operands.length < 2) throw missing(command, [otherName]);
    const rest = noUris(command, operands.slice(0, -1));
    return { uri: last as string, rest, isUriFromEnvironment: false };
  }
  if (last === undefined) throw missing(command, [otherName, ...(uri === null ? ['URI'] : [])]);
  if (uri === null) throw missing(command, ['URI']);
  return { uri, rest: operands, isUriFromEnvironment: true };
}

/** For a command without operands, or with one that is not a URI. */
export function takeOperands(
  command: Command,
  operands: readonly string[],
  names: readonly string[],
): readonly string[] {
  if (operands.length > names.length) throw tooMany(command, operands.slice(names.length));
  if (operands.length < names.length) throw missing(command, names.slice(operands.length));
  return operands;
}

/**
 * A path that looks like a URI must be written with `./` before it. The message does not repeat it:
 * a URI that was not checked may hold a secret.
 */
export function noUris(command: Command, operands: readonly string[]): readonly string[] {
  if (!operands.some(isUri)) return operands;
  throw usageError(`${command.name} was given a URI where it takes a path`, [
    usageOf(command),
    'write a path on this machine without file://',
  ]);
}

function missing(command: Command, names: readonly string[]): Error {
  const advice = names.includes('URI') ? ['HOLDFAST_URI is used if the URI is omitted'] : [];
  return usageError(`${command.name} needs ${names.join(' and ')}`, [usageOf(command), ...advice]);
}

function tooMany(command: Command, extra: readonly string[]): Error {
  const what = `too many operands for ${command.name}: ${extra.length} more than it takes`;
  return usageError(what, [usageOf(command)]);
}

function usageOf(command: Command): string {
  return `usage: holdfast ${command.name} ${command.operands} [options]`;
}
