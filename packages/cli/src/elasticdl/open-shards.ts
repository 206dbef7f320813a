/**
 * Finds shards for the ElasticDL commands: in a directory, in a run, or in a store that ElasticDL
 * has written to.
 */

import { stat } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import {
  type Checkpoint,
  CheckpointError,
  type CheckpointReference,
  hasRun,
  isCheckpointError,
  type RunManager,
} from '@holdfast/core/contract';
import type { LatestOptions, OpenFileOptions, Place, ShardSet } from '@holdfast/elasticdl';
import type { Call } from '../command.ts';
import { checkpointOrLatest, givenText, versionOf } from '../common-options.ts';
import { printable } from '../format.ts';
import { nothingToLoad, whyNoVersion, withRun } from '../open-run.ts';
import { usageError } from '../usage-error.ts';
import { isUri } from '../values.ts';
import { noneWhole, type Skipped, tellingOther } from './none-whole.ts';

export interface OpenShardsOptions {
  /** See `withRun`. */
  readonly isPatient: boolean;
  /**
   * Chooses among the checkpoints of a run; then FROM must be a run. Default: the one of
   * `--version`, or the latest.
   */
  readonly choose?: ((manager: RunManager) => Promise<CheckpointReference>) | undefined;
}

/**
 * Opens the shards that FROM names, gives them to `use`, and closes them. Among several versions it
 * takes the one of `--version`, or the newest complete one. A single file is a checkpoint too,
 * unless it is one shard of several (`InvalidArgument`). `NotFound`: nothing exists there.
 * `Corrupt`: there is no complete checkpoint.
 */
export async function withShards<T>(
  call: Call,
  from: string,
  options: OpenShardsOptions,
  use: (set: ShardSet) => Promise<T>,
): Promise<T> {
  const file = await fileAt(from);
  if (file !== null && options.choose) throw noRunToChooseFrom(from);
  if (file !== null) return withFile(call, file, {}, use);
  const { choose = async () => call.get(checkpointOrLatest) ?? 'latest' } = options;
  const found = await withRunAt(call, from, options, (manager) => useRun(call, manager, choose, use));
  if (found !== null) return found.result;
  if (options.choose) throw noRunToChooseFrom(from);
  return withPlace(call, from, async (place) => {
    await using set = await openVersionAt(call, place);
    return await use(set);
  });
}

function noRunToChooseFrom(from: string): CheckpointError {
  const message = `there is no run at ${from}, and only the checkpoints of a run have metrics`;
  return new CheckpointError('NotFound', message, { context: { run: 'missing' } });
}

/**
 * Opens the ElasticDL files at a path or under a URI. `file`: the one that was named. Errors: as
 * for `withShards`; also `InvalidArgument` if a run exists there.
 */
export async function withForeignPlace<T>(
  call: Call,
  from: string,
  use: (place: Place, file: string | null) => Promise<T>,
): Promise<T> {
  const file = await fileAt(from);
  if (file !== null) return withPlace(call, file.directory, (place) => use(place, file.name));
  const found = await withRunAt(call, from, { isPatient: false }, async () => null);
  if (found === null) return withPlace(call, from, (place) => use(place, null));
  throw usageError(`${call.subject.uri} is already a run`, [
    '`holdfast mirror` copies a run, and `holdfast fork` one version of it',
  ]);
}

/** `null`: there is no run. */
async function withRunAt<T>(
  call: Call,
  from: string,
  { isPatient }: OpenShardsOptions,
  use: (manager: RunManager) => Promise<T>,
): Promise<{ readonly result: T } | null> {
  const uri = isUri(from) ? from : pathToFileURL(resolve(from)).href;
  return withRun(call, { uri, isPatient }, async (manager) => {
    return (await hasRun(manager, call)) ? { result: await use(manager) } : null;
  });
}

async function useRun<T>(
  call: Call,
  manager: RunManager,
  choose: (manager: RunManager) => Promise<CheckpointReference | 'latest'>,
  use: (set: ShardSet) => Promise<T>,
): Promise<T> {
  const uri = call.subject.uri as string;
  const given = await choose(manager);
  if (given !== 'latest') call.subject.version = versionOf(given);
  const checkpoint = given === 'latest' ? await manager.latest() : await manager.get(given);
  if (checkpoint === null) {
    if (given === 'latest') throw await nothingToLoad(manager, uri, call);
    throw await whyNoVersion(manager, given, uri, call);
  }
  await using set = await shardsOf(call, checkpoint, () => openOtherOf(call, manager, checkpoint.version));
  return await use(set);
}

async function shardsOf(
  call: Call,
  checkpoint: Checkpoint,
  openOther?: ShardSet['openOther'],
): Promise<ShardSet> {
  const { openCheckpointShards } = await import('@holdfast/elasticdl');
  const where = `version ${checkpoint.version} of ${call.subject.uri}`;
  return openCheckpointShards(checkpoint, { where, openOther, signal: call.signal });
}

/** The next older live checkpoint, otherwise the next newer one; `null`: there is none. */
async function openOtherOf(call: Call, manager: RunManager, version: bigint): Promise<ShardSet | null> {
  const { signal } = call;
  const live = (await manager.list({ signal })).filter((each) => each.state === 'live' && !each.isLeftBehind);
  const other =
    live.find((each) => each.version < version) ?? live.findLast((each) => each.version > version);
  const checkpoint = other === undefined ? null : await manager.get(other.id, { signal });
  return checkpoint === null ? null : shardsOf(call, checkpoint);
}

/** One file of ElasticDL, at a path or in a store. */
interface NamedFile {
  /** A path or a URI. */
  readonly directory: string;
  readonly name: string;
}

/** Distinguishes the name of an object from a prefix. */
const FILE_NAME = /\.ch?kpt([?#]|$)/;

/** `null`: not a file. Throws `NotFound` if the path does not exist. */
export async function fileAt(from: string): Promise<NamedFile | null> {
  const path = localPath(from);
  if (path !== null) {
    return (await isFile(path)) ? { directory: dirname(path), name: basename(path) } : null;
  }
  if (!FILE_NAME.test(from)) return null;
  // The settings after a `?` belong to the store.
  const [, directory = from, name = '', settings = ''] = /^(.*)\/([^/?#]*)([?#].*)?$/.exec(from) ?? [];
  return { directory: directory + settings, name };
}

/** Errors: as for `openShardFile`. */
export async function withFile<T>(
  call: Call,
  { directory, name }: NamedFile,
  options: OpenFileOptions,
  use: (set: ShardSet) => Promise<T>,
): Promise<T> {
  return withPlace(call, directory, async (place) => {
    await using set = await openFileAt(call, place, name, options);
    return await use(set);
  });
}

/** Errors: as for `openShardFile`; `NotFound` if it is not of the version of `--version`. */
export async function openFileAt(
  call: Call,
  place: Place,
  name: string,
  options: OpenFileOptions = {},
): Promise<ShardSet> {
  const { openShardFile } = await import('@holdfast/elasticdl');
  const given = givenVersion(call);
  const set = await openShardFile(place, name, { ...options, signal: call.signal });
  return matching(set, given);
}

/** Opens the ElasticDL files at a path or under a URI, whatever else exists there. */
export async function withPlace<T>(call: Call, from: string, use: (place: Place) => Promise<T>): Promise<T> {
  const { directoryPlace, prefixPlace } = await import('@holdfast/elasticdl');
  const path = localPath(from);
  if (path !== null) return use(directoryPlace(path));
  const { openStore } = await import('@holdfast/stores');
  const store = await openStore(from, call.env);
  call.subject.uri = from;
  try {
    return await use(prefixPlace(store, ''));
  } finally {
    await store.close();
  }
}

/**
 * Opens the shards of a place that is one version or contains some: those of `--version`, or of the
 * newest complete one. Errors: as for `withShards`. `onSkipped`: called with each newer version
 * that cannot be used and the reason; by default it becomes a note.
 */
export async function openVersionAt(
  call: Call,
  place: Place,
  onSkipped: LatestOptions['onSkipped'] = (_, reason) => call.messages.note(`skipped: ${printable(reason)}`),
): Promise<ShardSet> {
  const { findVersions, latestValid, openShards, openVersion } = await import('@holdfast/elasticdl');
  const { signal } = call;
  const given = givenVersion(call);
  const versions = await findVersions(place, { signal });
  if (versions.length === 0) {
    const set = await openShards(place, { signal }).catch((error: unknown) => {
      throw isCheckpointError(error, 'NotFound') ? nothingAt(place, error) : tellingOther(error, null);
    });
    return matching(set, given);
  }
  if (given !== 'latest') {
    return openVersion(place, given, { signal }).catch(async (error: unknown) => {
      if (!isCheckpointError(error, 'Corrupt')) throw error;
      await using other = await latestValid(place, { signal });
      throw tellingOther(error, other?.version ?? null);
    });
  }
  const skipped: Skipped[] = [];
  const note: typeof onSkipped = (found, reason) => {
    skipped.push({ version: found.version, folder: found.folder, reason });
    onSkipped?.(found, reason);
  };
  const set = await latestValid(place, { signal, onSkipped: note });
  if (set === null) throw noneWhole(place, skipped);
  return set;
}

/** ElasticDL's files have no lineage: only a run can roll back. */
function givenVersion(call: Call): bigint | 'latest' {
  const given = call.get(checkpointOrLatest) ?? 'latest';
  if (given === 'latest') return given;
  if (typeof given !== 'object') return versionOf(given);
  throw usageError(`--version ${givenText(given)} names a lineage, and only a run has lineages`, [
    'give the version alone',
  ]);
}

function nothingAt(place: Place, { message }: CheckpointError): CheckpointError {
  const where = place.where('');
  return new CheckpointError('NotFound', `${where} holds neither a run nor a checkpoint of ElasticDL`, {
    context: {
      path: where,
      advice: ['a run has a catalog, and there is none here', message],
    },
  });
}

async function matching(set: ShardSet, given: bigint | 'latest'): Promise<ShardSet> {
  if (given === 'latest' || set.version === given) return set;
  await set.close();
  const is = set.version === null ? 'has no version in its name' : `is version ${set.version}`;
  throw new CheckpointError('NotFound', `${set.where} ${is}, and --version asks for ${given}`, {
    context: { path: set.where, version: given },
  });
}

/** `null`: it is not in a file system of this machine. */
export function localPath(from: string): string | null {
  if (!isUri(from)) return from;
  if (!/^file:/i.test(from)) return null;
  try {
    return fileURLToPath(from.replace(/[?#].*$/, ''));
  } catch {
    return null; // The function that opens it reports the error.
  }
}

/** Tells whether a local path is a file. Throws `NotFound` if it does not exist. */
async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // The function that opens it reports the error.
    if (code !== 'ENOENT' && code !== 'ENOTDIR') return false;
    const { isPath } = await import('@holdfast/stores');
    // Text that does not begin like a path may be a URI that holds a secret.
    if (!isPath(path))
      throw new CheckpointError(
        'NotFound',
        'there is nothing at the given path; put ./ before it to see which path is meant',
      );
    throw new CheckpointError('NotFound', `there is nothing at ${path}`, { context: { path } });
  }
}
