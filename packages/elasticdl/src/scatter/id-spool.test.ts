import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type IdRecord, IdSpool } from './id-spool.ts';

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'holdfast-spool-'));
});

afterEach(() => rm(directory, { recursive: true }));

function record(firstRow: number, positions: readonly number[]): IdRecord {
  const halves = Int32Array.from(positions, (position) => firstRow + position);
  return {
    firstRow,
    halves: Int32Array.from([...halves, ...halves]),
    positions: Uint16Array.from(positions),
  };
}

const RECORDS: readonly (readonly [IdRecord, number])[] = [
  [record(0, [0, 1, 2]), 3],
  [record(3, [1, 65_535]), 65_536],
  [record(70_000, [0]), 1],
  [record(70_001, []), 4],
];

test.each([
  ['in memory', 1000, 0],
  ['in a file', 0, 24 + 20 + 8],
  ['the first in memory, the others in a file', 30, 28],
])('%s, records come back as they were, in any order', async (_, memoryBytes, fileBytes) => {
  const spool = new IdSpool(memoryBytes, directory);
  const kept = [];
  for (const [each, rowCount] of RECORDS) kept.push(await spool.keep(each, rowCount));
  expect(spool.fileBytes).toBe(fileBytes);
  for (const at of [3, 0, 2, 1]) expect(await spool.load(kept[at]!)).toEqual(RECORDS[at]![0]);
  expect(await readdir(directory)).toEqual([]);
  await spool.close();
});

test('what was given may be used again at once', async () => {
  for (const memoryBytes of [0, 1000]) {
    const spool = new IdSpool(memoryBytes, directory);
    const halves = Int32Array.of(1, 2);
    const kept = await spool.keep({ firstRow: 5, halves, positions: Uint16Array.of(0) }, 1);
    halves.fill(9);
    expect((await spool.load(kept)).halves).toEqual(Int32Array.of(1, 2));
    await spool.close();
  }
});
