/**
 * What may be lost of an existing directory: `--replace`, and the question that
 * `--replace=everything` asks.
 */

import type { LeftDirectory, ProgressEvent, Replace, TargetOptions } from '@holdfast/core/contract';
import type { Call } from './command.ts';
import { confirm, requirePerson } from './confirm.ts';
import { formatBytes, formatPlural, printable } from './format.ts';
import { flag, flagOrWord } from './option.ts';
import { parseReplace } from './values.ts';

export const replace = flagOrWord(
  '--replace [everything]',
  'replace what Holdfast put there; =everything: replace any other files too',
  parseReplace,
);
const apply = flag('--apply', 'with --replace=everything: replace without asking');

export const REPLACE_OPTIONS = [replace, apply] as const;

/** On stderr: an old directory stays beside the new one. */
export function tellLeft(call: Call, { path, reason }: LeftDirectory): void {
  call.messages.warn(`holdfast: the old directory ${printable(path)} stays: ${printable(reason)}`);
}

/** The permanent line of a call that fills a directory: the version, and where its files go. */
export function fillingHeadline(event: ProgressEvent, call: Call): string | null {
  if (event.type === 'left') tellLeft(call, event);
  if (event.type !== 'planned') return null;
  const destination = printable(call.subject.path as string);
  return `version ${event.version} → ${destination}   ${formatPlural(event.fileCount, 'file')}   ${formatBytes(event.sizeBytes)}`;
}

const OTHERWISE = 'pass --apply too if all of it may be deleted';

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
  const which =
    foreignCount === fileCount
      ? 'none of which Holdfast put there'
      : `${foreignCount} of which Holdfast did not put there`;
  const loss = `${printable(directory)} and everything in it will be deleted: ${formatPlural(fileCount, 'file')}, ${which}`;
  if (call.get(apply) === true) call.messages.note(loss);
  else {
    const ask = requirePerson(call, OTHERWISE);
    call.messages.warn(loss);
    await confirm(ask, 'replace it?', call.signal);
  }
  return 'everything';
}
