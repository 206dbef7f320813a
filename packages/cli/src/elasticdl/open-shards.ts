/** Where the commands for ElasticDL find shards: a directory, a run, or what ElasticDL has written into a store. */

import { stat } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { CheckpointError, type CheckpointManager, isCheckpointError } from '@holdfast/core/contract';
import type { Place, ShardSet } from '@holdfast/elasticdl';
import type { Call } from '../command.ts';
import { versionOrLatest } from '../common-options.ts';
import { emptyRun, withRun } from '../open-run.ts';
import { usageError } from '../usage-error.ts';

export interface OpenShardsOptions {
  /** See `withRun`. */
  readonly isPatient: boolean;
}

/**
 * Opens the shards that FROM names, gives them to `use`, and closes them. Of several versions it is that of `--version`, or the newest whole one.
 * `NotFound`: nothing is there. `Corrupt`: what is there is no whole checkpoint. `InvalidArgument`: FROM is a file.
 */
export async function withShards<T>(
  call: Call,
  from: string,
  options: OpenShardsOptions,
  use: (set: ShardSet) => Promise<T>,
): Promise<T> {
  const path = localPath(from);
  if (path !== null && (await isFile(path))) {
    throw usageError(`${from} is a file, and this takes whole checkpoints`, [
      'give the directory in which the shards lie',
    ]);
  }
  if (!isUri(from)) {
    const { directoryPlace } = await import('@holdfast/elasticdl');
    return usePlace(call, directoryPlace(from), use);
  }
  const found = await withRun(call, { uri: from, isPatient: options.isPatient }, async (manager) => {
    const isRun = (await manager.log({ limit: 1, signal: call.signal })).length > 0;
    return isRun ? { result: await useRun(call, manager, use) } : null;
  });
  return found === null ? useForeign(call, from, use) : found.result;
}

async function useRun<T>(
  call: Call,
  manager: CheckpointManager,
  use: (set: ShardSet) => Promise<T>,
): Promise<T> {
  const uri = call.subject.uri as string;
  const given = call.get(versionOrLatest) ?? 'latest';
  if (given !== 'latest') call.subject.version = given;
  const checkpoint = given === 'latest' ? await manager.latest() : await manager.get(given);
  if (checkpoint === null) {
    if (given === 'latest') throw emptyRun(uri);
    throw new CheckpointError('NotFound', `no version ${given} in ${uri}`, {
      context: { store: uri, version: given },
    });
  }
  const { openCheckpointShards } = await import('@holdfast/elasticdl');
  const where = `version ${checkpoint.version} of ${uri}`;
  await using set = await openCheckpointShards(checkpoint, { where, signal: call.signal });
  return await use(set);
}

/** A store without a run: whatever ElasticDL has put there. */
async function useForeign<T>(call: Call, uri: string, use: (set: ShardSet) => Promise<T>): Promise<T> {
  return withForeignPlace(call, uri, async (place) => {
    await using set = await openAt(call, place).catch((error: unknown) => {
      throw isCheckpointError(error, 'NotFound') ? nothingAt(call.subject.uri as string, error) : error;
    });
    return await use(set);
  });
}

/** What lies under a URI, taken as files of ElasticDL. */
export async function withForeignPlace<T>(
  call: Call,
  uri: string,
  use: (place: Place) => Promise<T>,
): Promise<T> {
  const { directoryPlace, prefixPlace } = await import('@holdfast/elasticdl');
  const path = localPath(uri);
  if (path !== null) return use(directoryPlace(path));
  const { openStore, redactUri } = await import('@holdfast/stores');
  call.subject.uri = redactUri(uri);
  const store = await openStore(uri, call.env);
  try {
    return await use(prefixPlace(store, ''));
  } finally {
    await store.close();
  }
}

function nothingAt(uri: string, { message }: CheckpointError): CheckpointError {
  return new CheckpointError('NotFound', `${uri} holds neither a run nor a checkpoint of ElasticDL`, {
    context: {
      store: uri,
      advice: ['no catalog of a run was found there', message, 'check the URI'],
    },
  });
}

async function usePlace<T>(call: Call, place: Place, use: (set: ShardSet) => Promise<T>): Promise<T> {
  await using set = await openAt(call, place);
  return await use(set);
}

/** The shards at a place that is one version, or holds some. */
async function openAt(call: Call, place: Place): Promise<ShardSet> {
  const { findVersions, openFound, openShards, openVersion } = await import('@holdfast/elasticdl');
  const { signal } = call;
  const given = call.get(versionOrLatest) ?? 'latest';
  const versions = await findVersions(place, { signal });
  if (versions.length === 0) return matching(await openShards(place, { signal }), given);
  if (given !== 'latest') return openVersion(place, given, { signal });
  for (const found of versions) {
    if (found.problem === null) return openFound(place, found, { signal });
    call.messages.note(`passed over: ${place.where(found.folder)} ${found.problem}`);
  }
  throw new CheckpointError('Corrupt', `${place.where('')} holds no whole version`, {
    context: { path: place.where('') },
  });
}

async function matching(set: ShardSet, given: bigint | 'latest'): Promise<ShardSet> {
  if (given === 'latest' || set.version === given) return set;
  await set.close();
  const is = set.version === null ? 'tells no version by its name' : `is version ${set.version}`;
  throw new CheckpointError('NotFound', `${set.where} ${is}, and version ${given} was asked for`, {
    context: { path: set.where, version: given },
  });
}

export const isUri = (text: string): boolean => text.includes('://');

/** `null`: it is in no file system of this machine. */
export function localPath(from: string): string | null {
  if (!isUri(from)) return from;
  if (!/^file:/i.test(from)) return null;
  try {
    return fileURLToPath(from.replace(/[?#].*$/, ''));
  } catch {
    return null; // whoever opens it says what is wrong with it
  }
}

export async function isFile(path: string): Promise<boolean> {
  // What is not there is told by whoever opens it.
  const found = await stat(path).catch(() => null);
  return found?.isFile() ?? false;
}
