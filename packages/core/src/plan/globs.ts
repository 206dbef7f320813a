/** Matches names against globs: `*`, `**`, `?`, `[abc]` and `{a,b}`. */

import picomatch from 'picomatch';
import { CheckpointError } from '../contract/errors.ts';

/**
 * The time to match a name grows with its length to the power of these counts. With four stars, a
 * name of 255 letters takes about a second at worst.
 */
const STARS_MAX = 4;
const GLOBSTARS_MAX = 3;
const LENGTH_MAX = 4096;

/**
 * Whether a name matches one of the globs. A name that begins with a dot needs no dot in the glob.
 * `InvalidArgument`: as in `assertQuick`.
 */
export function matcherOf(globs: readonly string[]): (name: string) => boolean {
  for (const glob of globs) assertQuick(glob);
  return picomatch([...globs], { dot: true, nonegate: true, noextglob: true });
}

/** Chooses names by globs. */
export interface Chooser {
  /** Whether the name matches one of the globs. */
  matches(name: string): boolean;
  /** The first glob that no name so far has matched. */
  unused(): string | undefined;
}

/** `InvalidArgument`: as in `assertQuick`. */
export function chooserOf(globs: readonly string[]): Chooser {
  const isChosen = matcherOf(globs);
  const unused = new Map(globs.map((glob) => [glob, matcherOf([glob])]));
  return {
    matches(name) {
      if (!isChosen(name)) return false;
      for (const [glob, matches] of unused) if (matches(name)) unused.delete(glob);
      return true;
    },
    unused: () => unused.keys().next().value,
  };
}

/** `InvalidArgument`: the glob would take too long with some names. */
export function assertQuick(glob: string): void {
  const parts = glob.split('/');
  const starsOf = (part: string) => part.match(/\*+/g)?.length ?? 0;
  const isQuick =
    glob.length <= LENGTH_MAX &&
    parts.every((part) => starsOf(part) <= STARS_MAX) &&
    parts.filter((part) => part.includes('**')).length <= GLOBSTARS_MAX;
  if (isQuick) return;
  const shown = JSON.stringify(glob.length > 80 ? `${glob.slice(0, 80)}…` : glob);
  throw new CheckpointError(
    'InvalidArgument',
    `the glob ${shown} would take too long: it takes at most ${STARS_MAX} stars between two slashes, ${GLOBSTARS_MAX} parts with ** and ${LENGTH_MAX} characters`,
  );
}
