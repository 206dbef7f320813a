import { atATime, checkSome } from '@holdfast/core/contract';
import { readIds } from '../codec/read-ids.ts';
import { readShardLayout } from '../codec/read-layout.ts';
import { CHECK, type CheckOptions } from '../reading-options.ts';
import { aSet } from '../rules.ts';
import { type MergedModel, mergeLayouts, type NamedLayout } from '../scatter/merge-layouts.ts';
import { OnceSource } from '../scatter/once-source.ts';
import { findSuspicions } from '../scatter/suspicions.ts';
import type { ShardFile, ShardSet } from '../shard-set.ts';

const FILES_AT_ONCE = 4;

/** Bytes kept from around the headers of one file, so that its ids are not read twice. */
const KEPT_BYTES = 1024 * 1024;

/**
 * Reads the structure of every shard and all ids, but no values, and checks that they are one
 * model. Each source is verified as unchanged at the end.
 *
 * `Corrupt`:
 * - a file does not decode, or its numbers of ids and rows differ
 * - shards contradict each other, in their versions or about a table
 * - the files have no version, but the set has one
 *
 * `InvalidArgument`: a type is ambiguous and `numbering` is not given.
 */
export async function checkShards(set: ShardSet, options: CheckOptions = {}): Promise<MergedModel> {
  aSet('set', set);
  checkSome(options, CHECK);
  const files = new Map<ShardFile, NamedLayout>();
  await atATime(set.shards, FILES_AT_ONCE, async (shard) => {
    files.set(shard, await checkShard(shard, options));
  });
  const layouts = set.shards.flatMap((shard) => files.get(shard) ?? []);
  const model = mergeLayouts(layouts, set.version);
  if (options.onSuspicion === undefined) return model;
  for (const reason of await findSuspicions(set, layouts, model, options)) options.onSuspicion(reason);
  return model;
}

async function checkShard(shard: ShardFile, options: CheckOptions): Promise<NamedLayout> {
  const name = shard.path ?? shard.name;
  const source = new OnceSource(shard.source, KEPT_BYTES);
  const layout = await readShardLayout(source, { ...options, name });
  source.keepNoMore();
  for (const table of layout.tables) {
    for await (const _ids of readIds(source, table, { name, signal: options.signal })) {
      // Reading ids to the end counts and checks them.
    }
  }
  await source.assertUnchanged();
  return { name, layout };
}
