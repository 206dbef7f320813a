/** Names of directories: what lies below a prefix, without what lies in it. */

import { anyText, type CallOptions, CheckpointError, type ObjectStore } from '../contract/index.ts';
import { type ObjectOptions, withRecords } from './objects.ts';

/** Appended to a directory, it sorts after every key below that directory. */
export const LAST_CHARACTER = '\u{10ffff}';

/** For a store without limits of its own: about 100 MB of names. */
const DIRECTORIES_MAX = 1_000_000;

/**
 * The names of the directories directly below `prefix`, which is empty or ends with '/': what comes
 * before the next '/' in a key. Retried for a while if a request fails. `InvalidArgument`: the
 * prefix is invalid, or there are more than `countMax` (default: a million). Cost: one request for
 * each directory, and for each 1,000 objects between directories.
 */
export async function listDirectories(
  store: ObjectStore,
  prefix: string,
  options: ObjectOptions & { readonly countMax?: number | undefined } = {},
): Promise<string[]> {
  anyText('prefix', prefix);
  if (prefix !== '' && !prefix.endsWith('/'))
    throw new CheckpointError('InvalidArgument', 'prefix must be empty or end with "/"');
  const { countMax = DIRECTORIES_MAX, ...rest } = options;
  return withRecords(store, rest, async ({ records }) => {
    const names: string[] = [];
    for await (const name of directoriesBelow(records, prefix, rest)) {
      if (names.length === countMax) throw tooMany(store, prefix, countMax);
      names.push(name);
    }
    return names;
  });
}

/** See `listDirectories`. In the order of the keys. */
export async function* directoriesBelow(
  store: Pick<ObjectStore, 'list'>,
  prefix: string,
  { signal }: CallOptions,
): AsyncGenerator<string, void, void> {
  for (let startAfter: string | undefined; ; ) {
    const found = await firstDirectory(store, prefix, { startAfter, signal });
    if (found === null) return;
    yield found;
    startAfter = `${prefix}${found}/${LAST_CHARACTER}`;
  }
}

async function firstDirectory(
  store: Pick<ObjectStore, 'list'>,
  prefix: string,
  options: CallOptions & { readonly startAfter: string | undefined },
): Promise<string | null> {
  for await (const { objects } of store.list(prefix, options)) {
    for (const { key } of objects) {
      const end = key.indexOf('/', prefix.length);
      if (end > prefix.length) return key.slice(prefix.length, end);
    }
  }
  return null;
}

function tooMany({ uri }: ObjectStore, prefix: string, countMax: number): CheckpointError {
  const message = `more than ${countMax} directories below "${prefix}" of ${uri}; give a prefix with fewer`;
  return new CheckpointError('InvalidArgument', message, { context: { store: uri } });
}
