/** Dividing the shards of one checkpoint anew: variables and rows go where ElasticDL's hashes say, for any number of shards. */

import {
  abortError,
  CheckpointError,
  callback,
  checkOptions,
  having,
  orNull,
  type ProgressEvent,
  wholeNumber,
} from '@holdfast/core/contract';
import { readShardLayout } from '../codec/read-layout.ts';
import { stringToId } from '../hash.ts';
import type { DtypeNumbering } from '../layout.ts';
import { aSet, READING, SHARD_COUNT_MAX } from '../rules.ts';
import type { ShardFile, ShardSet } from '../shard-set.ts';
import type { ShardSink, TableOutline } from '../sink.ts';
import { createArena } from './arena.ts';
import { allEnded, eachAtOnce } from './at-once.ts';
import { type Destinations, type DividedTable, divideIds } from './divide-ids.ts';
import { IdSpool, RECORD_ROWS_MAX } from './id-spool.ts';
import { type MergedModel, mergeLayouts, type NamedLayout } from './merge-layouts.ts';
import { type DenseMove, moveDense } from './move-dense.ts';
import { moveRows } from './move-rows.ts';
import { OnceSource } from './once-source.ts';
import { MoveProgress } from './progress.ts';
import { findSuspicions } from './suspicions.ts';

export interface ReadingOptions {
  /**
   * Memory for ids and rows, in bytes: 1 MiB or more, by default 256 MiB. Besides this much it takes about 2 MiB, and what the structure
   * of the files takes, whose names and shapes are held.
   */
  readonly bufferBytes?: number | undefined;
  /** Where the file for ids goes that do not fit into memory; by default the directory for temporary files. */
  readonly scratchDirectory?: string | undefined;
  /** Needed only where the files do not tell; the error then says so. */
  readonly numbering?: DtypeNumbering | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Told of what looks as if a file had been cut off between two fields: see `findSuspicions`. Default: it is not looked for. */
  readonly onSuspicion?: ((reason: string) => void) | undefined;
  /** `planned` once it is known what moves, by the files it is read from; then `bytes`, of these files. */
  readonly onProgress?: ((event: ProgressEvent) => void) | undefined;
}

export interface ScatterOptions extends ReadingOptions {
  /** Number of the new shards, 1 to 65,536. */
  readonly count: number;
  /** Called once for each, 0 to `count - 1`, before anything is read. `null`: this one is not wanted. */
  openSink(index: number): ShardSink | null;
}

const BUFFER_BYTES_DEFAULT = 256 * 1024 * 1024;
const FILES_AT_ONCE = 8;
/** Decoding ids takes a processor, which does not become two; more at once only hide the latency of a store. */
const PARTS_AT_ONCE_MAX = 4;

/** Shares of the buffer. The arena serves twice: finding repeated ids ends before the first row moves. */
const SHARE = { idsInMemory: 1 / 4, structure: 1 / 16, arena: 1 / 2 } as const;

/**
 * Gives each new shard its share: variables by the hash of their name, rows by their id, in the order of the files and of the rows in
 * them. Of an id that is there twice the later row stays; of a variable, the later file's. Every shard learns of every table, those
 * without rows there included; what no file tells of a table is `float32` and `uniform`. All tables move, those of optimizer slots too.
 *
 * Every byte of a file is read once. Resolves when every sink has ended and every source has been proven; before that, nothing that the
 * sinks were given is to be trusted. After a failure nothing is under way any more.
 *
 * `Corrupt`: a file is damaged, or the files do not belong together, or tell no version where the set says one; the message names file, variable or table, and place.
 * `InvalidArgument`: options, or rows too long for the memory. Whatever sinks and sources fail with.
 */
export async function scatterModel(
  set: ShardSet,
  options: ScatterOptions,
): Promise<{ readonly version: number }> {
  aSet('set', set);
  checkOptions(options, { ...READING, count: wholeNumber(1, SHARD_COUNT_MAX), openSink: callback });
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
    // Some twenty are in use at once, of ten bytes a row.
    recordRows: Math.min(RECORD_ROWS_MAX, Math.floor(bufferBytes / 1024)),
    partsAtOnce: Math.max(1, Math.min(PARTS_AT_ONCE_MAX, Math.floor(bufferBytes / 2 ** 24))),
    readBytes: Math.min(1024 * 1024, bufferBytes / 16),
    signal: stop.signal,
  });
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
  await eachAtOnce(sources, FILES_AT_ONCE, (source) => source.assertUnchanged());
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

async function readLayouts(
  { set, options, stop }: Scatter,
  sources: readonly OnceSource[],
): Promise<NamedLayout[]> {
  for (const [at, shard] of set.shards.entries()) assertBelongs(shard, at, set);
  const layouts: NamedLayout[] = [];
  await eachAtOnce(set.shards.entries(), FILES_AT_ONCE, async ([file, { name }]) => {
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
    `${where}: ${name} says it is shard ${index} of ${count}, and stands as shard ${at} of ${shards.length}`,
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
