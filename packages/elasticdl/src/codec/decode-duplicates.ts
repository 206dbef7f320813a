/**
 * Finds rows that a later row of the same id replaces. It sorts, which takes the same time for all
 * ids; chosen ids could make a hash table slow.
 */

import { HIGH, LOW, wordsOf } from '../id-halves.ts';

/**
 * Indexes of rows whose id does not occur later, ascending. `null` means all rows: the usual case,
 * found without creating a BigInt.
 */
export function survivingRows(ids: BigInt64Array): Uint32Array | null {
  if (repeats(ids, (order) => order <= 0).next().done) return null;
  const repeated = BigInt64Array.from(distinct(repeats(ids.slice().sort(), (order) => order === 0)));
  if (repeated.length === 0) return null;
  const isSeen = new Uint8Array(repeated.length);
  const survives = new Uint8Array(ids.length);
  let count = 0;
  for (let row = ids.length - 1; row >= 0; row--) {
    const found = indexIn(repeated, ids[row] as bigint);
    if (isSeen[found] === 1) continue;
    if (found >= 0) isSeen[found] = 1;
    survives[row] = 1;
    count++;
  }
  const rows = new Uint32Array(count);
  for (let row = 0, at = 0; row < ids.length; row++) if (survives[row] === 1) rows[at++] = row;
  return rows;
}

/**
 * Yields the ids whose order relative to the previous id is wanted: negative if smaller, 0 if
 * equal.
 */
function* repeats(ids: BigInt64Array, isWanted: (order: number) => boolean): Generator<bigint> {
  const words = wordsOf(ids);
  const signed = new Int32Array(words.buffer, words.byteOffset, words.length);
  for (let at = 2; at < words.length; at += 2) {
    const high = (signed[at + HIGH] as number) - (signed[at - 2 + HIGH] as number);
    const order = high || (words[at + LOW] as number) - (words[at - 2 + LOW] as number);
    if (isWanted(order)) yield ids[at / 2] as bigint;
  }
}

function* distinct(ascending: Iterable<bigint>): Generator<bigint> {
  let before: bigint | undefined;
  for (const id of ascending) {
    if (id !== before) yield id;
    before = id;
  }
}

/** -1 if the id is not in the list. */
function indexIn(ascending: BigInt64Array, id: bigint): number {
  let low = 0;
  let high = ascending.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((ascending[middle] as bigint) < id) low = middle + 1;
    else high = middle;
  }
  return ascending[low] === id ? low : -1;
}
