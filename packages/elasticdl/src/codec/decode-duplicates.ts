/**
 * Rows that a later one of the same id replaces. By sorting, which takes as long whatever the ids are: a hash table can be made slow by whoever
 * chooses them.
 */

import { HIGH, LOW, wordsOf } from '../id-halves.ts';

/** The rows whose id no later row has, ascending; `null`: all of them, as is usual, and then no BigInt is made for any. */
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

/** The ids that stand to the one before them as wanted: negative where it is smaller, 0 where it is the same. */
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

/** -1: it is not there. */
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
