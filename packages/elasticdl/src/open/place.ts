/** What ElasticDL has written without an engine: a directory, or a prefix of an object store, that holds versions, or the files of one. */

import {
  CheckpointError,
  checkOptions,
  flag,
  isCheckpointError,
  jsonReady,
  optional,
  type RandomSource,
  rule,
  text,
} from '@holdfast/core/contract';
import { aPlace, SIGNAL } from '../rules.ts';
import type { ShardSet } from '../shard-set.ts';
import { type FoundShards, findShards } from './find-shards.ts';
import { parseModelFile, parseShardFile, parseVersionFolder, versionFolder } from './names.ts';
import { openSet, setOf } from './open-set.ts';

const aVersion = rule((value) => typeof value === 'bigint' && value >= 0n, 'a bigint from 0 on');

export interface Place {
  /** Its own name, without what leads to it. */
  readonly name: string;
  /** For messages: the place itself (`''`), or a folder in it. */
  where(folder: string): string;
  /**
   * Names of the files that lie directly in it (under `''`) and in each folder that is called as a version is, even an empty one. Names that
   * are neither of a shard nor of a whole model may be left out.
   * `NotFound`: no such directory. An object store has no directories: there it is as an empty one.
   */
  list(signal: AbortSignal | undefined): Promise<ReadonlyMap<string, readonly string[]>>;
  /** By folder, where it is in one, and name, joined by '/'. */
  open(name: string, signal: AbortSignal | undefined): Promise<RandomSource>;
  /** What holds it; `null`: not known, or out of reach. */
  parent(): Place | null;
  /** The same as a path of this machine, where it is one. */
  pathOf(name: string): string | undefined;
}

/** `problem` is to be put after the name of the directory. */
export interface FoundVersion extends FoundShards {
  readonly version: bigint;
  /** As it is called there: `version-100`, or `model_v100.chkpt`, which is one file. */
  readonly folder: string;
}

export interface OpenOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface OpenFoundOptions extends OpenOptions {
  /** What else was found there: one of them is what `openOther` of the set opens. */
  readonly versions?: readonly FoundVersion[] | undefined;
}

/**
 * All versions, highest first by number; of two directories of one version, that which ElasticDL would have written comes first. Whatever
 * else lies there is passed over. Looks at names only. Empty too where there is no such directory: no job has saved yet.
 */
export async function findVersions(
  place: Place,
  options: OpenOptions = {},
): Promise<readonly FoundVersion[]> {
  aPlace('place', place);
  checkOptions(options, SIGNAL);
  const { signal } = options;
  const folders = await place.list(signal).catch((error: unknown) => {
    if (isCheckpointError(error, 'NotFound')) return new Map<string, readonly string[]>();
    throw error;
  });
  return jsonReady(versionsIn(folders));
}

/**
 * The shards that lie directly in a place. `NotFound`: there is none, or no such place. `Corrupt`: they are no whole checkpoint; the message
 * says what is there and what is not.
 */
export async function openShards(place: Place, options: OpenOptions = {}): Promise<ShardSet> {
  aPlace('place', place);
  checkOptions(options, SIGNAL);
  const { signal } = options;
  const folders = await place.list(signal);
  const names = folders.get('') ?? [];
  const versions = versionsIn(folders);
  if (versions.length > 0 && findShards(names).shards.length === 0) {
    const message = `${place.where('')} holds versions, and no shard beside them: open one of ${foldersOf(versions)}`;
    throw new CheckpointError('NotFound', message);
  }
  const version = parseVersionFolder(place.name);
  return openSet(
    {
      where: place.where(''),
      version,
      openOther: (until) => openBeside(place, version, until),
      names,
      open: (file) => place.open(file, signal),
      pathOf: (file) => place.pathOf(file),
    },
    signal,
  );
}

export interface OpenFileOptions extends OpenOptions {
  /** Take one shard of several, too: to look at it, since it is no checkpoint. Default false. */
  readonly isPartTaken?: boolean | undefined;
}

/**
 * One file as a checkpoint: of any name, such as `model_v110.chkpt` of 2019, but not one shard of several (`InvalidArgument`). The version is
 * that of its name, else of the directory's. Otherwise as `openShards`.
 */
export async function openShardFile(
  place: Place,
  name: string,
  options: OpenFileOptions = {},
): Promise<ShardSet> {
  aPlace('place', place);
  text('name', name);
  checkOptions(options, { ...SIGNAL, isPartTaken: optional(flag) });
  const { signal, isPartTaken = false } = options;
  const { index, count } = parseShardFile(name) ?? { index: 0, count: 1 };
  const where = place.where(name);
  if (count !== 1 && !isPartTaken) {
    const message = `${where} is one shard of ${count}; open the directory that holds them all`;
    throw new CheckpointError('InvalidArgument', message, { context: { path: where } });
  }
  const folder = parseVersionFolder(place.name);
  const version = parseModelFile(name) ?? folder;
  const openOther = (until: AbortSignal | undefined) => openBeside(place, folder, until);
  return openOneFile(place, { name, index, count, version, openOther }, signal);
}

interface OneFile extends Pick<ShardSet, 'version' | 'openOther'> {
  readonly name: string;
  readonly index?: number;
  readonly count?: number;
}

async function openOneFile(
  place: Place,
  { name, index = 0, count = 1, version, openOther }: OneFile,
  signal: AbortSignal | undefined,
): Promise<ShardSet> {
  const source = await place.open(name, signal);
  const where = place.where(name);
  return setOf({ where, version, openOther }, [{ name, index, count, source, path: place.pathOf(name) }]);
}

/** The shards of one version below a place; errors as `openShards`. `InvalidArgument`: two directories are of this version. */
export async function openVersion(
  place: Place,
  version: bigint,
  options: OpenOptions = {},
): Promise<ShardSet> {
  aPlace('place', place);
  aVersion('version', version);
  checkOptions(options, SIGNAL);
  const { signal } = options;
  const versions = versionsIn(await place.list(signal));
  const [found, second] = versions.filter((each) => each.version === version);
  if (found === undefined) {
    const there = versions.length > 0 ? `it has ${foldersOf(versions)}` : 'it holds no version at all';
    throw new CheckpointError('NotFound', `${place.where('')} has no version ${version}; ${there}`);
  }
  if (second !== undefined) throw twice(place, found, second);
  return openFound(place, found, { signal, versions });
}

/** The shards of one that was found; errors as `openShards`, and `NotFound` if a file is gone since. */
export function openFound(
  place: Place,
  { folder, version, shards }: FoundVersion,
  { signal, versions = [] }: OpenFoundOptions = {},
): Promise<ShardSet> {
  const openOther = (until: AbortSignal | undefined) => openNearest(place, versions, version, until);
  if (parseModelFile(folder) !== null)
    return openOneFile(place, { name: folder, version, openOther }, signal);
  const inside = (name: string) => `${folder}/${name}`;
  return openSet(
    {
      where: place.where(folder),
      version,
      openOther,
      names: shards.map(({ name }) => name),
      open: (name) => place.open(inside(name), signal),
      pathOf: (name) => place.pathOf(inside(name)),
    },
    signal,
  );
}

/** Of a place that is a version itself: another one in what holds it. */
async function openBeside(
  place: Place,
  version: bigint | null,
  signal: AbortSignal | undefined,
): Promise<ShardSet | null> {
  const parent = version === null ? null : place.parent();
  if (parent === null || version === null) return null;
  return openNearest(parent, await findVersions(parent, { signal }), version, signal);
}

/** The next older whole one, else the next newer one. */
async function openNearest(
  place: Place,
  versions: readonly FoundVersion[],
  version: bigint,
  signal: AbortSignal | undefined,
): Promise<ShardSet | null> {
  const whole = versions.filter((each) => each.problem === null && each.version !== version);
  const nearest =
    whole.find((each) => each.version < version) ?? whole.findLast((each) => each.version > version);
  return nearest === undefined ? null : openFound(place, nearest, { signal });
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
  for (const name of folders.get('') ?? []) {
    const version = parseModelFile(name);
    if (version === null) continue;
    found.push({ version, folder: name, shards: [{ name, index: 0, count: 1 }], problem: null });
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
