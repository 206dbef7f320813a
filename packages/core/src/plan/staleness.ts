/**
 * Detects files that look unchanged since the last checkpoint: a trainer may save the same
 * directory again and again although it no longer writes to it, or writes something else. Pure.
 */

import { CheckpointError } from '../contract/errors.ts';
import type { FileRecord } from '../format/index.ts';
import { assertQuick, matcherOf } from './globs.ts';
import { haveSameBytes, type RecordedBytes } from './same-content.ts';

/** The compared properties of a file. */
export type Compared = RecordedBytes & Pick<FileRecord, 'name'>;

const NAMES_MAX = 3;
const SIZE_FACTOR_MAX = 2;

/** A file now, and the file of that name in the last checkpoint. */
interface Pair {
  readonly now: Compared;
  readonly before: Compared | undefined;
}

/**
 * Texts for what is suspicious about the files of one writer, at most two. `before`: all files of
 * checkpoint `version`, the last one. `shouldChange`: globs of files that are suspect individually.
 * Without globs, unchanged files are suspect only if all are unchanged. With or without globs,
 * files are suspect if all that existed before have more than doubled or halved their sizes.
 */
export function findSuspicions(
  files: readonly Compared[],
  last: { readonly version: bigint; readonly files: readonly Compared[] },
  shouldChange: readonly string[] | undefined,
): string[] {
  const byName = new Map(last.files.map((file) => [file.name, file]));
  const pairs = files.map((now) => ({ now, before: byName.get(now.name) }));
  const since = `since version ${last.version}`;
  const unchanged =
    shouldChange === undefined || shouldChange.length === 0
      ? allUnchanged(pairs, since)
      : someUnchanged(pairs, changeMatcherOf(shouldChange), since);
  return [unchanged, allResized(pairs, since)].filter((suspicion) => suspicion !== null);
}

/** `InvalidArgument` names an invalid glob, or one that would take too long. */
export function checkGlobs(globs: readonly string[]): void {
  for (const glob of globs) {
    if (typeof glob !== 'string' || bare(glob) === '')
      throw new CheckpointError(
        'InvalidArgument',
        `${JSON.stringify(glob)} is not a glob of files that should change`,
      );
    assertQuick(glob);
  }
}

function bare(glob: string): string {
  return glob.startsWith('!') ? glob.slice(1) : glob;
}

/**
 * Globs include, and those that begin with `!` exclude. If no glob includes, all files are
 * included.
 */
function changeMatcherOf(globs: readonly string[]): (name: string) => boolean {
  const excluding = globs.filter((glob) => glob.startsWith('!'));
  const including = globs.filter((glob) => !glob.startsWith('!'));
  const isIncluded = including.length === 0 ? () => true : matcherOf(including);
  const isExcluded = excluding.length === 0 ? () => false : matcherOf(excluding.map(bare));
  return (name) => isIncluded(name) && !isExcluded(name);
}

function someUnchanged(
  pairs: readonly Pair[],
  shouldChange: (name: string) => boolean,
  since: string,
): string | null {
  const names = pairs
    .filter((pair) => isUnchanged(pair) && shouldChange(pair.now.name))
    .map(({ now }) => now.name);
  if (names.length === 0) return null;
  const more = names.length > NAMES_MAX ? ` and ${names.length - NAMES_MAX} more` : '';
  return `should have changed ${since} and did not: ${names.slice(0, NAMES_MAX).join(', ')}${more}`;
}

function allUnchanged(pairs: readonly Pair[], since: string): string | null {
  if (!pairs.every(isUnchanged) || pairs.every(({ now }) => now.sizeBytes === 0)) return null;
  return pairs.length === 1
    ? `the only file, ${pairs[0]?.now.name}, has not changed ${since}`
    : `none of the ${pairs.length} files has changed ${since}`;
}

function allResized(pairs: readonly Pair[], since: string): string | null {
  const inBoth = pairs.filter(({ before }) => before !== undefined);
  if (inBoth.length === 0 || !inBoth.every(isResized)) return null;
  const [first] = inBoth as [Pair];
  const sizes = `from ${first.before?.sizeBytes} to ${first.now.sizeBytes} bytes`;
  return inBoth.length === 1
    ? `${first.now.name} has more than doubled or halved its size ${since}, ${sizes}`
    : `all ${inBoth.length} files have more than doubled or halved their sizes ${since}: ${first.now.name} ${sizes}`;
}

function isResized({ now, before }: Pair): boolean {
  const sizes = [now.sizeBytes, before?.sizeBytes ?? 0];
  return Math.max(...sizes) > SIZE_FACTOR_MAX * Math.min(...sizes);
}

function isUnchanged({ now, before }: Pair): boolean {
  return before !== undefined && haveSameBytes(now, before);
}
