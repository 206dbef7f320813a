/**
 * Opens the target of a repartition: a directory for a complete version, or a file in it for one
 * server's shard.
 */

import { join } from 'node:path';
import { CheckpointError, isCheckpointError, type RestoreTarget } from '@holdfast/core/contract';
import type { Naming } from '@holdfast/elasticdl';
import type { Call } from '../command.ts';
import { confirmedReplace, replace, tellLeft } from '../replace-option.ts';
import { usageError } from '../usage-error.ts';

export interface Division {
  /** Number of the new shards. */
  readonly count: number;
  /** Writes only this shard; `undefined`: all. */
  readonly index: number | undefined;
  readonly naming: Naming;
  /** Directory of the version. */
  readonly directory: string;
}

/**
 * Errors: as for `LocalFiles.openTarget` and `openTargetFile`; also `TargetExists` as for
 * `assertSameDivision`.
 */
export function openRepartitionTarget(call: Call, division: Division): Promise<RestoreTarget> {
  const { index } = division;
  return index === undefined ? wholeVersion(call, division) : oneShard(call, division, index);
}

async function wholeVersion(call: Call, { directory }: Division): Promise<RestoreTarget> {
  const [{ parseShardFile }, { localFiles }] = await Promise.all([
    import('@holdfast/elasticdl'),
    import('@holdfast/local-files'),
  ]);
  // By their names, because ElasticDL itself has usually written the existing files.
  const isOwn = (name: string) => parseShardFile(name) !== null;
  return localFiles.openTarget(directory, {
    replace: await confirmedReplace(call, directory, isOwn),
    isOwn,
    signal: call.signal,
    onLeft: (left) => tellLeft(call, left),
  });
}

/** Keeps the shards of other servers: each server writes its own, perhaps into one directory. */
async function oneShard(
  call: Call,
  { directory, count, naming }: Division,
  index: number,
): Promise<RestoreTarget> {
  const [{ extensionOf, shardFile }, { openTargetFile }] = await Promise.all([
    import('@holdfast/elasticdl'),
    import('@holdfast/local-files'),
  ]);
  const given = call.get(replace) ?? false;
  if (given === 'everything') {
    throw usageError('--replace=everything replaces a complete version, but --index writes one file', [
      'pass --replace to replace an existing shard',
    ]);
  }
  const name = shardFile(index, count, extensionOf(naming));
  await assertSameDivision(call, directory, { name, count });
  return openTargetFile(join(directory, name), { replace: given, signal: call.signal });
}

/**
 * Throws `TargetExists` if the directory holds shards for another number of servers, or this one
 * under another name.
 */
async function assertSameDivision(
  call: Call,
  directory: string,
  own: { readonly name: string; readonly count: number },
): Promise<void> {
  const { directoryPlace, parseShardFile } = await import('@holdfast/elasticdl');
  const { signal } = call;
  const folders = await directoryPlace(directory)
    .list(signal)
    .catch((error: unknown) => {
      if (isCheckpointError(error, 'NotFound')) return new Map<string, readonly string[]>();
      throw error;
    });
  const index = parseShardFile(own.name)?.index;
  for (const name of folders.get('') ?? []) {
    const shard = parseShardFile(name);
    if (shard === null || name === own.name) continue;
    if (shard.count === own.count && shard.index !== index) continue;
    const message = `${directory} holds ${name}, which cannot be combined with ${own.name}`;
    const advice = ['write to another place: shards for two different server counts are not one checkpoint'];
    throw new CheckpointError('TargetExists', message, { context: { path: directory, advice } });
  }
}
