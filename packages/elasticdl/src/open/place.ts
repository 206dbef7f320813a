/** What ElasticDL has written without an engine: a directory, or a prefix of an object store, that holds versions, or the files of one. */

import { CheckpointError, isCheckpointError, type RandomSource } from '@holdfast/core/contract';
import type { ShardSet } from '../shard-set.ts';
import { type FoundShards, findShards } from './find-shards.ts';
import { parseVersionFolder, versionFolder } from './names.ts';
import { openSet } from './open-set.ts';

export interface Place {
  /** Its own name, without what leads to it. */
  readonly name: string;
  /** For messages: the place itself (`''`), or a folder in it. */
  where(folder: string): string;
  /**
   * Names of the files that lie directly in it (under `''`) and in each folder that is called as a version is, even an empty one.
   * `NotFound`: no such directory. An object store has no directories: there it is as an empty one.
   */
  list(signal: AbortSignal | undefined): Promise<ReadonlyMap<string, readonly string[]>>;
  /** By folder, where it is in one, and name, joined by '/'. */
  open(name: string, signal: AbortSignal | undefined): Promise<RandomSource>;
  /** The same as a path of this machine, where it is one. */
  pathOf(name: string): string | undefined;
}

/** `problem` is to be put after the name of the directory. */
export interface FoundVersion extends FoundShards {
  readonly version: bigint;
  /** As it is called there: `version-100`. */
  readonly folder: string;
}

export interface OpenOptions {
  readonly signal?: AbortSignal | undefined;
}

/**
 * All versions, highest first by number; of two directories of one version, that which ElasticDL would have written comes first. Whatever
 * else lies there is passed over. Looks at names only. Empty too where there is no such directory: no job has saved yet.
 */
export async function findVersions(
  place: Place,
  { signal }: OpenOptions = {},
): Promise<readonly FoundVersion[]> {
  const folders = await place.list(signal).catch((error: unknown) => {
    if (isCheckpointError(error, 'NotFound')) return new Map<string, readonly string[]>();
    throw error;
  });
  return versionsIn(folders);
}

/**
 * The shards that lie directly in a place. `NotFound`: there is none, or no such place. `Corrupt`: they are no whole checkpoint; the message
 * says what is there and what is not.
 */
export async function openShards(place: Place, { signal }: OpenOptions = {}): Promise<ShardSet> {
  const folders = await place.list(signal);
  const names = folders.get('') ?? [];
  const versions = versionsIn(folders);
  if (versions.length > 0 && findShards(names).shards.length === 0) {
    const message = `${place.where('')} holds versions, and no shard beside them: open one of ${foldersOf(versions)}`;
    throw new CheckpointError('NotFound', message);
  }
  const { name } = place;
  return openSet(
    {
      where: place.where(''),
      version: parseVersionFolder(name),
      names,
      open: (file) => place.open(file, signal),
      pathOf: (file) => place.pathOf(file),
    },
    signal,
  );
}

/** The shards of one version below a place; errors as `openShards`. `InvalidArgument`: two directories are of this version. */
export async function openVersion(
  place: Place,
  version: bigint,
  { signal }: OpenOptions = {},
): Promise<ShardSet> {
  const versions = versionsIn(await place.list(signal));
  const [found, second] = versions.filter((each) => each.version === version);
  if (found === undefined) {
    const there = versions.length > 0 ? `it has ${foldersOf(versions)}` : 'it holds no version at all';
    throw new CheckpointError('NotFound', `${place.where('')} has no version ${version}; ${there}`);
  }
  if (second !== undefined) throw twice(place, found, second);
  return openFound(place, found, { signal });
}

/** The shards of one that was found; errors as `openShards`, and `NotFound` if a file is gone since. */
export function openFound(
  place: Place,
  { folder, version, shards }: FoundVersion,
  { signal }: OpenOptions = {},
): Promise<ShardSet> {
  const inside = (name: string) => `${folder}/${name}`;
  return openSet(
    {
      where: place.where(folder),
      version,
      names: shards.map(({ name }) => name),
      open: (name) => place.open(inside(name), signal),
      pathOf: (name) => place.pathOf(inside(name)),
    },
    signal,
  );
}

export function twice(place: Place, a: FoundVersion, b: FoundVersion): CheckpointError {
  const message = `${place.where('')} has version ${a.version} twice: ${a.folder} and ${b.folder}; open the right one by its own name`;
  return new CheckpointError('InvalidArgument', message);
}

function versionsIn(folders: ReadonlyMap<string, readonly string[]>): FoundVersion[] {
  const found: FoundVersion[] = [];
  for (const [folder, names] of folders) {
    const version = parseVersionFolder(folder);
    if (version !== null) found.push({ version, folder, ...findShards(names) });
  }
  return found.sort(newestFirst);
}

function newestFirst(a: FoundVersion, b: FoundVersion): number {
  if (a.version !== b.version) return a.version < b.version ? 1 : -1;
  const usual = versionFolder(a.version);
  if (a.folder === usual || b.folder === usual) return a.folder === usual ? -1 : 1;
  return a.folder < b.folder ? -1 : 1;
}

const NAMED_MAX = 5;

function foldersOf(versions: readonly FoundVersion[]): string {
  const named = versions.slice(0, NAMED_MAX).map(({ folder }) => folder);
  return named.join(', ') + (versions.length > NAMED_MAX ? ` and ${versions.length - NAMED_MAX} more` : '');
}
