/**
 * Reshards one checkpoint to any number of shards: ElasticDL's hashes decide where variables and
 * rows go.
 */

import {
  abortError,
  atATime,
  CheckpointError,
  callback,
  checkSome,
  having,
  orNull,
  wholeNumber,
} from '@holdfast/core/contract';
import { quoted } from '../codec/read-errors.ts';
import { readShardLayout } from '../codec/read-layout.ts';
import { stringToId } from '../hash.ts';
import { READING, type ReadingOptions } from '../reading-options.ts';
import { aSet, SHARD_COUNT_MAX } from '../rules.ts';
import type { ShardFile, ShardSet } from '../shard-set.ts';
import type { ShardSink, TableOutline } from '../sink.ts';
import { createArena } from './arena.ts';
import { allEnded } from './at-once.ts';
import { type Destinations, type DividedTable, divideIds } from './divide-ids.ts';
import { IdSpool, RECORD_ROWS_MAX } from './id-spool.ts';
import { type MergedModel, mergeLayouts, type NamedLayout } from './merge-layouts.ts';
import { type DenseMove, moveDense } from './move-dense.ts';
import { moveRows } from './move-rows.ts';
import { OnceSource } from './once-source.ts';
import { MoveProgress } from './progress.ts';
import { findSuspicions } from './suspicions.ts';

export interface ScatterOptions extends ReadingOptions {
  /** Number of the new shards, 1 to 65,536. */
  readonly count: number;
  /**
   * Called once for each index, 0 to `count - 1`, before anything is read. Returns `null` if this
   * shard is not wanted.
   */
  openSink(index: number): ShardSink | null;
}

const BUFFER_BYTES_DEFAULT = 256 * 1024 * 1024;
const FILES_AT_ONCE = 8;
/**
 * Decoding ids is limited by the processor; more at once would only hide the latency of a store.
 */
const PARTS_AT_ONCE_MAX = 4;

/**
 * Shares of the buffer. The arena is used twice: finding repeated ids ends before the first row
 * moves.
 */
const SHARE = { idsInMemory: 1 / 4, structure: 1 / 16, arena: 1 / 2 } as const;

/**
 * Gives each new shard its share: variables by the hash of their name, rows by their id, in the
 * order of the files and of the rows in them. If an id is repeated, the last row stays; if a
 * variable is, that of the last file. Both are suspicions, because servers share neither. Every
 * shard gets the infos of all tables, even of those without rows there. If no file declares a
 * table's type and initializer, they are `float32` and `uniform`. All tables move, including those
 * of optimizer slots.
 *
 * Every byte of a file is read once. Resolves when every sink has ended and every source is
 * verified; until then do not trust what the sinks received. After a failure nothing is in flight.
 *
 * `Corrupt`: a file is damaged, the files do not belong together (as if two of them have a variable
 * in two shapes), or they have no version but the set has one. The message names file, variable or
 * table, and position. `InvalidArgument`: wrong options, or rows too long for the memory. Errors of
 * sinks and sources are thrown too.
 */
export async function scatterModel(
  set: ShardSet,
  options: ScatterOptions,
): Promise<{ readonly version: number }> {
  aSet('set', set);
  checkSome(options, { ...READING, count: wholeNumber(1, SHARD_COUNT_MAX), openSink: callback });
  const { signal, bufferBytes = BUFFER_BYTES_DEFAULT } = options;
  const { destinations, sinks } = openSinks(options);
  const stop = new AbortController();
  const onAbort = () => signal && stop.abort(abortError(signal));
  if (signal?.aborted) onAbort();
  signal?.addEventListener('abort', onAbort, { once: true });
  const spool = new IdSpool(bufferBytes * SHARE.idsInMemory, options.scratchDirectory);
  try {
    const scatter = { set, options, bufferBytes, destinations, sinks, stop, spool };
    return await scattered(scatter);
  } catch (error) {
    stop.abort(error);
    throw stop.signal.reason;
  } finally {
    signal?.removeEventListener('abort', onAbort);
    await spool.close();
  }
}

interface Scatter {
  readonly set: ShardSet;
  readonly options: ScatterOptions;
  readonly bufferBytes: number;
  readonly destinations: Destinations;
  readonly sinks: readonly ShardSink[];
  readonly stop: AbortController;
  readonly spool: IdSpool;
}

async function scattered(scatter: Scatter): Promise<{ readonly version: number }> {
  const { set, options, bufferBytes, destinations, sinks, stop, spool } = scatter;
  const keepBytes = (bufferBytes * SHARE.structure) / set.shards.length;
  const sources = set.shards.map(({ source }) => new OnceSource(source, keepBytes));
  const layouts = await readLayouts(scatter, sources);
  const model = mergeLayouts(layouts, set.version);
  await tellSuspicions(scatter, layouts, model);
  for (const source of sources) source.keepNoMore();

  const rowBytesMax = model.tables.reduce(
    (most, { parts, rowBytes }) => (parts.length > 0 ? Math.max(most, rowBytes) : most),
    0,
  );
  const arena = createArena({
    sizeBytes: bufferBytes * SHARE.arena,
    usefulBytes: set.shards.reduce((sum, { source }) => sum + source.sizeBytes, 0),
    sinkCount: sinks.length,
    rowBytesMax,
  });

  const tables = await divideIds(model.tables, {
    files: set.shards.map(({ name }, file) => ({ name, source: sources[file] as OnceSource })),
    destinations,
    spool,
    memory: arena.memory,
    // About twenty records are in use at once, with ten bytes per row.
    recordRows: Math.min(RECORD_ROWS_MAX, Math.floor(bufferBytes / 1024)),
    partsAtOnce: Math.max(1, Math.min(PARTS_AT_ONCE_MAX, Math.floor(bufferBytes / 2 ** 24))),
    readBytes: Math.min(1024 * 1024, bufferBytes / 16),
    signal: stop.signal,
  });
  tellRepeatedRows(tables, options);
  const dense = denseMoves(model, scatter);
  const bySink = Map.groupBy(dense, ({ sink }) => sink);
  const begin = (sink: ShardSink, slot: number) =>
    sink.begin({
      version: model.version,
      infos: model.infos,
      dense: (bySink.get(sink) ?? []).map(({ place: { name, dtype, shape } }) => ({ name, dtype, shape })),
      tables: tables.map((table) => tableOutline(table, slot)),
    });
  await allEnded(sinks.map(begin));

  const progress = new MoveProgress(set, model.version, { tables, dense, report: options.onProgress });
  const onMoved = progress.moved.bind(progress);
  await moveDense(dense, { sources, arena, signal: stop.signal, onMoved });
  await moveRows(tables, { sources, destinations, sinks, spool, arena, stop, onMoved });

  await allEnded(sinks.map((sink) => sink.end()));
  stop.signal.throwIfAborted();
  await atATime(sources, FILES_AT_ONCE, (source) => source.assertUnchanged());
  stop.signal.throwIfAborted();
  return { version: model.version };
}

async function tellSuspicions(
  { set, options, stop }: Scatter,
  layouts: readonly NamedLayout[],
  model: MergedModel,
): Promise<void> {
  const { onSuspicion, numbering } = options;
  if (onSuspicion === undefined) return;
  const found = await findSuspicions(set, layouts, model, { numbering, signal: stop.signal });
  for (const reason of found) onSuspicion(reason);
}

/** Also for a table in which the rows are equal: their values are not compared. */
function tellRepeatedRows(tables: readonly DividedTable[], { onSuspicion }: ScatterOptions): void {
  for (const { table, repeatedCount } of tables) {
    if (repeatedCount === 0) continue;
    const rows = repeatedCount === 1 ? '1 row' : `${repeatedCount} rows`;
    const what = `table ${quoted(table.name)} has ${rows} whose id a later row has too`;
    onSuspicion?.(`${what}; the later row counts`);
  }
}

async function readLayouts(
  { set, options, stop }: Scatter,
  sources: readonly OnceSource[],
): Promise<NamedLayout[]> {
  for (const [at, shard] of set.shards.entries()) assertBelongs(shard, at, set);
  const layouts: NamedLayout[] = [];
  await atATime(set.shards.entries(), FILES_AT_ONCE, async ([file, { name }]) => {
    stop.signal.throwIfAborted();
    const source = sources[file] as OnceSource;
    const { numbering } = options;
    const layout = await readShardLayout(source, { name, numbering, signal: stop.signal });
    layouts[file] = { name, layout };
  });
  return layouts;
}

function assertBelongs({ name, index, count }: ShardFile, at: number, { where, shards }: ShardSet): void {
  if (index === at && count === shards.length) return;
  throw new CheckpointError(
    'Corrupt',
    `${where}: ${name} says it is shard ${index} of ${count}, but is used as shard ${at} of ${shards.length}`,
  );
}

function openSinks({ count, openSink }: ScatterOptions): {
  destinations: Destinations;
  sinks: readonly ShardSink[];
} {
  const slots = new Int32Array(count).fill(-1);
  const sinks: ShardSink[] = [];
  for (let index = 0; index < count; index++) {
    const sink = openSink(index);
    orNull(having('begin', 'putDense', 'putRows', 'end'))('what openSink returns', sink);
    if (sink === null) continue;
    slots[index] = sinks.length;
    sinks.push(sink);
  }
  return { destinations: { count, slots, wantedCount: sinks.length }, sinks };
}

function denseMoves({ dense }: MergedModel, { destinations, sinks }: Scatter): DenseMove[] {
  return Array.from(dense, ([name, part]) => {
    const slot = destinations.slots[stringToId(name, destinations.count)] ?? -1;
    return { ...part, sink: sinks[slot] };
  }).filter((move): move is DenseMove => move.sink !== undefined);
}

function tableOutline(
  { table: { name, dtype, dim }, rowCounts, idsBytes }: DividedTable,
  slot: number,
): TableOutline {
  return { name, dtype, dim, rowCount: rowCounts[slot] ?? 0, idsBytes: idsBytes[slot] ?? 0 };
}
