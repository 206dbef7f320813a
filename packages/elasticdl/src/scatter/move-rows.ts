/**
 * Moves the rows of tables, after a first pass over the ids has assigned each row to a new shard
 * (`divide-ids.ts`). Reads the values once, in order, and copies each row to the buffer of its
 * shard. A full buffer goes to the sink of the shard.
 */

import { DIRECT_ALIGNMENT_BYTES } from '@holdfast/local-files';
import { bucketsOf } from '../hash.ts';
import type { ShardSink } from '../sink.ts';
import type { Arena, Stretch } from './arena.ts';
import { Pool } from './at-once.ts';
import type { Destinations, DividedTable } from './divide-ids.ts';
import type { IdSpool } from './id-spool.ts';
import type { OnceSource } from './once-source.ts';
import { type ReadBlock, type RowBlock, readAhead, rowBlocks } from './row-blocks.ts';
import { copyRows, goesByWords, type Outlets, type Views } from './row-copies.ts';

const ID_BYTES = 8;

export interface MoveOptions {
  readonly sources: readonly OnceSource[];
  readonly destinations: Destinations;
  /** By slot: the index of a new shard among the wanted ones. */
  readonly sinks: readonly ShardSink[];
  readonly spool: IdSpool;
  readonly arena: Arena;
  /** Fired by the first failure. */
  readonly stop: AbortController;
  /** Called when rows of a file were read and copied, with the bytes of their values. */
  readonly onMoved: (file: number, bytes: number) => void;
}

export async function moveRows(tables: readonly DividedTable[], options: MoveOptions): Promise<void> {
  const { sources, spool, arena, stop, onMoved } = options;
  const read = async ({ file, offsetBytes, lengthBytes }: RowBlock, stretch: Stretch) => {
    stop.signal.throwIfAborted();
    await sources[file]?.readInto(
      offsetBytes,
      new Uint8Array(arena.memory, stretch.offsetBytes, lengthBytes),
    );
  };
  const writer = new RowWriter(options);
  try {
    for await (const found of readAhead(
      rowBlocks(tables, spool, arena.incomingBytes),
      arena.incoming,
      read,
    )) {
      await writer.write(found);
      const { block } = found;
      onMoved(block.file, (block.to - block.from) * block.table.table.rowBytes);
    }
    writer.finishTable();
  } catch (error) {
    stop.abort(error);
  } finally {
    await writer.ended();
  }
  stop.signal.throwIfAborted();
}

/** A buffer that is being filled for one sink. */
interface Filling {
  readonly stretch: Stretch;
  /** Offsets of values and ids in the arena, in bytes. */
  readonly valuesAt: number;
  readonly idsAt: number;
}

class RowWriter {
  readonly #options: MoveOptions;
  readonly #views: Views;
  readonly #free: Pool<Stretch>;
  readonly #outlets: Outlets;
  readonly #filling: (Filling | null)[];
  /** By slot: number of rows of the current table that were passed to the sink. */
  readonly #sentRows: Float64Array;
  /** By slot: settles when all calls of the sink so far have settled. Never rejects. */
  readonly #calls: Promise<void>[];
  #table: DividedTable | null = null;
  #slots = new Uint32Array(0);

  constructor(options: MoveOptions) {
    const { arena, sinks } = options;
    const memory = arena.memory;
    this.#options = options;
    this.#views = { bytes: new Uint8Array(memory), words: new Int32Array(memory) };
    this.#free = new Pool(arena.outgoing);
    const bySlot = () => new Int32Array(sinks.length);
    this.#outlets = { valueAt: bySlot(), idAt: bySlot(), idEnd: bySlot() };
    this.#filling = sinks.map(() => null);
    this.#sentRows = new Float64Array(sinks.length);
    this.#calls = sinks.map(() => Promise.resolve());
  }

  async write({ block, stretch }: ReadBlock): Promise<void> {
    if (block.table !== this.#table) this.#beginTable(block.table);
    const { record, from, to, table } = block;
    const slots = this.#slotsOf(record.halves.subarray(2 * from, 2 * to));
    const { rowBytes } = table.table;
    const rows = { ...record, rowBytes, offsetBytes: stretch.offsetBytes, from, to, slots };
    for (let row = from; ; ) {
      row = copyRows(this.#views, this.#outlets, rows, row);
      if (row === to) return;
      await this.#nextBuffer(slots[row - from] ?? 0, table);
    }
  }

  /** Sends the contents of all buffers to the sinks. */
  finishTable(): void {
    for (const slot of this.#filling.keys()) this.#send(slot);
  }

  /** Waits for every call. */
  async ended(): Promise<void> {
    await Promise.all(this.#calls);
  }

  #beginTable(table: DividedTable): void {
    this.finishTable();
    this.#sentRows.fill(0);
    this.#table = table;
  }

  #slotsOf(halves: Int32Array): Uint32Array {
    const { count, slots } = this.#options.destinations;
    const ids = new BigInt64Array(halves.buffer, halves.byteOffset, halves.length / 2);
    if (this.#slots.length < ids.length) this.#slots = new Uint32Array(ids.length);
    const found = this.#slots;
    bucketsOf(ids, count, found);
    for (let at = 0; at < ids.length; at++) found[at] = slots[found[at] as number] as number;
    return found;
  }

  async #nextBuffer(slot: number, { table: { name, rowBytes } }: DividedTable): Promise<void> {
    this.#send(slot);
    const stretch = await this.#free.take();
    this.#options.stop.signal.throwIfAborted();
    const wanted = this.#options.sinks[slot]?.placeInPage?.(name, this.#sentRows[slot] ?? 0) ?? 0;
    const place = goesByWords(rowBytes) && wanted % 4 !== 0 ? 0 : wanted;
    const rowCount = Math.floor(
      (stretch.sizeBytes - DIRECT_ALIGNMENT_BYTES - ID_BYTES) / (rowBytes + ID_BYTES),
    );
    const valuesAt = stretch.offsetBytes + place;
    const idsAt = Math.ceil((valuesAt + rowCount * rowBytes) / ID_BYTES) * ID_BYTES;
    this.#filling[slot] = { stretch, valuesAt, idsAt };
    this.#outlets.valueAt[slot] = valuesAt;
    this.#outlets.idAt[slot] = idsAt / 4;
    this.#outlets.idEnd[slot] = idsAt / 4 + 2 * rowCount;
  }

  #send(slot: number): void {
    const filling = this.#filling[slot];
    const sink = this.#options.sinks[slot];
    const name = this.#table?.table.name;
    if (filling === null || filling === undefined || sink === undefined || name === undefined) return;
    const { idAt, idEnd, valueAt } = this.#outlets;
    const rowCount = ((idAt[slot] ?? 0) - filling.idsAt / 4) / 2;
    const ids = new BigInt64Array(this.#options.arena.memory, filling.idsAt, rowCount);
    const values = this.#views.bytes.subarray(filling.valuesAt, valueAt[slot]);
    const firstRow = this.#sentRows[slot] ?? 0;
    this.#sentRows[slot] = firstRow + rowCount;
    this.#filling[slot] = null;
    idEnd[slot] = idAt[slot] ?? 0;
    const { stop } = this.#options;
    const call = async () => {
      if (!stop.signal.aborted) await sink.putRows(name, firstRow, ids, values);
    };
    this.#calls[slot] = (this.#calls[slot] ?? Promise.resolve())
      .then(call)
      .catch((error: unknown) => stop.abort(error))
      .finally(() => this.#free.give(filling.stretch));
  }
}
