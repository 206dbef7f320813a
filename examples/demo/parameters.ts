/** What the model consists of: three embedding tables and four dense variables, with the values they begin with. */

import { bell, mix } from './chance.ts';

/** Elements of a row, in every table. The first is the weight of its user, item or hour; the others say what it is like. */
export const DIM = 16;
export const HIDDEN_COUNT = 16;
export const TABLE_NAMES = ['user', 'item', 'hour'] as const;

export interface DenseVariable {
  readonly name: string;
  /** Empty for a scalar. */
  readonly shape: readonly number[];
  readonly length: number;
  /** How far from 0 its elements begin. */
  readonly scale: number;
}

/** In the order in which `DeepFm` takes them. */
export const DENSE_VARIABLES: readonly DenseVariable[] = [
  denseVariable('bias:0', [], 0),
  denseVariable('hidden/kernel:0', [TABLE_NAMES.length * DIM, HIDDEN_COUNT], 0.15),
  denseVariable('hidden/bias:0', [HIDDEN_COUNT], 0),
  denseVariable('output/kernel:0', [HIDDEN_COUNT], 0.25),
];

function denseVariable(name: string, shape: readonly number[], scale: number): DenseVariable {
  return { name, shape, length: shape.reduce((product, size) => product * size, 1), scale };
}

/** How large the model is, and what its chance follows from. */
export interface Shape {
  readonly seed: number;
  /** Users, items, hours. */
  readonly rowCounts: readonly [number, number, number];
}

const HOUR_COUNT = 24;
/** In a checkpoint: the row and its id, which takes about three bytes there, and the same again for the optimizer's accumulators. */
const ROW_BYTES = 2 * (DIM * Float32Array.BYTES_PER_ELEMENT + 3);

/** Seven users to an item. Checkpoints come to about `sizeBytes`. */
export function shapeOf(seed: number, sizeBytes: number): Shape {
  const rowCount = Math.floor(sizeBytes / ROW_BYTES);
  const itemCount = Math.floor(rowCount / 8);
  return { seed, rowCounts: [rowCount - itemCount - HOUR_COUNT, itemCount, HOUR_COUNT] };
}

/** What row `id` of a table begins with: the same on whichever server it is. */
export function beginRow(shape: Shape, table: number, id: number, into: Float32Array): void {
  for (let k = 0; k < DIM; k++) {
    into[k] = k === 0 ? 0 : 0.08 * bell(mix(shape.seed ^ (table + 1), id, k));
  }
}

export function beginDense(shape: Shape, { length, scale }: DenseVariable): Float32Array {
  return Float32Array.from({ length }, (_, k) => scale * bell(mix(shape.seed ^ length, k, 99)));
}
