import { expect, test } from 'vitest';
import type { DividedTable } from './divide-ids.ts';
import { IdSpool } from './id-spool.ts';
import { type RowBlock, readAhead, rowBlocks } from './row-blocks.ts';

async function divided(
  spool: IdSpool,
  rowBytes: number,
  positions: readonly number[],
): Promise<DividedTable> {
  const halves = new Int32Array(2 * positions.length);
  const record = { firstRow: 10, halves, positions: Uint16Array.from(positions) };
  const values = { offsetBytes: 1000, lengthBytes: 0 };
  const place = { name: 'e', dtype: 'float32' as const, dim: 1, rowCount: 0, values, ids: [] };
  const part = { file: 0, place, records: [await spool.keep(record, Number.POSITIVE_INFINITY)] };
  const table = { name: 'e', dtype: 'float32' as const, dim: 1, rowBytes, parts: [part] };
  const counts = { rowCounts: new Float64Array(1), idsBytes: new Float64Array(1), repeatedCount: 0 };
  return { table, parts: [part], ...counts };
}

async function rangesOf(rowBytes: number, positions: readonly number[], blockBytes: number) {
  const spool = new IdSpool(2 ** 20);
  const ranges: [number, number][] = [];
  for await (const { offsetBytes, lengthBytes } of rowBlocks(
    [await divided(spool, rowBytes, positions)],
    spool,
    blockBytes,
  ))
    ranges.push([offsetBytes, lengthBytes]);
  return ranges;
}

test('unwanted rows are skipped if they are long, and read through if they are short', async () => {
  expect(await rangesOf(100_000, [0, 1, 3, 4], 2 ** 22)).toEqual([
    [1_001_000, 200_000],
    [1_301_000, 200_000],
  ]);
  expect(await rangesOf(32_768, [0, 3, 6], 2 ** 22)).toEqual([[328_680, 7 * 32_768]]);
  expect(await rangesOf(32_768, [0, 4], 2 ** 22)).toHaveLength(2);
});

test('a block is no longer than it may be', async () => {
  expect(await rangesOf(100, [0, 1, 2, 3, 4], 250)).toEqual([
    [2000, 200],
    [2200, 200],
    [2400, 100],
  ]);
});

test('rows without elements are one block without bytes', async () => {
  expect(await rangesOf(0, [0, 1, 2], 100)).toEqual([[1000, 0]]);
});

test('readAhead: as many at a time as there are stretches, in order; none is under way when it is left', async () => {
  const spool = new IdSpool(2 ** 20);
  const blocks = rowBlocks([await divided(spool, 100, [0, 1, 2, 3, 4])], spool, 100);
  const stretches = [0, 1].map((at) => ({ offsetBytes: at, sizeBytes: 100 }));
  let [now, most] = [0, 0];
  const read = async () => {
    most = Math.max(most, ++now);
    await new Promise((resolve) => setImmediate(resolve));
    now--;
  };
  const seen: RowBlock[] = [];
  for await (const { block } of readAhead(blocks, stretches, read)) {
    seen.push(block);
    if (seen.length === 3) break;
  }
  expect(seen.map(({ from }) => from)).toEqual([0, 1, 2]);
  expect([most, now]).toEqual([2, 0]);
});
