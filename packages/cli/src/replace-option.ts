/**
 * What may be lost of an existing directory: `--replace`, and the question that
 * `--replace=everything` asks.
 */

import type { LeftDirectory, Replace, TargetOptions } from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { confirm, requirePerson } from './confirm.ts';
import { formatPlural, printable } from './format.ts';
import { flag, flagOrWord } from './option.ts';
import { parseReplace } from './values.ts';

export const replace = flagOrWord(
  '--replace [everything]',
  'take the place of what Holdfast has put there; =everything: of any other files too',
  parseReplace,
);
const apply = flag('--apply', 'with --replace=everything: do it without asking');

export const REPLACE_OPTIONS = [replace, apply] as const;

/** On stderr: an old directory stays beside the new one. */
export function tellLeft(call: Call, { path, reason }: LeftDirectory): void {
  call.messages.warn(`holdfast: the old directory ${printable(path)} stays: ${printable(reason)}`);
}

const OTHERWISE = 'pass --apply too if all of it may go';

/**
 * What may be replaced, for `LocalFiles.openTarget`. If files would be lost that Holdfast has not
 * written, it reports their number and asks. `InvalidArgument`: there is no terminal, or the
 * directory is never replaced. `Aborted`: the answer was no.
 */
export async function confirmedReplace(
  call: Call,
  directory: string,
  isOwn?: TargetOptions['isOwn'],
): Promise<Replace> {
  const given = call.get(replace) ?? false;
  if (given !== 'everything') return given;
  const { inspectTarget } = await import('@holdfast/local-files');
  const old = await inspectTarget(directory, { isOwn, signal: call.signal });
  if (old === null || old.foreignCount === 0) return true;
  const { fileCount, foreignCount } = old;
  const which = foreignCount === fileCount ? 'none of which' : `${foreignCount} of which not`;
  const loss = `${printable(directory)} and all in it will go: ${formatPlural(fileCount, 'file')}, ${which} put there by Holdfast`;
  if (call.get(apply) === true) call.messages.note(loss);
  else {
    const ask = requirePerson(call, OTHERWISE);
    call.messages.warn(loss);
    await confirm(ask, 'replace it?', call.signal);
  }
  return 'everything';
}
