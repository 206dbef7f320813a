import { checkOptions } from '@holdfast/core/contract';
import { readIds } from '../codec/read-ids.ts';
import { readShardLayout } from '../codec/read-layout.ts';
import type { DtypeNumbering } from '../layout.ts';
import { aSet, CHECK } from '../rules.ts';
import { eachAtOnce } from '../scatter/at-once.ts';
import { type MergedModel, mergeLayouts, type NamedLayout } from '../scatter/merge-layouts.ts';
import { OnceSource } from '../scatter/once-source.ts';
import { findSuspicions } from '../scatter/suspicions.ts';
import type { ShardFile, ShardSet } from '../shard-set.ts';

export interface CheckOptions {
  /** See `readShardLayout`: asked for only where files do not tell. */
  readonly numbering?: DtypeNumbering | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Told of what looks as if a file had been cut off between two fields: see `findSuspicions`. Default: it is not looked for. */
  readonly onSuspicion?: ((reason: string) => void) | undefined;
}

const FILES_AT_ONCE = 4;

/** Of what stands around the headers of one file: it is not read again for its ids. */
const KEPT_BYTES = 1024 * 1024;

/**
 * Reads the structure of every shard and all ids, but no values, and finds out whether they are one model. `Corrupt`: a file does not decode,
 * ids and rows are of different count, or shards contradict each other, in their versions or in what they say of a table, or tell no version
 * where the set says that they are of one.
 * `InvalidArgument`: what a type is cannot be told, and `numbering` is not given. Each source is proven unchanged at the end.
 */
export async function checkShards(set: ShardSet, options: CheckOptions = {}): Promise<MergedModel> {
  aSet('set', set);
  checkOptions(options, CHECK);
  const files = new Map<ShardFile, NamedLayout>();
  await eachAtOnce(set.shards, FILES_AT_ONCE, async (shard) => {
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
      // Reading them to the end is what counts and checks them.
    }
  }
  await source.assertUnchanged();
  return { name, layout };
}
