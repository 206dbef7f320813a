import type { Call } from '../command.ts';
import { uriFromEnvironment } from '../env.ts';
import { value } from '../option.ts';
import { usageError } from '../usage-error.ts';
import { parseWhole } from '../values.ts';

export const runsAtOnce = value(
  '--concurrency <n>',
  'runs of one place that are read at a time; default 32',
  parseWhole(1, 256),
);

/** `URI...`, at least one, each once. With HOLDFAST_URI set they may be omitted. */
export function takePlaces({ command, operands, env }: Call): readonly string[] {
  const fromEnvironment = uriFromEnvironment(env);
  const uris = operands.length > 0 ? operands : fromEnvironment === null ? [] : [fromEnvironment];
  const usage = `usage: holdfast ${command.name} ${command.operands} [options]`;
  if (uris.length === 0)
    throw usageError(`${command.name} needs a URI`, [usage, 'HOLDFAST_URI is used if the URI is omitted']);
  if (new Set(uris).size < uris.length) throw usageError(`${command.name} was given a URI twice`, [usage]);
  return uris;
}
