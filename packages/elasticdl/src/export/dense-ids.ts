/** Checks ids that are used as row numbers: each is compared first, without a BigInt for each. */

import { CheckpointError } from '@holdfast/core/contract';
import { quoted } from '../codec/read-errors.ts';
import { HIGH, LOW, wordsOf } from '../id-halves.ts';

/** Limit for ids that are counters. Hashes of 64 bits would give a file that is almost empty. */
export const HIGHEST_ROWS_MAX = 100_000_000;

/** Index of the first id outside 0 to `rowCount - 1`; -1 if there is none. */
export function firstOutside(ids: BigInt64Array, rowCount: number): number {
  const words = wordsOf(ids);
  for (let i = 0; i < words.length; i += 2)
    if (words[i + HIGH] !== 0 || (words[i + LOW] as number) >= rowCount) return i / 2;
  return -1;
}

/** The highest of ids that are valid row numbers; -1 if there are no ids. */
export function highestId(ids: BigInt64Array): number {
  const words = wordsOf(ids);
  let highest = -1;
  for (let i = LOW; i < words.length; i += 2)
    if ((words[i] as number) > highest) highest = words[i] as number;
  return highest;
}

/** `InvalidArgument` with the first id that has no row in the dense table. */
export function checkIds(table: string, ids: BigInt64Array, rowCount: number): void {
  const at = firstOutside(ids, rowCount);
  if (at < 0) return;
  const rows =
    rowCount === 0
      ? 'is exported without rows'
      : `is exported with ${rowCount} rows, for ids 0 to ${rowCount - 1}`;
  throw new CheckpointError(
    'InvalidArgument',
    `table ${quoted(table)} has id ${ids[at]}, but ${rows}; ${wayOut(ids[at] as bigint, 'give it more')}`,
  );
}

/** As `checkIds`, for a table whose highest id decides the number of rows. */
export function checkIdsToCount(table: string, ids: BigInt64Array): void {
  const at = firstOutside(ids, HIGHEST_ROWS_MAX);
  if (at < 0) return;
  throw new CheckpointError(
    'InvalidArgument',
    `table ${quoted(table)} has id ${ids[at]}; the highest id decides the number of rows only for ids 0 to ${HIGHEST_ROWS_MAX - 1}; ${wayOut(ids[at] as bigint, 'pass the number of rows')}`,
  );
}

function wayOut(id: bigint, more: string): string {
  return id < 0n
    ? 'no dense table has rows for ids below 0: export it sparse'
    : `${more}, or export it sparse`;
}
