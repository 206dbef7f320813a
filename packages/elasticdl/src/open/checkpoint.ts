import {
  type Checkpoint,
  type CheckpointDetails,
  CheckpointError,
  callback,
  checkSome,
  having,
  optional,
  text,
  type WaitOptions,
} from '@holdfast/core/contract';
import { SIGNAL } from '../rules.ts';
import type { ShardSet } from '../shard-set.ts';
import { parseShardFile, parseVersionFolder } from './names.ts';
import { openSet } from './open-set.ts';

export interface CheckpointShardsOptions extends Pick<WaitOptions, 'signal'> {
  /** For messages: the run and the version. Default: the version alone. */
  readonly where?: string | undefined;
  /** See `ShardSet`. */
  readonly openOther?: ShardSet['openOther'];
}

const NAMED_MAX = 5;

/**
 * Opens the shards in a committed checkpoint: its files `variables-i-of-n.ckpt`, or those in its
 * folder `version-N`. Other files are ignored. Each shard holds a read lease until the set is
 * closed; `assertUnchanged` verifies what was read. `NotFound`: the checkpoint has no shards.
 * `Corrupt`: they are not a whole checkpoint of ElasticDL. `InvalidArgument`: the checkpoint is not
 * committed.
 */
export async function openCheckpointShards(
  checkpoint: Checkpoint,
  options: CheckpointShardsOptions = {},
): Promise<ShardSet> {
  having('details', 'openSource')('checkpoint', checkpoint);
  checkSome(options, { ...SIGNAL, where: optional(text), openOther: optional(callback) });
  const { where = `version ${checkpoint.version}`, openOther, signal } = options;
  const { files, writers } = await checkpoint.details({ signal });
  const [folder, names] = shardFolder(files, where);
  const place = {
    where,
    version: checkpoint.version,
    writers,
    openOther,
    names,
    open: (name: string) => checkpoint.openSource(folder + name, { signal }),
  };
  return openSet(place, signal);
}

/** The folder, ending in '/', and the names in it. */
function shardFolder(files: CheckpointDetails['files'], where: string): [folder: string, names: string[]] {
  const folders = new Map<string, string[]>();
  for (const { name } of files) {
    const start = name.lastIndexOf('/') + 1;
    const folder = name.slice(0, start);
    const isPlace = folder === '' || parseVersionFolder(folder.slice(0, -1)) !== null;
    if (!isPlace || parseShardFile(name.slice(start)) === null) continue;
    folders.set(folder, [...(folders.get(folder) ?? []), name.slice(start)]);
  }
  const [found, second] = [...folders];
  if (found && second) {
    const names = [...folders].map(([folder, [first]]) => folder + first).join(' and ');
    throw new CheckpointError('Corrupt', `${where} holds shards of more than one checkpoint: ${names}`);
  }
  if (found) return found;
  const seen = files.slice(0, NAMED_MAX).map(({ name }) => name);
  const more = files.length > NAMED_MAX ? ` and ${files.length - NAMED_MAX} more` : '';
  throw new CheckpointError(
    'NotFound',
    `${where} holds no shard of ElasticDL (variables-i-of-n.ckpt); its files are ${seen.join(', ')}${more}`,
  );
}
