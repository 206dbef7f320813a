/** Finds runs below a place in a store without reading what they hold. */

import type { CallOptions, ListOptions, ObjectStore } from '../../contract/object-store.ts';
import { catalogPrefix, parseCatalogKey } from '../../format/index.ts';
import { LAST_CHARACTER } from '../../transfer/index.ts';

const NAMES_MAX = 10;
/** Maximum number of list pages of a search. */
const PAGES_MAX = 20;

/**
 * The names of the first ten runs below, relative to the place that `store` was opened for, in key
 * order. A run at the place itself is not included. Cost: one list request for each run, and one
 * per 1,000 keys that belong to no run; at most 20.
 */
export async function findRunsBelow(
  store: Pick<ObjectStore, 'list'>,
  { signal }: CallOptions = {},
): Promise<string[]> {
  const names: string[] = [];
  let startAfter: string | undefined;
  for (let pages = 0; pages < PAGES_MAX && names.length < NAMES_MAX; pages++) {
    const keys = await firstPage(store, '', { startAfter, signal });
    const last = keys.at(-1);
    if (last === undefined) break;
    const name = keys.map(runOf).find((each) => each !== null);
    if (name !== undefined && name !== null) names.push(name);
    startAfter = name === undefined || name === null ? last : `${name}/${LAST_CHARACTER}`;
  }
  return names;
}

/** Whether a run lies at a prefix, which is empty or ends with "/". One list request. */
export async function hasRunAt(
  store: Pick<ObjectStore, 'list'>,
  prefix: string,
  { signal }: CallOptions = {},
): Promise<boolean> {
  const keys = await firstPage(store, `${prefix}${catalogPrefix}`, { signal });
  return keys.some((key) => parseCatalogKey(key.slice(prefix.length)) !== null);
}

async function firstPage(
  store: Pick<ObjectStore, 'list'>,
  prefix: string,
  options: ListOptions,
): Promise<string[]> {
  for await (const { objects } of store.list(prefix, options)) return objects.map(({ key }) => key);
  return [];
}

/** `null`: the key is not a catalog entry of a run below. */
function runOf(key: string): string | null {
  const at = key.lastIndexOf('/catalog/');
  return at > 0 && parseCatalogKey(key.slice(at + 1)) !== null ? key.slice(0, at) : null;
}
