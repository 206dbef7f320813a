import { listObjects, type ObjectOptions, openObjectSource } from '@holdfast/core';
import {
  anyText,
  aStore,
  checkSome,
  type ObjectStore,
  plainObject,
  type Rules,
} from '@holdfast/core/contract';
import { SIGNAL } from '../rules.ts';
import type { ShardSet } from '../shard-set.ts';
import { parseVersionFolder } from './names.ts';
import { openShards, type Place } from './place.ts';

/** `openObjectSource` checks the other options. */
const SIGNAL_OF_STORE: Rules<Pick<ObjectOptions, 'signal'>> = SIGNAL;

/** 10,000 versions of 100 shards. A listed object takes about 200 bytes of memory. */
const OBJECTS_MAX = 1_000_000;

/**
 * Opens the shards below a prefix (`ckpt/version-100`; `''`: the whole store), written there by
 * ElasticDL or copied. See `openShards` for errors. Keep the store open until the set is closed;
 * closing the set does not close it.
 */
export function openPrefixShards(
  store: ObjectStore,
  prefix: string,
  options: ObjectOptions = {},
): Promise<ShardSet> {
  checkSome(options, SIGNAL_OF_STORE);
  return openShards(prefixPlace(store, prefix, options), options);
}

/**
 * A prefix of an object store: of one version, or of all. Reads nothing yet. Listing takes one
 * request per 1,000 objects, and fails with `InvalidArgument` above 1,000,000.
 */
export function prefixPlace(
  store: ObjectStore,
  prefix: string,
  options: Omit<ObjectOptions, 'signal'> = {},
): Place {
  aStore('store', store);
  anyText('prefix', prefix);
  plainObject('options', options);
  const root = prefix.replace(/^\/+|\/+$/g, '');
  const keyOf = (name: string) => [root, name].filter((part) => part !== '').join('/');
  return {
    name: lastSegment(root) || lastSegment(store.uri.replace(/[?#].*$/, '')),
    where: (folder) => (keyOf(folder) === '' ? store.uri : `${keyOf(folder)} in ${store.uri}`),
    open: (name, signal) => openObjectSource(store, keyOf(name), { ...options, signal }),
    pathOf: () => undefined,
    parent: () => (root === '' ? null : prefixPlace(store, root.replace(/\/?[^/]*$/, ''), options)),
    async list(signal) {
      const below = root === '' ? '' : `${root}/`;
      const objects = await listObjects(store, below, { ...options, signal, countMax: OBJECTS_MAX });
      return byFolder(objects.map(({ key }) => key.slice(below.length)));
    },
  };
}

function lastSegment(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

function byFolder(names: readonly string[]): ReadonlyMap<string, readonly string[]> {
  const folders = new Map<string, string[]>([['', []]]);
  for (const name of names) {
    const start = name.lastIndexOf('/') + 1;
    const folder = name.slice(0, Math.max(0, start - 1));
    if (start > 0 && parseVersionFolder(folder) === null) continue;
    const found = folders.get(folder);
    if (found) found.push(name.slice(start));
    else folders.set(folder, [name.slice(start)]);
  }
  return folders;
}
