/** Options of a save that describe the state its bytes belong to. */

import type { SaveOptions } from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { value } from './option.ts';
import { usageError } from './usage-error.ts';
import { BadValue, parseVersion } from './values.ts';

const consistency = value(
  '--consistency <how>',
  'polluted: training continues during the save, so the bytes are not of a single moment; `show` reports it',
  parseConsistency,
  ['polluted'],
);
const stateVersion = value(
  '--state-version <n>',
  "with --consistency: the version of this writer's state; default: that of the checkpoint",
  parseVersion,
);

export const CONSISTENCY_OPTIONS = [consistency, stateVersion] as const;

function parseConsistency(text: string): 'polluted' {
  if (text === 'polluted') return text;
  const why = text === 'paused' ? '; a command cannot pause the training, but `save` of the library can' : '';
  throw new BadValue(`"${text}" is not accepted; write polluted${why}`);
}

/** Throws `InvalidArgument` for a version of the state without --consistency. */
export function consistencyOf(call: Call): Pick<SaveOptions, 'consistency' | 'stateVersion'> {
  const given = call.get(stateVersion);
  const how = call.get(consistency);
  if (given !== undefined && how === undefined) {
    throw usageError('--state-version needs --consistency polluted', [
      'a save without --consistency records no state version',
    ]);
  }
  return { consistency: how, stateVersion: given };
}
