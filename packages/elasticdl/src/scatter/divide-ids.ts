/**
 * The first pass: reads every id once and decides where its row goes. After it, the size of all
 * output is known.
 *
 * The last row with an id survives, by index of the file and then by position in it. Ids are
 * processed in reverse order, so the first occurrence seen is the one that stays.
 */

import { atATime } from '@holdfast/core/contract';
import { readIds } from '../codec/read-ids.ts';
import { idBytes } from '../codec/write-ids.ts';
import { bucketsOf } from '../hash.ts';
import { HIGH, LOW } from '../id-halves.ts';
import type { TablePlace } from '../layout.ts';
import { BitIdSet, HashIdSet, hashOfId, type IdSet, idAsNumber } from './id-set.ts';
import { type IdRecord, type IdSpool, type KeptRecord, RECORD_ROWS_MAX } from './id-spool.ts';
import type { MergedTable, Part } from './merge-layouts.ts';
import type { OnceSource } from './once-source.ts';

/** The new shards that are wanted; rows of other shards are skipped. */
export interface Destinations {
  readonly count: number;
  /** By index of the new shard: its index among the wanted ones, or -1. */
  readonly slots: Int32Array;
  readonly wantedCount: number;
}

export interface DividedPart extends Part<TablePlace> {
  /** In the order of the rows. */
  readonly records: KeptRecord[];
}

export interface DividedTable {
  readonly table: MergedTable;
  readonly parts: readonly DividedPart[];
  /** By slot: number of rows, and the bytes of their ids as varints. */
  readonly rowCounts: Float64Array;
  readonly idsBytes: Float64Array;
  /** Number of rows that were dropped because a later row has the same id. */
  readonly repeatedCount: number;
}

export interface DivideOptions {
  readonly files: readonly { readonly name: string; readonly source: OnceSource }[];
  readonly destinations: Destinations;
  readonly spool: IdSpool;
  /** For finding repeated ids. Overwritten, so its contents are lost. */
  readonly memory: ArrayBuffer;
  /** Rows of one record; at most `RECORD_ROWS_MAX`. */
  readonly recordRows: number;
  readonly partsAtOnce: number;
  readonly readBytes: number;
  readonly signal: AbortSignal;
}

export async function divideIds(
  tables: readonly MergedTable[],
  options: DivideOptions,
): Promise<DividedTable[]> {
  const { wantedCount } = options.destinations;
  const divided = tables.map((table) => ({
    table,
    parts: table.parts.map((part): DividedPart => ({ ...part, records: [] })),
    rowCounts: new Float64Array(wantedCount),
    idsBytes: new Float64Array(wantedCount),
    repeatedCount: 0,
    range: { first: Number.POSITIVE_INFINITY, last: Number.NEGATIVE_INFINITY },
  }));
  const work = divided.flatMap((table) => table.parts.map((part) => ({ table, part })));
  await atATime(work, options.partsAtOnce, ({ table, part }) => dividePart(table, part, options));
  for (const table of divided) await dropRepeated(table, options);
  return divided;
}

interface TableInWork extends DividedTable {
  readonly range: { first: number; last: number };
  repeatedCount: number;
}

async function dividePart(table: TableInWork, part: DividedPart, options: DivideOptions): Promise<void> {
  const { files, destinations, spool, recordRows, readBytes, signal } = options;
  const file = files[part.file];
  if (file === undefined) throw new RangeError(`there is no file ${part.file}`);
  const { rowCount, ids: runs } = part.place;
  // There may be many small tables, so each takes only the memory that it needs.
  const idsBytes = runs.reduce((sum, { lengthBytes }) => sum + lengthBytes, 0);
  const buckets = new Uint32Array(Math.min(RECORD_ROWS_MAX, rowCount));
  const rowsMax = Math.min(recordRows, rowCount);
  const chosen = { halves: new Int32Array(2 * rowsMax), positions: new Uint16Array(rowsMax) };
  const reading = { name: file.name, bufferBytes: Math.min(readBytes, idsBytes), signal };
  for await (const { ids, firstRow } of readIds(file.source, part.place, reading)) {
    bucketsOf(ids, destinations.count, buckets);
    const halves = new Int32Array(ids.buffer, ids.byteOffset, 2 * ids.length);
    for (let from = 0; from < ids.length; from += recordRows) {
      const to = Math.min(from + recordRows, ids.length);
      const count = choose({ halves, buckets, from, to }, destinations.slots, table, chosen);
      if (count === 0) continue;
      const record: IdRecord = {
        firstRow: firstRow + from,
        halves: chosen.halves.subarray(0, 2 * count),
        positions: chosen.positions.subarray(0, count),
      };
      part.records.push(await spool.keep(record, to - from));
    }
  }
}

interface IdsToChoose {
  readonly halves: Int32Array;
  readonly buckets: Uint32Array;
  readonly from: number;
  readonly to: number;
}

/** Copies and counts the wanted ids. Hot: runs once for each row. */
function choose(
  { halves, buckets, from, to }: IdsToChoose,
  slots: Int32Array,
  { rowCounts, idsBytes, range }: TableInWork,
  { halves: chosenHalves, positions }: { readonly halves: Int32Array; readonly positions: Uint16Array },
): number {
  let { first, last } = range;
  let count = 0;
  for (let at = from; at < to; at++) {
    const slot = slots[buckets[at] as number] as number;
    if (slot < 0) continue;
    const low = halves[2 * at + LOW] as number;
    const high = halves[2 * at + HIGH] as number;
    chosenHalves[2 * count + LOW] = low;
    chosenHalves[2 * count + HIGH] = high;
    positions[count++] = at - from;
    rowCounts[slot] = (rowCounts[slot] as number) + 1;
    idsBytes[slot] = (idsBytes[slot] as number) + idBytes(high, low);
    const id = idAsNumber(low, high);
    if (id < first) first = id;
    if (id > last) last = id;
  }
  range.first = first;
  range.last = last;
  return count;
}

async function dropRepeated(table: TableInWork, options: DivideOptions): Promise<void> {
  const rowCount = table.rowCounts.reduce((sum, count) => sum + count, 0);
  if (rowCount < 2) return;
  const { set, passes, seed } = setFor(table, rowCount, new Int32Array(options.memory));
  for (let pass = 0; pass < passes; pass++) {
    set.clear();
    const isOfPass = (low: number, high: number) =>
      passes === 1 || (hashOfId(low, high, ~seed) >>> 0) % passes === pass;
    for (const part of table.parts.toReversed()) await dropFromPart(table, part, { set, isOfPass }, options);
  }
}

/**
 * Chooses the set: one bit per id for a narrow range, otherwise a hash table that fits the memory,
 * in as many passes as needed.
 */
function setFor(
  { range: { first, last } }: TableInWork,
  rowCount: number,
  memory: Int32Array,
): { set: IdSet; passes: number; seed: number } {
  const seed = crypto.getRandomValues(new Int32Array(1))[0] ?? 0;
  const hashBytesMax = HashIdSet.BYTES_PER_SLOT * 2 ** Math.ceil(Math.log2(2 * rowCount));
  if (BitIdSet.sizeBytes(first, last) <= Math.min(memory.byteLength, hashBytesMax))
    return { set: new BitIdSet(first, last, memory), passes: 1, seed };
  // At most half full on average: chains stay short, and a pass with more than its share still
  // fits.
  const slotCountMax = 2 ** Math.floor(Math.log2(memory.byteLength / HashIdSet.BYTES_PER_SLOT));
  const slotCount = Math.min(slotCountMax, hashBytesMax / HashIdSet.BYTES_PER_SLOT);
  return {
    set: new HashIdSet(slotCount, seed, memory),
    passes: Math.ceil((2 * rowCount) / slotCount),
    seed,
  };
}

interface Sieve {
  readonly set: IdSet;
  readonly isOfPass: (low: number, high: number) => boolean;
}

async function dropFromPart(
  table: TableInWork,
  part: DividedPart,
  sieve: Sieve,
  { spool, destinations, signal }: DivideOptions,
): Promise<void> {
  for (let at = part.records.length - 1; at >= 0; at--) {
    // This loop may run without ever waiting, so let timers run: a timer renews a lease.
    await new Promise((resolve) => setImmediate(resolve));
    signal.throwIfAborted();
    const kept = part.records[at];
    if (kept === undefined) continue;
    const record = await spool.load(kept);
    const repeated = repeatedIn(record, sieve);
    if (repeated.length === 0) continue;
    discount(table, record, repeated, destinations);
    table.repeatedCount += repeated.length;
    part.records[at] = await spool.keep(without(record, repeated), Number.POSITIVE_INFINITY);
  }
}

function without({ firstRow, halves, positions }: IdRecord, repeated: readonly number[]): IdRecord {
  const isGone = new Uint8Array(positions.length);
  for (const at of repeated) isGone[at] = 1;
  return {
    firstRow,
    halves: halves.filter((_, half) => isGone[half >> 1] === 0),
    positions: positions.filter((_, at) => isGone[at] === 0),
  };
}

/** Indices in the record of ids that a later row has too. Hot: runs once for each row and pass. */
function repeatedIn({ halves, positions }: IdRecord, { set, isOfPass }: Sieve): number[] {
  const repeated: number[] = [];
  for (let at = positions.length - 1; at >= 0; at--) {
    const low = halves[2 * at + LOW] as number;
    const high = halves[2 * at + HIGH] as number;
    if (isOfPass(low, high) && !set.add(low, high)) repeated.push(at);
  }
  return repeated;
}

function discount(
  { rowCounts, idsBytes }: TableInWork,
  { halves }: IdRecord,
  repeated: readonly number[],
  { count, slots }: Destinations,
): void {
  const ids = new BigInt64Array(halves.buffer, halves.byteOffset, halves.length / 2);
  const buckets = new Uint32Array(ids.length);
  bucketsOf(ids, count, buckets);
  for (const at of repeated) {
    const slot = slots[buckets[at] ?? 0] ?? 0;
    rowCounts[slot] = (rowCounts[slot] ?? 0) - 1;
    idsBytes[slot] = (idsBytes[slot] ?? 0) - idBytes(halves[2 * at + HIGH] ?? 0, halves[2 * at + LOW] ?? 0);
  }
}
