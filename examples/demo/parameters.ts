/**
 * The parameters of the model: three embedding tables and four dense variables, with their initial
 * values.
 */

import { bell, mix } from './chance.ts';

/**
 * Elements of a row, in every table. The first is the weight of its user, item or hour. The others
 * are its embedding.
 */
export const DIM = 16;
export const HIDDEN_COUNT = 16;
export const TABLE_NAMES = ['user', 'item', 'hour'] as const;

export interface DenseVariable {
  readonly name: string;
  /** Empty for a scalar. */
  readonly shape: readonly number[];
  readonly length: number;
  /** Bound for the absolute values of its initial elements. */
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

/** Size of the model, and the seed of its random numbers. */
export interface Shape {
  readonly seed: number;
  /** Users, items, hours. */
  readonly rowCounts: readonly [number, number, number];
}

const HOUR_COUNT = 24;
/**
 * Size of one row in a checkpoint: the row and its id, and the same again for the optimizer's
 * accumulators. An id takes about three bytes there.
 */
const ROW_BYTES = 2 * (DIM * Float32Array.BYTES_PER_ELEMENT + 3);

/** Seven users for each item. Checkpoints take about `sizeBytes`. */
export function shapeOf(seed: number, sizeBytes: number): Shape {
  const rowCount = Math.floor(sizeBytes / ROW_BYTES);
  const itemCount = Math.floor(rowCount / 8);
  return { seed, rowCounts: [rowCount - itemCount - HOUR_COUNT, itemCount, HOUR_COUNT] };
}

/** Writes the initial values of row `id` of a table. They are the same on every server. */
export function beginRow(shape: Shape, table: number, id: number, into: Float32Array): void {
  for (let k = 0; k < DIM; k++) {
    into[k] = k === 0 ? 0 : 0.08 * bell(mix(shape.seed ^ (table + 1), id, k));
  }
}

export function beginDense(shape: Shape, { length, scale }: DenseVariable): Float32Array {
  return Float32Array.from({ length }, (_, k) => scale * bell(mix(shape.seed ^ length, k, 99)));
}
