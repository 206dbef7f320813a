/** Finds the byte ranges of wanted rows, and reads them ahead of the copying. */

import type { Stretch } from './arena.ts';
import type { DividedTable } from './divide-ids.ts';
import type { IdRecord, IdSpool } from './id-spool.ts';

/**
 * A smaller gap between two rows is read and dropped: another request, or another call, would cost
 * more.
 */
const GAP_BYTES_MAX = 65_536;

/**
 * Rows `from` to `to` (exclusive) of a record, and the byte range of these rows with the gaps
 * between them.
 */
export interface RowBlock {
  readonly table: DividedTable;
  readonly file: number;
  readonly record: IdRecord;
  readonly from: number;
  readonly to: number;
  readonly offsetBytes: number;
  readonly lengthBytes: number;
}

/**
 * In the order of tables, files and rows. A block takes at most `blockBytes`, which must hold at
 * least one row.
 */
export async function* rowBlocks(
  tables: readonly DividedTable[],
  spool: IdSpool,
  blockBytes: number,
): AsyncGenerator<RowBlock, undefined> {
  for (const table of tables) {
    for (const { file, place, records } of table.parts) {
      for (const kept of records) {
        const record = await spool.load(kept);
        const { rowBytes } = table.table;
        for (let from = 0, to = 0; from < record.positions.length; from = to) {
          to = blockEnd(record.positions, from, rowBytes, blockBytes);
          const first = record.positions[from] ?? 0;
          const lengthBytes = ((record.positions[to - 1] ?? 0) - first + 1) * rowBytes;
          const offsetBytes = place.values.offsetBytes + (record.firstRow + first) * rowBytes;
          yield { table, file, record, from, to, offsetBytes, lengthBytes };
        }
      }
    }
  }
}

function blockEnd(positions: Uint16Array, from: number, rowBytes: number, blockBytes: number): number {
  const stepMax = 1 + GAP_BYTES_MAX / rowBytes;
  const lastMax = (positions[from] ?? 0) + blockBytes / rowBytes - 1;
  for (let to = from + 1; to < positions.length; to++) {
    const position = positions[to] ?? 0;
    if (position > lastMax || position - (positions[to - 1] ?? 0) > stepMax) return to;
  }
  return positions.length;
}

export interface ReadBlock {
  readonly block: RowBlock;
  /** Holds the block's bytes until the next block is requested. */
  readonly stretch: Stretch;
}

/**
 * Reads as many blocks at once as there are stretches. When it ends, for any reason, no read is in
 * flight.
 */
export async function* readAhead(
  blocks: AsyncGenerator<RowBlock, undefined>,
  stretches: readonly Stretch[],
  read: (block: RowBlock, stretch: Stretch) => Promise<void>,
): AsyncGenerator<ReadBlock, undefined> {
  const free = [...stretches];
  const ahead: (ReadBlock & { readonly reading: Promise<void> })[] = [];
  try {
    for (;;) {
      for (let stretch = free.pop(); stretch !== undefined; stretch = free.pop()) {
        const next = await blocks.next();
        if (next.done === true) break;
        const reading = read(next.value, stretch);
        reading.catch(() => undefined); // Awaited later: when its turn comes, or in `finally`.
        ahead.push({ block: next.value, stretch, reading });
      }
      const first = ahead.shift();
      if (first === undefined) return;
      await first.reading;
      yield first;
      free.push(first.stretch);
    }
  } finally {
    await Promise.allSettled(ahead.map(({ reading }) => reading));
  }
}
