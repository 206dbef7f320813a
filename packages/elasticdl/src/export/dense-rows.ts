import { atATime } from '@holdfast/core/contract';
import { readIds } from '../codec/read-ids.ts';
import { readShardLayout } from '../codec/read-layout.ts';
import type { ReadingOptions } from '../reading-options.ts';
import { type MergedTable, mergeLayouts, type NamedLayout } from '../scatter/merge-layouts.ts';
import type { ShardSet } from '../shard-set.ts';
import { checkIds, checkIdsToCount, highestId } from './dense-ids.ts';
import { type RowCount, storeTables, type TableOptions } from './table-storage.ts';

const FILES_AT_ONCE = 8;

/**
 * Number of rows of each dense table, after reading the structure of all files and the ids of these
 * tables. `InvalidArgument`: as `storeTables`, or an id has no row in its table. `Corrupt`: as
 * `readShardLayout` and `readIds`.
 */
export async function denseRowCounts(
  set: ShardSet,
  options: TableOptions & ReadingOptions,
): Promise<Readonly<Record<string, number>>> {
  const layouts: NamedLayout[] = [];
  await atATime(set.shards.entries(), FILES_AT_ONCE, async ([file, { name, source }]) => {
    const { numbering, signal } = options;
    const layout = await readShardLayout(source, { name, signal, ...(numbering && { numbering }) });
    layouts[file] = { name, layout };
  });
  const { tables } = mergeLayouts(layouts, set.version);
  const { kept } = storeTables(tables, options);
  const counts: [string, number][] = [];
  for (const table of tables) {
    const storage = kept.get(table.name);
    if (storage?.kind !== 'dense') continue;
    counts.push([table.name, await denseRowCount(set, table, storage.rowCount, options)]);
  }
  return Object.fromEntries(counts);
}

async function denseRowCount(
  set: ShardSet,
  { name, parts }: MergedTable,
  rowCount: RowCount,
  { signal }: ReadingOptions,
): Promise<number> {
  let highest = -1;
  for (const { file, place } of parts) {
    const shard = set.shards[file];
    if (shard === undefined) throw new RangeError(`there is no file ${file}`);
    for await (const { ids } of readIds(shard.source, place, { name: shard.name, signal })) {
      if (rowCount !== 'highest') checkIds(name, ids, rowCount);
      else {
        checkIdsToCount(name, ids);
        highest = Math.max(highest, highestId(ids));
      }
    }
  }
  return rowCount === 'highest' ? highest + 1 : rowCount;
}
