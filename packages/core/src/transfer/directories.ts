/** Names of directories: what lies below a prefix, without what lies in it. */

import { anyText, CheckpointError, checkSome, type ObjectStore, wholeNumber } from '../contract/index.ts';
import { type ObjectOptions, withRecords } from './objects.ts';

/** For a caller without a limit of its own: about 100 MB of names. */
const DIRECTORIES_MAX = 1_000_000;

/**
 * The names of the directories directly below `prefix`, which is empty or ends with '/': what comes
 * before the next '/' in a key, in no order. Retried for a while if a request fails.
 * `InvalidArgument`: the prefix is invalid, or there are more than `countMax` (default: a million).
 * Cost: one request per 1,000 directories and objects directly below. A store without
 * `listDirectories` takes one for each directory, and for each 1,000 objects between directories.
 */
export async function listDirectories(
  store: ObjectStore,
  prefix: string,
  options: ObjectOptions & { readonly countMax?: number | undefined } = {},
): Promise<string[]> {
  anyText('prefix', prefix);
  const { countMax = DIRECTORIES_MAX, ...rest } = options;
  checkSome({ countMax }, { countMax: wholeNumber(1) });
  if (prefix !== '' && !prefix.endsWith('/'))
    throw new CheckpointError('InvalidArgument', 'prefix must be empty or end with "/"');
  return withRecords(store, rest, async ({ records }) => {
    const found: string[] = [];
    for await (const names of records.listDirectories?.(prefix, { signal: rest.signal }) ?? []) {
      found.push(...names);
      if (found.length > countMax) throw tooMany(store, prefix, countMax);
    }
    return found;
  });
}

function tooMany({ uri }: ObjectStore, prefix: string, countMax: number): CheckpointError {
  const message = `more than ${countMax} directories below "${prefix}" of ${uri}; give a prefix with fewer`;
  return new CheckpointError('InvalidArgument', message, { context: { store: uri } });
}
