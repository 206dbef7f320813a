/** Which elements of the parts of a tensor lie in a range of the whole one. Pure. */

import type { Box } from './joined-tensors.ts';

/** Elements that are consecutive in the part and in the whole. */
export interface ElementRun {
  readonly partStart: number;
  readonly wholeStart: number;
  readonly count: number;
}

/**
 * Number of elements of the part before element `index` of the whole, in C order. Elements of a
 * part have the same order in the whole, so a range of the whole is a range of each part.
 */
export function countBefore(whole: readonly number[], part: Box, index: number): number {
  let rest = index;
  let innerWhole = whole.reduce((product, side) => product * side, 1);
  let innerPart = part.shape.reduce((product, side) => product * side, 1);
  if (index >= innerWhole) return innerPart;
  let count = 0;
  for (const [d, side] of whole.entries()) {
    innerWhole /= side;
    const partSide = part.shape[d] as number;
    innerPart = partSide === 0 ? 0 : innerPart / partSide;
    const at = Math.floor(rest / innerWhole) - (part.offsets[d] as number);
    rest %= innerWhole;
    if (at < 0) return count;
    if (at >= partSide) return count + partSide * innerPart;
    count += at * innerPart;
  }
  return count;
}

/** The elements `start` to `end - 1` of the part, as runs that are as long as possible. */
export function* runsOf(
  whole: readonly number[],
  part: Box,
  { start, end }: { readonly start: number; readonly end: number },
): Generator<ElementRun> {
  const runCount = runLength(whole, part);
  for (let at = start; at < end; ) {
    const count = Math.min(runCount - (at % runCount), end - at);
    yield { partStart: at, wholeStart: placeInWhole(whole, part, at), count };
    at += count;
  }
}

/** The inner dimensions in which the part is as long as the whole, and the one before them. */
function runLength(whole: readonly number[], part: Box): number {
  let count = 1;
  for (let d = whole.length - 1; d >= 0; d -= 1) {
    count *= part.shape[d] as number;
    if (part.shape[d] !== whole[d]) break;
  }
  return count;
}

function placeInWhole(whole: readonly number[], part: Box, index: number): number {
  let rest = index;
  let place = 0;
  let stride = 1;
  for (let d = whole.length - 1; d >= 0; d -= 1) {
    const side = part.shape[d] as number;
    place += ((rest % side) + (part.offsets[d] as number)) * stride;
    rest = Math.floor(rest / side);
    stride *= whole[d] as number;
  }
  return place;
}
