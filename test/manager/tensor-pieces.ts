/** Tensors that are cut into parts, as ranks hold them. */

import type { SeededRandom } from '@holdfast/testkit';
import { bytes } from './memory-run.ts';

const ITEM_BYTES: Readonly<Record<string, number>> = { U8: 1, BF16: 2, F32: 4, I64: 8 };

export interface Piece {
  readonly shape: number[];
  readonly offsets: number[];
  readonly dtype: string;
  readonly data: Uint8Array;
}

export interface CutTensor {
  readonly shape: number[];
  readonly dtype: string;
  readonly data: Uint8Array;
  readonly pieces: readonly Piece[];
}

/** Cuts a tensor into boxes that cover it, each side of each box at random. */
export function cutAtRandom(
  random: SeededRandom,
  { shape, dtype }: { readonly shape: number[]; readonly dtype: string },
): CutTensor {
  const itemBytes = ITEM_BYTES[dtype] as number;
  const data = bytes(
    shape.reduce((product, side) => product * side, itemBytes),
    random.integer(100),
  );
  let boxes = [{ offsets: shape.map(() => 0), shape }];
  for (const d of shape.keys())
    boxes = boxes.flatMap((box) => {
      const side = box.shape[d] as number;
      if (side < 2 || random.integer(2) === 0) return [box];
      const first = 1 + random.integer(side - 1);
      const [low, high] = [first, side - first].map((length) => box.shape.with(d, length)) as [
        number[],
        number[],
      ];
      const offset = (box.offsets[d] as number) + first;
      return [
        { offsets: box.offsets, shape: low },
        { offsets: box.offsets.with(d, offset), shape: high },
      ];
    });
  const pieces = boxes.map((box) => ({ ...box, dtype, data: elementsOf(data, shape, box, itemBytes) }));
  return { shape, dtype, data, pieces };
}

/** One element at a time, so that it has nothing in common with the code under test. */
function elementsOf(
  data: Uint8Array,
  whole: readonly number[],
  { offsets, shape }: { readonly offsets: readonly number[]; readonly shape: readonly number[] },
  itemBytes: number,
): Uint8Array {
  let places = [0];
  for (const [d, side] of whole.entries())
    places = places.flatMap((place) =>
      Array.from({ length: shape[d] as number }, (_, at) => place * side + at + (offsets[d] as number)),
    );
  return Buffer.concat(places.map((place) => data.subarray(place * itemBytes, (place + 1) * itemBytes)));
}
