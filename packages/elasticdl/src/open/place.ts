/**
 * Versions that ElasticDL has written to a directory or to a prefix of an object store, or the
 * files of one version.
 */

import {
  CheckpointError,
  checkSome,
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
  /** Last segment of its path. */
  readonly name: string;
  /** For messages: the place itself (`''`), or a folder in it. */
  where(folder: string): string;
  /**
   * Names of the files directly in the place, under `''`, and in each folder that is named like a
   * version. Empty folders are included. Names that are neither of a shard nor of a whole model may
   * be omitted. `NotFound`: the directory does not exist. An object store has no directories: there
   * a missing one is empty.
   */
  list(signal: AbortSignal | undefined): Promise<ReadonlyMap<string, readonly string[]>>;
  /** `name`: the file name, with folder and '/' before it if it is in a folder. */
  open(name: string, signal: AbortSignal | undefined): Promise<RandomSource>;
  /** The directory or prefix that contains it; `null` if that is unknown or out of reach. */
  parent(): Place | null;
  /** The path on this machine, if the place is on this machine. */
  pathOf(name: string): string | undefined;
}

/** `problem` is worded to follow the name of the directory. */
export interface FoundVersion extends FoundShards {
  readonly version: bigint;
  /** Its name there: `version-100`, or `model_v100.chkpt`, which is one file. */
  readonly folder: string;
}

export interface OpenOptions {
  readonly signal?: AbortSignal | undefined;
}

export interface OpenFoundOptions extends OpenOptions {
  /** Other versions found there; `openOther` of the set opens one of them. */
  readonly versions?: readonly FoundVersion[] | undefined;
}

/**
 * All versions, highest first. If two directories are of one version, the one with ElasticDL's
 * usual name comes first. Everything else is ignored. Reads names only. Empty if the directory does
 * not exist, because no job has saved yet.
 */
export async function findVersions(
  place: Place,
  options: OpenOptions = {},
): Promise<readonly FoundVersion[]> {
  aPlace('place', place);
  checkSome(options, SIGNAL);
  const { signal } = options;
  const folders = await place.list(signal).catch((error: unknown) => {
    if (isCheckpointError(error, 'NotFound')) return new Map<string, readonly string[]>();
    throw error;
  });
  return jsonReady(versionsIn(folders));
}

/**
 * Opens the shards directly in a place. `NotFound`: there are none, or the place does not exist.
 * `Corrupt`: they are not a whole checkpoint; the message says which are there and which are
 * missing.
 */
export async function openShards(place: Place, options: OpenOptions = {}): Promise<ShardSet> {
  aPlace('place', place);
  checkSome(options, SIGNAL);
  const { signal } = options;
  const folders = await place.list(signal);
  const names = folders.get('') ?? [];
  const versions = versionsIn(folders);
  if (versions.length > 0 && findShards(names).shards.length === 0) {
    const message = `${place.where('')} holds versions and no shard of its own: open one of ${foldersOf(versions)}`;
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
  /**
   * Accept one shard of several too, for inspection, although it is not a whole checkpoint. Default
   * false.
   */
  readonly isPartTaken?: boolean | undefined;
}

/**
 * Opens one file as a checkpoint. It may have any name, such as `model_v110.chkpt` of 2019, but
 * must not be one shard of several (`InvalidArgument`). The version is that of the file's name,
 * otherwise that of the directory's. Other errors as `openShards`.
 */
export async function openShardFile(
  place: Place,
  name: string,
  options: OpenFileOptions = {},
): Promise<ShardSet> {
  aPlace('place', place);
  text('name', name);
  checkSome(options, { ...SIGNAL, isPartTaken: optional(flag) });
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

/**
 * Opens the shards of one version below a place; errors as `openShards`. `InvalidArgument`: two
 * directories are of this version.
 */
export async function openVersion(
  place: Place,
  version: bigint,
  options: OpenOptions = {},
): Promise<ShardSet> {
  aPlace('place', place);
  aVersion('version', version);
  checkSome(options, SIGNAL);
  const { signal } = options;
  const versions = versionsIn(await place.list(signal));
  const [found, second] = versions.filter((each) => each.version === version);
  if (found === undefined) {
    const there = versions.length > 0 ? `it has ${foldersOf(versions)}` : 'it holds no version';
    throw new CheckpointError('NotFound', `${place.where('')} has no version ${version}; ${there}`);
  }
  if (second !== undefined) throw twice(place, found, second);
  return openFound(place, found, { signal, versions });
}

/**
 * Opens the shards of a version that was found. Errors as `openShards`, and `NotFound` if a file
 * was deleted since.
 */
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

/** For a place that is itself a version: opens another version from its parent. */
async function openBeside(
  place: Place,
  version: bigint | null,
  signal: AbortSignal | undefined,
): Promise<ShardSet | null> {
  const parent = version === null ? null : place.parent();
  if (parent === null || version === null) return null;
  return openNearest(parent, await findVersions(parent, { signal }), version, signal);
}

/** Opens the next older whole version, or the next newer one if there is none. */
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
  const message = `${place.where('')} has version ${a.version} twice: ${a.folder} and ${b.folder}; open one of them by its name`;
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
