/** A mutant whose text has changed plants no mistake. The simulation notices it only in minutes. */

import { type Change, placesOf } from '../sim/mutant.ts';
import type { Repository, Rule } from './repository.ts';

const ENGINE = 'packages/core/src';

/** Mutants whose text does not occur exactly once in their file. */
export function mutantsOutOfDate(changes: readonly Change[]): Rule {
  return (repository) => changes.flatMap((change) => faultOf(change, repository));
}

function faultOf(change: Change, repository: Repository): string[] {
  const path = `${ENGINE}/${change.file}`;
  const source = repository.get(path);
  if (source === undefined) return [`${path}: there is no such file; a mutant in test/sim names it`];
  const places = placesOf(change, source);
  if (places === 1) return [];
  return [
    `${path}: the text of a mutant in test/sim is in ${places} places; give one text of one place: ${change.find}`,
  ];
}
