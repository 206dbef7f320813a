/** Finds runs below a place in a store without reading what they hold. */

import type { CallOptions, ObjectStore } from '../../contract/object-store.ts';
import { catalogPrefix, parseCatalogKey } from '../../format/index.ts';

type Listings = Pick<ObjectStore, 'list' | 'listDirectories'>;

const NAMES_MAX = 10;
/** Maximum number of list requests of a search. */
const REQUESTS_MAX = 32;

/**
 * The names of the first ten runs below, relative to the place that `store` was opened for. A run
 * at the place itself is not included, and directories inside a run are not searched. Cost: one
 * list request for each run, and two for each other directory; about 32 at most.
 */
export async function findRunsBelow(store: Listings, { signal }: CallOptions = {}): Promise<string[]> {
  const names: string[] = [];
  const waiting = (await directoriesAt(store, '', signal)).reverse();
  for (let requests = 1; requests < REQUESTS_MAX && names.length < NAMES_MAX; requests += 1) {
    const name = waiting.pop();
    if (name === undefined) break;
    const prefix = `${name}/`;
    if (await hasRunAt(store, prefix, { signal })) {
      names.push(name);
      continue;
    }
    const below = await directoriesAt(store, prefix, signal);
    waiting.push(...below.map((each) => prefix + each).reverse());
    requests += 1;
  }
  return names;
}

/** The first page is enough: the search visits fewer directories. */
async function directoriesAt(
  store: Listings,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  for await (const names of store.listDirectories?.(prefix, { signal }) ?? []) return [...names];
  return [];
}

/** Whether a run lies at a prefix, which is empty or ends with "/". One list request. */
export async function hasRunAt(
  store: Pick<ObjectStore, 'list'>,
  prefix: string,
  { signal }: CallOptions = {},
): Promise<boolean> {
  for await (const { objects } of store.list(`${prefix}${catalogPrefix}`, { signal }))
    return objects.some(({ key }) => parseCatalogKey(key.slice(prefix.length)) !== null);
  return false;
}
