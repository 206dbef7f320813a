/** Finds runs below a place in a store without reading what they hold. */

import { atATime } from '../../contract/at-a-time.ts';
import type { CallOptions, ObjectStore } from '../../contract/object-store.ts';
import { catalogPrefix, parseCatalogKey } from '../../format/index.ts';

type Listings = Pick<ObjectStore, 'list' | 'listDirectories'>;

const NAMES_MAX = 10;
const REQUESTS_MAX = 32;
const REQUESTS_AT_ONCE = 8;

export interface RunsBelow {
  /** The first ten that were found, relative to the place that the store was opened for. */
  readonly names: string[];
  /** Nothing was left out but runs after the first ten. */
  readonly isWhole: boolean;
}

/**
 * Level by level, so that runs near the place are found first. A run at the place itself is not
 * included, and directories inside a run are not searched. Cost: one list request for each run, and
 * two for each other directory; about `requestsMax` at most, eight at once.
 */
export async function findRunsBelow(
  store: Listings,
  { signal, requestsMax = REQUESTS_MAX }: CallOptions & { readonly requestsMax?: number } = {},
): Promise<RunsBelow> {
  const names: string[] = [];
  let { names: level, isWhole } = await directoriesAt(store, '', signal);
  for (let requests = 1; level.length > 0 && names.length < NAMES_MAX; ) {
    const looked = level.slice(0, Math.ceil(Math.max(0, requestsMax - requests) / 2));
    isWhole &&= looked.length === level.length;
    const found = await atATime(looked, REQUESTS_AT_ONCE, async (name) => {
      const isRun = await hasRunAt(store, `${name}/`, { signal });
      return { name, below: isRun ? null : await directoriesAt(store, `${name}/`, signal) };
    });
    level = [];
    for (const { name, below } of found) {
      requests += below === null ? 1 : 2;
      if (below === null) names.push(name);
      else level.push(...below.names.map((each) => `${name}/${each}`));
      isWhole &&= below?.isWhole ?? true;
    }
  }
  return { names: names.slice(0, NAMES_MAX), isWhole };
}

/** Only the first page. */
async function directoriesAt(
  store: Listings,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<{ readonly names: string[]; readonly isWhole: boolean }> {
  let first: readonly string[] | undefined;
  for await (const names of store.listDirectories?.(prefix, { signal }) ?? []) {
    if (first !== undefined) return { names: [...first], isWhole: names.length === 0 };
    first = names;
  }
  return { names: [...(first ?? [])], isWhole: true };
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
